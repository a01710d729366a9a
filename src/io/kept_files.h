// A folder of files on this machine with bytes that can be had again from elsewhere: what is known
// about data on servers, kept from one process to the next. Everything may be lost at any time.
// Why and how: docs/decisions/0014-metadata-of-remote-data.md.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/mutex.h"

namespace forebay::io {

// Many processes may use one folder at the same time, and any thread may call anything. Nothing
// here fails: what cannot be read is not there, and what cannot be written is not kept.
class KeptFiles {
 public:
  struct Options {
    std::string folder;
    // Bytes of all files together, about: those that were not used for the longest time are
    // removed. Unset: a tenth of what is free on the disk, at most base::kKeptBytesMax.
    std::optional<uint64_t> bytes_max = {};
  };

  explicit KeptFiles(Options options) : options_(std::move(options)) {}

  // The bytes that were put under this name. Empty where there are none, or where they cannot be
  // believed: the file is damaged, is not this user's, or others may write to it.
  std::optional<base::ByteVector> get(const std::string& name) const;
  // Whether there is a file of this name, which get() may still refuse.
  bool has(const std::string& name) const;
  // Keeps these bytes in place of what was there under this name, which is 64 hexadecimal digits, a
  // dot, and letters, digits and "-". They appear whole or not at all. After a failure this object
  // writes nothing more. Files of other names in the folder are never touched.
  void put(const std::string& name, base::Bytes content) const EXCLUDES(mutex_);
  // Why nothing can be written, in words; empty while writing works.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  std::string path_of(const std::string& name) const;
  bool write(const std::string& name, base::Bytes content) const EXCLUDES(mutex_);
  void give_up(std::string_view what, const std::string& path) const EXCLUDES(mutex_);
  uint64_t bytes_max() const;
  void remove_oldest() const;

  const Options options_;
  mutable std::atomic<bool> writes_ = true;
  // Bytes that were put since remove_oldest() ran here; the first put runs it.
  mutable std::atomic<uint64_t> unchecked_bytes_ = UINT64_MAX / 2;
  mutable base::Mutex mutex_;
  mutable std::string trouble_ GUARDED_BY(mutex_);
};

// The files in `folder`. Where that is empty: in FOREBAY_INDEX_CACHE, else in "forebay" in
// XDG_CACHE_HOME or in ~/.cache. Null where the folder is "off", or where none of these variables
// and HOME is set. A variable that is empty counts as one that is not set.
std::shared_ptr<const KeptFiles> kept_files(std::string folder);

}  // namespace forebay::io
