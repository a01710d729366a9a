// Reads the files of samples ahead of whoever takes them: many reads are in flight at once, within
// bounded memory. Files of a shard that lie close together come in one read.
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
  // Gives the sample whose files shall be read after those that it gave before; null at the end.
  using Next = std::function<const SourceSample*()>;

  // Starts to read. The crew is the reader's until it ends; one of its threads begins the reads.
  // The constructor and take() call `next`. `origin` and `listing` outlive the reader. When `stop`
  // is requested, all reads end.
  SourceReader(base::Crew& crew, const io::Origin& origin, const Listing& listing, Next next,
               std::stop_token stop = {});
  // Gives up what is in flight.
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  // Waits for the contents of the next sample's files, in the order of SourceSample::files. There
  // must be a next sample. Errors: kTooBig concerns the content; kInvalid where the file is gone,
  // or its size or time of change is not what was listed; kCancelled after a stop; all others
  // concern the disk or the network.
  std::vector<Result<base::ByteVector>> take();

 private:
  // Bytes that come in one read, and which files they are.
  struct Run {
    SourceShard from;  // a shard, or a file of a folder
    uint64_t offset = 0;
    uint64_t length = 0;
    size_t files = 0;  // that are not taken yet
    base::ByteVector bytes = {};
    bool done = false;
    Status status = {};
  };
  // Where a file's content will be.
  struct FileContent {
    Run* run = nullptr;  // null where it is not read: it is `text`, or `refused` says why
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
  std::deque<Sample> samples_;  // that were not taken yet
  uint64_t ahead_bytes_ = 0;    // of all runs
  bool ended_ = false;          // next() gave the last sample
  Run* growing_ = nullptr;      // the last run, while it may become longer; it is not read yet
  uint64_t next_run_ = 0;       // the number of the next run
  std::shared_ptr<const io::ReadableFile> shard_;  // opened last; the reading thread's

  base::Mutex mutex_;
  base::CondVar landed_;
  const Run* awaited_ GUARDED_BY(mutex_) = nullptr;
  // By number. The owner alone adds and drops runs; while one is in flight, only the thread that
  // finishes it writes to it.
  std::map<uint64_t, Run> runs_ GUARDED_BY(mutex_);
  std::unique_ptr<io::ReadQueue> queue_;
  std::optional<std::stop_callback<std::function<void()>>> cancel_;
};

}  // namespace forebay::store
