// The loop of a RangeServer: its connections, the memory for their answers, and its end.
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
#include <set>
#include <string>
#include <thread>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/serve/own_user.h"
#include "io/serve/range_server.h"

namespace forebay::io::serve {

// The HTTP status for an error.
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
  // When it will be closed unless its client sends something; INT64_MAX while it serves its client.
  int64_t client_deadline_ns() const { return is_clients_turn_ ? deadline_ns_ : INT64_MAX; }

 protected:
  int64_t deadline_ns_ = 0;
  bool is_clients_turn_ = false;  // a request or the handshake is awaited
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
  // Empty unless clients must prove that they have the user's secret.
  const Proofs& proofs() const { return proofs_; }
  // Until when the answer to a request that comes now waits for an unknown file: not at all if a
  // file of the same folder was waited for in vain.
  int64_t wait_until_ns(const std::string& path) const;
  void note_unknown(const std::string& path);
  void count_answer(uint64_t bytes) {
    ++requests_;
    bytes_ += bytes;
  }
  void count_refused() { ++refused_; }
  // Answers to members that have no room (kHoldHeader) have memory of their own, because a member
  // may need such an answer before it can give an answer that others here wait for.
  enum class For : uint8_t { kAnyone, kFullMember };
  // Takes memory for an answer, if there is enough now.
  bool take_room_now(For whom, uint64_t bytes) {
    MemoryBudget& from = room(whom);
    if (!from.waiting.empty() || bytes > from.bytes) return false;
    from.bytes -= bytes;
    return true;
  }
  // Takes memory for an answer, now or when there is enough; then calls `then` in the loop.
  void take_room(For whom, uint64_t bytes, std::function<void()> then);
  void give_room(For whom, uint64_t bytes);
  // Has an answer made, if the path names a question; `then` runs in the loop.
  bool ask(const Question& question, std::function<void(Result<MadeAnswer>)> then);
  // Starts a read; `then` runs in the loop, even if the read ends in another thread.
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
  uint64_t reads_ = 0;             // in flight
  std::set<std::string> unknown_;  // folders of files that were waited for in vain
  const int64_t begin_ns_;
  int64_t wait_ns_ = 0;
  Proofs proofs_;
  bool ended_ = false;
  base::Mutex mutex_;  // held while another thread posts to the loop
  uint16_t port_ = 0;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::thread thread_;
};

}  // namespace forebay::io::serve
