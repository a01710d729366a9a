// A folder on this machine that keeps metadata of remote data from one process to the next. Any of
// its files may be lost at any time, because the bytes can be read again from the servers. Why and
// how: docs/decisions/0014-metadata-of-remote-data.md.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/mutex.h"

namespace forebay::io {

// Many processes may use one folder at the same time, and any thread may call anything. Nothing
// here returns an error: a file that cannot be read counts as missing, and one that cannot be
// written is not kept.
class KeptFiles {
 public:
  struct Options {
    std::string folder;
    // The approximate limit for all files together; the least recently used files are removed.
    // Unset: a tenth of the free space on the disk, at most base::kKeptBytesMax.
    std::optional<uint64_t> bytes_max = {};
  };

  explicit KeptFiles(Options options) : options_(std::move(options)) {}

  // The bytes that were put under this name. Nothing if there is no such file, or if it cannot be
  // trusted: it is damaged, belongs to another user, or others may write to it.
  std::optional<base::ByteVector> get(const std::string& name) const;
  // Whether there is a file of this name, which get() may still refuse.
  bool has(const std::string& name) const;
  // Stores these bytes under this name, in place of earlier ones. A name is 64 hexadecimal digits,
  // a dot, and letters, digits and "-". The bytes appear whole or not at all. After a failure this
  // object writes nothing more. Files with other names in the folder are never touched.
  void put(const std::string& name, base::Bytes content) const EXCLUDES(mutex_);
  // Why nothing can be written, as a message; empty while writing works.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  std::string path_of(const std::string& name) const;
  bool write(const std::string& name, base::Bytes content) const EXCLUDES(mutex_);
  void give_up(std::string_view what, const std::string& path) const EXCLUDES(mutex_);
  void give_up(const std::string& why) const EXCLUDES(mutex_);
  uint64_t bytes_max() const;
  void remove_oldest() const;

  const Options options_;
  mutable std::atomic<bool> writes_ = true;
  // Bytes put since this object last ran remove_oldest(). It starts so large that the first put
  // runs it.
  mutable std::atomic<uint64_t> unchecked_bytes_ = UINT64_MAX / 2;
  mutable base::Mutex mutex_;
  mutable std::string trouble_ GUARDED_BY(mutex_);
};

// The files in `folder`; if that is empty, in the folder that FOREBAY_INDEX_CACHE names, else in
// "forebay" in XDG_CACHE_HOME or in ~/.cache. Null if the folder is "off", or if none of these
// variables and HOME is set. An empty variable counts as unset.
std::shared_ptr<const KeptFiles> kept_files(std::string folder);

}  // namespace forebay::io
