// An origin whose chunk files, as Dataset::open_chunk() opens them, may come from the job's cache.
#pragma once

#include <memory>
#include <string>

#include "cache/cache.h"

namespace forebay::cache {

// In a forked process, which has none of the cache's threads, everything comes from the origin.
class CachedOrigin final : public io::Origin {
 public:
  // The files of a dataset; `path` is in any form that store::open_dataset() takes.
  CachedOrigin(std::shared_ptr<const io::Origin> origin, std::shared_ptr<Cache> cache,
               const std::string& path);
  ~CachedOrigin() override;
  CachedOrigin(const CachedOrigin&) = delete;
  CachedOrigin& operator=(const CachedOrigin&) = delete;

  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override;
  Result<base::ByteVector> read_whole(const std::string& path, uint64_t limit) const override {
    return origin_->read_whole(path, limit);
  }
  bool is_remote(const std::string& path) const override { return origin_->is_remote(path); }
  size_t ranges_max(const std::string& path) const override { return origin_->ranges_max(path); }
  bool keeps_copies(const std::string&) const override { return is_here(); }
  io::Traffic traffic(const std::string& path) const override { return origin_->traffic(path); }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return origin_->list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return origin_->stat(path); }
  std::string canonical(const std::string& path) const override { return origin_->canonical(path); }

 private:
  bool is_here() const;

  const std::shared_ptr<const io::Origin> origin_;
  const std::shared_ptr<Cache> cache_;
  const std::string root_;
  const int64_t process_;
};

}  // namespace forebay::cache
