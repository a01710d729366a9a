// The protocol of S3: an object's URL, the keys that sign, and the meaning of errors.
#pragma once

#include <map>

#include "base/mutex.h"
#include "io/http/service.h"
#include "io/per_process.h"
#include "io/s3/answers.h"
#include "io/s3/credentials.h"

namespace forebay::io::s3 {

// A path "s3://bucket/key".
struct ObjectName {
  std::string bucket;
  std::string key = {};  // empty for the bucket itself
};
// Errors: kInvalid without a bucket, and for an invalid bucket name, which the message leaves out
// because it may hold keys. kTooBig for a key that is too long.
Result<ObjectName> split_path(const std::string& path);

class S3Protocol final : public http::Protocol {
 public:
  // Errors: those of finding the first credentials.
  static Result<std::unique_ptr<const S3Protocol>> make(Settings settings, Surroundings around);

  Result<http::Request> request(std::string_view method, const std::string& path,
                                std::string_view query) const override;
  std::string host(const std::string& path) const override;
  size_t ranges_max() const override { return 1; }  // S3 allows no more
  std::string explain(std::string_view body) const override;
  bool is_error(std::string_view body) const override;
  http::Remedy remedy_for(const std::string& path, const http::Basis& basis, const http::Head& head,
                          std::string_view body) const override;

 private:
  // The regions of buckets whose answers named another region than was expected.
  struct Regions {
    base::Mutex mutex;
    std::map<std::string, std::string> of_bucket GUARDED_BY(mutex);
  };

  S3Protocol(Settings settings, Surroundings around)
      : settings_(std::move(settings)), around_(std::move(around)) {}
  Result<CredentialSource*> source() const;
  Result<std::optional<http::Signing>> signing() const;
  bool learns_region(const std::string& path, const http::Basis& basis, const http::Head& head,
                     const ErrorAnswer& error) const;
  Regions& regions() const;
  std::string region_of(const std::string& bucket) const;
  std::string address(const std::string& bucket, const std::string& region) const;

  const Settings settings_;
  const Surroundings around_;
  mutable PerProcess<CredentialSource> source_;
  mutable PerProcess<Regions> regions_;
};

}  // namespace forebay::io::s3
