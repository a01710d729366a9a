#include "cache/cached_origin.h"

#include "cache/peers/file_name.h"
#include "io/machine.h"

namespace forebay::cache {

namespace {

class FileOfCache final : public io::ReadableFile, public io::Prefetchable {
 public:
  FileOfCache(std::shared_ptr<const CachedFile> file, Cache& cache, bool anew)
      : file_(std::move(file)), cache_(cache), anew_(anew) {}

  const std::string& path() const override { return file_->file->path(); }
  const io::Identity& identity() const override { return file_->file->identity(); }
  Status read(uint64_t offset, io::MutableBytes out,
              const io::ReadOptions& options) const override {
    return io::read_ranges(*this, {{offset, out}}, options);
  }
  void start(std::vector<io::Range> ranges, const io::ReadOptions& options,
             std::function<void(Status)> done) const override {
    cache_.read(file_, std::move(ranges), options, anew_, std::move(done));
  }
  void prefetch(const std::vector<WantedRange>& ranges, const io::ReadOptions& options,
                std::function<void(io::PrefetchOutcome)> done) const override {
    cache_.prefetch(*file_, ranges, options, std::move(done));
  }

 private:
  const std::shared_ptr<const CachedFile> file_;
  Cache& cache_;
  const bool anew_;
};

// The common beginning of the paths of a dataset's files: for a range of shards, what comes before
// the brace.
std::string root_of(const std::string& path) {
  const size_t brace = path.find('{');
  if (brace != std::string::npos) return path.substr(0, brace);
  return path.ends_with('/') ? path : path + "/";
}

}  // namespace

CachedOrigin::CachedOrigin(std::shared_ptr<const io::Origin> origin, std::shared_ptr<Cache> cache,
                           const std::string& path)
    : origin_(std::move(origin)),
      cache_(std::move(cache)),
      root_(root_of(path)),
      process_(io::process_id()) {
  cache_->sources().add(root_, origin_);
}

CachedOrigin::~CachedOrigin() {
  if (is_here()) cache_->sources().remove(root_, *origin_);
}

bool CachedOrigin::is_here() const { return process_ == io::process_id(); }

Result<std::unique_ptr<io::ReadableFile>> CachedOrigin::open(const std::string& path,
                                                             const io::OpenOptions& options) const {
  ASSIGN_OR_RETURN(auto file, origin_->open(path, options));
  const bool may_cache = options.known && options.copies != io::Copies::kNone && is_here();
  if (!may_cache) return file;
  const std::string target = encode_target({path, *options.known});
  auto cached =
      std::make_shared<const CachedFile>(CachedFile{.target = target,
                                                    .id = base::sha256(base::as_bytes(target)),
                                                    .file = std::move(file),
                                                    .waits = !origin_->is_remote(path)});
  return std::make_unique<FileOfCache>(std::move(cached), *cache_,
                                       options.copies == io::Copies::kAnew);
}

}  // namespace forebay::cache
