// The tables that hosts have sent to a prep server.
#pragma once

#include <list>

#include "base/mutex.h"
#include "prep/wire/paths.h"
#include "prep/wire/tables.h"

namespace forebay::prep {

using base::Status;

// Any thread may call anything.
class HeldTables {
 public:
  // All tables together take at most `bytes_max`.
  explicit HeldTables(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Takes the next piece of a table. A piece that has come before, from any host, changes nothing.
  // The least recently used tables make room. Errors: kInvalid if this is no valid piece of a
  // table; kNoMemory if the table is too large; kUnavailable if the bytes before the piece are
  // missing, or if the whole table does not have the SHA-256 that is its name: then it must be sent
  // again.
  Status put(const TablePiece& piece, Bytes bytes) EXCLUDES(mutex_);
  // Drops tables of which no piece has come since then (io::monotonic_ns()), and which are
  // unfinished.
  void drop_unfinished(int64_t before_ns) EXCLUDES(mutex_);
  // The whole table; null if it is not here.
  std::shared_ptr<const ByteVector> find(const std::string& name) EXCLUDES(mutex_);

 private:
  struct Held {
    std::string name;
    uint64_t bytes = 0;  // of the whole table
    std::shared_ptr<ByteVector> filled;
    int64_t put_ns = 0;  // when its last piece came
  };

  void drop(std::list<Held>::iterator table) REQUIRES(mutex_);
  std::list<Held>::iterator to_front(const std::string& name) REQUIRES(mutex_);

  const uint64_t bytes_max_;
  base::Mutex mutex_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;      // of all tables, counting unfinished ones as whole
  std::list<Held> tables_ GUARDED_BY(mutex_);  // the most recently used table first
};

}  // namespace forebay::prep
