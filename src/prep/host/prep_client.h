// A host's requests to its prep servers.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/crew.h"
#include "base/queue.h"
#include "io/secret.h"
#include "io/serve/range_client.h"
#include "prep/wire/answers.h"
#include "prep/wire/batch_bytes.h"
#include "prep/wire/paths.h"
#include "prep/wire/received_memory.h"
#include "prep/wire/tables.h"

namespace forebay::prep {

// The address of a prep server.
struct ServerAddress {
  std::string name;  // as the user gave it
  std::string host;  // an IP address
  uint16_t port = 0;
  bool is_tls = false;
  bool is_loopback = false;
};
// Reads "http://HOST:PORT" or "https://HOST:PORT", and looks up the host's name. Errors: kInvalid
// for other texts, and for http:// to another machine, because only TLS proves who answers;
// kUnavailable if the name is not known.
Result<ServerAddress> parse_server(const std::string& url);

// Any thread may call anything.
class PrepClient {
 public:
  // A client for so many servers. The secret is for servers with TLS. Errors: kInvalid if it is too
  // short.
  static Result<std::unique_ptr<PrepClient>> open(const io::Secret& secret, uint32_t servers);
  // Ends all requests; each one's `done` has been called before this returns.
  ~PrepClient();

  // Sends a job's text, and the tables that it names and the server lacks, so that its steps can be
  // fetched. If the server leaves batches as files in a folder that is visible here, they come as
  // files from then on. Calls `done` once, in any thread, possibly before this returns, with the
  // number of finished steps that the server can keep. Errors: those that the server reports;
  // kUnavailable; kCorrupt if the answer is not a prep server's.
  void send_job(const ServerAddress& place, const std::string& text,
                const std::vector<Table>& tables, std::function<void(Result<uint32_t>)> done)
      EXCLUDES(mutex_);
  // Names the list of the next epoch's samples, and sends it if the server lacks it. Calls `done`
  // once, like send_job().
  void send_list(const ServerAddress& place, const ListPath& path, const Table& list,
                 std::function<void(Status)> done);
  // Whether this server's batches come as files.
  bool sees_files(const ServerAddress& place) EXCLUDES(mutex_) {
    return !folder_of(place.name).empty();
  }

  struct Fetched {
    ReceivedBatch batch;
    uint64_t bytes = 0;
    bool is_file = false;  // whether it came as a file
  };
  // Fetches a step's batch; the prep server prepares it first. Calls `done` once, like send_job().
  // The fetch ends with kCancelled if `unwanted` is set and then drop_unwanted() is called. Errors:
  // those that the server reports (kNotFound: it does not have the job); kUnavailable; kIo if the
  // batch's file cannot be read; kCorrupt if the bytes are not the expected batch.
  void fetch(const ServerAddress& place, const Expected& expected,
             std::shared_ptr<const std::atomic<bool>> unwanted,
             std::function<void(Result<Fetched>)> done) EXCLUDES(mutex_);
  void drop_unwanted();

  // A request with a small answer: stay_path(), or text_of() a step that the server shall keep. It
  // can be cancelled like fetch(), and has no time limit.
  void tell(const ServerAddress& place, const std::string& path,
            std::shared_ptr<const std::atomic<bool>> unwanted, std::function<void(Status)> done);
  // Tells the server that a step is over (Asked::kOver), without waiting for its answer.
  void tell_over(const ServerAddress& place, const StepPath& step);

 private:
  class Taker;
  // A server's folder of batches, visible here.
  struct Folder {
    std::string path;
    uint32_t failures = 0;  // how many files in a row could not be read
  };
  PrepClient();
  io::serve::RangeClient& client_for(const ServerAddress& place) {
    return place.is_tls && tls_ != nullptr ? *tls_ : *plain_;
  }

  using Done = std::function<void(Result<std::string>)>;  // gets the text of an answer
  // A request whose answer is short.
  struct Small {
    std::string path;
    std::optional<std::string> body = {};                    // set: sent with POST
    int64_t answer_ns = 0;                                   // how long the answer may take
    std::shared_ptr<const std::atomic<bool>> unwanted = {};  // null: never cancelled
  };
  void ask_small(const ServerAddress& place, const Small& small, Done done);
  void ask_with_tables(const ServerAddress& place, const Small& small, std::vector<Table> tables,
                       Done done);
  void send_table(const ServerAddress& place, const Table& table, uint64_t offset,
                  std::function<void(Status)> done);
  uint32_t note_answer(const std::string& server, const JobAnswer& answer) EXCLUDES(mutex_);
  std::string folder_of(const std::string& server) EXCLUDES(mutex_);
  void note_reading(const std::string& server, const Status& status) EXCLUDES(mutex_);
  Result<Fetched> read_file(const std::string& path, uint64_t bytes, const Expected& expected);
  void fetch_file(const ServerAddress& place, const Expected& expected, const std::string& folder,
                  const Taker& taker, std::shared_ptr<const std::atomic<bool>> unwanted,
                  const std::function<void(Result<Fetched>)>& done);

  const std::shared_ptr<ReceivedMemory> received_ = std::make_shared<ReceivedMemory>();
  base::Mutex mutex_;
  std::map<std::string, Folder> folders_ GUARDED_BY(mutex_);  // by the server's name
  // Work that may wait for a file system, which the clients' own threads must not do.
  base::Queue<std::function<void()>> to_read_;
  base::Crew readers_;
  std::unique_ptr<io::serve::RangeClient> plain_;
  std::unique_ptr<io::serve::RangeClient> tls_;  // null without a secret
};

}  // namespace forebay::prep
