// How S3 is talked to: which URL an object has, who signs, and what errors mean.
#pragma once

#include <atomic>
#include <map>

#include "base/mutex.h"
#include "io/http/service.h"
#include "io/s3/credentials.h"

namespace forebay::io::s3 {

// A path "s3://bucket/key".
struct ObjectName {
  std::string bucket;
  std::string key = {};  // empty for the bucket itself
};
// Errors: kInvalid without a bucket.
Result<ObjectName> split_path(const std::string& path);

class S3Protocol final : public http::Protocol {
 public:
  // Errors: those of finding the first credentials.
  static Result<std::unique_ptr<const S3Protocol>> make(Settings settings, Surroundings around);
  ~S3Protocol() override;

  Result<http::Request> request(std::string_view method, const std::string& path,
                                std::string_view query) const override;
  std::string host(const std::string& path) const override;
  size_t ranges_max() const override { return 1; }  // S3 knows no more
  std::string explain(std::string_view body) const override;
  bool is_error(std::string_view body) const override;
  bool learns_from(const std::string& path, const std::string& region, const http::Head& head,
                   std::string_view body) const override;

 private:
  // The credentials' thread does not exist in a forked process.
  struct Source;

  S3Protocol(Settings settings, Surroundings around)
      : settings_(std::move(settings)), around_(std::move(around)) {}
  Result<CredentialSource*> source() const;
  std::string region_of(const std::string& bucket) const EXCLUDES(mutex_);
  std::string address(const std::string& bucket, const std::string& region) const;

  const Settings settings_;
  const Surroundings around_;
  mutable std::atomic<Source*> source_ = nullptr;
  mutable base::Mutex mutex_;
  // The regions of buckets whose answers named another one than was expected.
  mutable std::map<std::string, std::string> regions_ GUARDED_BY(mutex_);
  mutable std::shared_ptr<const Credentials> used_ GUARDED_BY(mutex_);  // by the last request
};

}  // namespace forebay::io::s3
