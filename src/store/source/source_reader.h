// Reads the files of samples before they are taken: many reads are in flight at once, within
// bounded memory. Files of a shard that lie close together are read at once.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <stop_token>

#include "base/crew.h"
#include "base/mutex.h"
#include "io/read_queue.h"
#include "store/source/source.h"

namespace forebay::store {

// One thread calls everything.
class SourceReader {
 public:
  // Returns the next sample to be read; null after the last one.
  using Next = std::function<const SourceSample*()>;

  // Starts to read. The reader uses the crew until the reader ends; one of its threads begins the
  // reads. The constructor and take() call `next`. `origin` and `listing` outlive the reader. A
  // stop request ends all reads.
  SourceReader(base::Crew& crew, const io::Origin& origin, const Listing& listing, Next next,
               std::stop_token stop = {});
  // Cancels the reads in flight.
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  // Waits for the contents of the next sample's files, in the order of SourceSample::files. There
  // must be a next sample. Errors: kTooBig (the content is above the limits), kInvalid (the file is
  // gone, or its size or time of change differs from the listing), kCancelled after a stop; all
  // others come from the disk or the network.
  std::vector<Result<base::ByteVector>> take();

 private:
  // One read, which brings one or more files.
  struct Run {
    SourceShard from;  // a shard, or a file of a folder
    uint64_t offset = 0;
    uint64_t length = 0;
    size_t files = 0;  // how many of its files have not been taken yet
    base::ByteVector bytes = {};
    bool done = false;
    Status status = {};
  };
  // Where the content of a file will be found.
  struct FileContent {
    Run* run =
        nullptr;  // null for a file that is not read: its content is `text`, or it is refused
    const std::string* text = nullptr;
    uint64_t offset = 0;
    uint64_t length = 0;
    Status refused = {};
  };
  using Sample = std::vector<FileContent>;

  void fill();
  bool has_room(uint64_t share) EXCLUDES(mutex_);
  void add(const SourceSample& sample);
  FileContent place(const SourceSample& sample, const SourceFile& file) EXCLUDES(mutex_);
  bool is_in_folder(const SourceFile& file) const;
  bool extends_last(const SourceFile& file) const;
  void begin_run(const SourceSample& sample, const SourceFile& file) EXCLUDES(mutex_);
  Result<std::shared_ptr<const io::ReadableFile>> open(const SourceShard& from);
  void start_last();
  void finish(io::DoneRead done) EXCLUDES(mutex_);
  Status wait_for(const Run& run) EXCLUDES(mutex_);
  Status explain(const SourceShard& listed, const Status& error) const;
  Result<base::ByteVector> take_file(const FileContent& place);
  void drop_taken() EXCLUDES(mutex_);

  const io::Origin& origin_;
  const Listing& listing_;
  const Next next_;
  const bool is_remote_;
  std::deque<Sample> samples_;  // samples that have not been taken yet
  uint64_t ahead_bytes_ = 0;    // of all runs
  bool ended_ = false;          // next() has returned null
  Run* growing_ = nullptr;  // the last run, while it may still grow; it has not been started yet
  uint64_t next_run_ = 0;   // the number of the next run
  // The shard that was opened last. Only the thread that begins the reads uses it.
  std::shared_ptr<const io::ReadableFile> shard_;

  base::Mutex mutex_;
  base::CondVar landed_;
  const Run* awaited_ GUARDED_BY(mutex_) = nullptr;
  // By number. Only the reader's own thread adds and drops runs. While a run is in flight, only the
  // thread that finishes it writes to it.
  std::map<uint64_t, Run> runs_ GUARDED_BY(mutex_);
  std::unique_ptr<io::ReadQueue> queue_;
  std::optional<std::stop_callback<std::function<void()>>> cancel_;
};

}  // namespace forebay::store
