// The loop of a RangeServer: its connections, the memory that their answers may take, and its end.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <list>
#include <thread>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/serve/range_server.h"

namespace forebay::io::serve {

// HTTP's status for an error.
constexpr std::string_view status_of(base::Code code) {
  switch (code) {
    case base::Code::kInvalid:
      return "400 Bad Request";
    case base::Code::kNotFound:
      return "404 Not Found";
    case base::Code::kUnsupported:
      return "501 Not Implemented";
    case base::Code::kUnavailable:
    case base::Code::kBusy:
    case base::Code::kCancelled:
      return "503 Service Unavailable";
    case base::Code::kNoMemory:
      return "507 Insufficient Storage";
    default:
      return "500 Internal Server Error";
  }
}

// A connection, as the loop sees it. Only the loop's thread touches it.
class OpenConnection {
 public:
  OpenConnection() = default;
  virtual ~OpenConnection() = default;
  OpenConnection(const OpenConnection&) = delete;
  OpenConnection& operator=(const OpenConnection&) = delete;
  virtual void close() = 0;
  bool is_late(int64_t now_ns) const { return now_ns > deadline_ns_; }
  // When it will be closed unless its client says something; INT64_MAX while it serves its client.
  int64_t client_deadline_ns() const { return is_clients_turn_ ? deadline_ns_ : INT64_MAX; }

 protected:
  int64_t deadline_ns_ = 0;
  bool is_clients_turn_ = false;  // it has asked nothing, or its handshake is not over
};

class RangeServer::Loop {
 public:
  explicit Loop(const ServedFiles& files);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Status open(const RangeServerOptions& options);
  uint16_t port() const { return port_; }
  Served served() const { return {requests_, refused_, bytes_}; }

  // For connections, in the loop's thread:
  const ServedFiles& files() const { return files_; }
  bool has_ended() const { return ended_; }
  // Until when an answer to a request that comes now waits for a file that is not there.
  int64_t wait_until_ns() const;
  void count_answer(uint64_t bytes) {
    ++requests_;
    bytes_ += bytes;
  }
  void count_refused() { ++refused_; }
  // Answers to members that have no room (kHoldHeader) have memory of their own: others may wait
  // for a member that waits for such an answer.
  enum class For : uint8_t { kAnyone, kFullMember };
  // Takes room for an answer where there is some now.
  bool take_room_now(For whom, uint64_t bytes) {
    MemoryBudget& from = room(whom);
    if (!from.waiting.empty() || bytes > from.bytes) return false;
    from.bytes -= bytes;
    return true;
  }
  // Gives room for an answer now or later; `then` runs in the loop.
  void take_room(For whom, uint64_t bytes, std::function<void()> then);
  void give_room(For whom, uint64_t bytes);
  // Asks for an answer to be made, if the path names a question; `then` runs in the loop.
  bool ask(const Question& question, std::function<void(Result<MadeAnswer>)> then);
  // Begins a read; `then` runs in the loop, also where the read ends in another thread.
  void read(For whom, const std::string& path, std::vector<Range> ranges,
            std::function<void(Status)> then);

 private:
  void accept();
  bool make_place();
  void begin(boost::asio::ip::tcp::socket socket);
  void sweep();
  void end_if_idle() {
    if (ended_ && reads_ == 0) work_.reset();
  }

  const ServedFiles& files_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::optional<boost::asio::ssl::context> tls_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  boost::asio::steady_timer sweeper_;
  std::list<std::weak_ptr<OpenConnection>> connections_;
  const size_t connections_max_;
  static constexpr uint64_t kHoldBytes = 64u << 20;
  struct MemoryBudget {
    uint64_t bytes = 0;
    std::deque<std::pair<uint64_t, std::function<void()>>> waiting = {};
  };
  MemoryBudget& room(For whom) { return budgets_[static_cast<size_t>(whom)]; }
  std::array<MemoryBudget, 2> budgets_{MemoryBudget{base::kServedBytesMax},
                                       MemoryBudget{kHoldBytes}};
  uint64_t reads_ = 0;  // in flight
  const int64_t begin_ns_;
  int64_t wait_ns_ = 0;
  bool ended_ = false;
  base::Mutex mutex_;  // held while another thread tells the loop of something
  uint16_t port_ = 0;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::thread thread_;
};

}  // namespace forebay::io::serve
