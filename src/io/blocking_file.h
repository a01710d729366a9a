// Files whose reads make the calling thread wait, like those of local disks and of memory.
#pragma once

#include "io/origin.h"

namespace forebay::io {

// Reads in pieces, and looks between them whether the read shall be given up.
class BlockingFile : public ReadableFile {
 public:
  BlockingFile(std::string path, Identity identity)
      : path_(std::move(path)), identity_(std::move(identity)) {}
  const std::string& path() const final { return path_; }
  const Identity& identity() const final { return identity_; }
  Status read(uint64_t offset, MutableBytes out, const ReadOptions& options) const final;

 protected:
  // Fills some bytes from the beginning of `out`, which is not empty, and says how many; 0 at the
  // file's end.
  virtual Result<size_t> read_some(uint64_t offset, MutableBytes out) const = 0;

 private:
  const std::string path_;
  const Identity identity_;
};

// A file whose bytes, or whose first ones, are in memory, which outlives it.
class LoadedFile final : public BlockingFile {
 public:
  LoadedFile(std::string path, Bytes data) : LoadedFile(std::move(path), data, data.size()) {}
  // The file has `size` bytes; reading ends after those in memory.
  LoadedFile(std::string path, Bytes data, uint64_t size);

 private:
  Result<size_t> read_some(uint64_t offset, MutableBytes out) const override;

  const Bytes data_;
};

}  // namespace forebay::io
