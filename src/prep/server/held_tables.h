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
  // All tables together have so many bytes at most.
  explicit HeldTables(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Takes the next piece of a table; one that came before, from whomever, changes nothing. Others
  // make room, those first that nobody looked for of late. Errors: kInvalid, when it is no piece of
  // a table; kNoMemory, when the table is too large; kUnavailable, when what comes before it is not
  // here, or when the whole table is not what its name says: then it is to be sent again.
  Status put(const TablePiece& piece, Bytes bytes) EXCLUDES(mutex_);
  // The whole table; null where it is not here.
  std::shared_ptr<const ByteVector> find(const std::string& name) EXCLUDES(mutex_);

 private:
  struct Held {
    std::string name;
    uint64_t bytes = 0;  // of the whole table
    std::shared_ptr<ByteVector> filled;
  };

  void drop(std::list<Held>::iterator table) REQUIRES(mutex_);
  std::list<Held>::iterator to_front(const std::string& name) REQUIRES(mutex_);

  const uint64_t bytes_max_;
  base::Mutex mutex_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;      // of all tables, as if they were whole
  std::list<Held> tables_ GUARDED_BY(mutex_);  // those that were looked for last are the first
};

}  // namespace forebay::prep
