// Files with blocking reads, like those of local disks and of memory.
#pragma once

#include "io/origin.h"

namespace forebay::io {

// Reads in pieces, and checks between them whether the read was stopped or its deadline has passed.
class BlockingFile : public ReadableFile {
 public:
  BlockingFile(std::string path, Identity identity)
      : path_(std::move(path)), identity_(std::move(identity)) {}
  const std::string& path() const final { return path_; }
  const Identity& identity() const final { return identity_; }
  Status read(uint64_t offset, MutableBytes out, const ReadOptions& options) const final;

 protected:
  // Reads bytes into the beginning of `out`, which is not empty. Returns how many: at least one, or
  // 0 at the file's end.
  virtual Result<size_t> read_some(uint64_t offset, MutableBytes out) const = 0;

 private:
  const std::string path_;
  const Identity identity_;
};

// A file whose content, or the beginning of it, is in memory. The memory must outlive the file.
class LoadedFile final : public BlockingFile {
 public:
  LoadedFile(std::string path, Bytes data) : LoadedFile(std::move(path), data, data.size()) {}
  // `size` is the file's size. Reads beyond the bytes in memory return kTruncated.
  LoadedFile(std::string path, Bytes data, uint64_t size);

 private:
  Result<size_t> read_some(uint64_t offset, MutableBytes out) const override;

  const Bytes data_;
};

}  // namespace forebay::io
