// Puts objects: whole and perhaps on a condition, or in parts that are sent at the same time.
#pragma once

#include <map>

#include "io/file_system.h"
#include "io/http/service.h"

namespace forebay::io::s3 {

// Larger objects are sent in parts of this size, unless the put has a condition.
inline constexpr uint64_t kPartBytes = 16 << 20;

// Puts objects of one store. Any thread may call anything.
class Uploader {
 public:
  // The service must outlive the uploader. `headers`: "Name: value", of the requests that make new
  // objects.
  explicit Uploader(const http::Service& service, std::vector<std::string> headers = {})
      : service_(service), headers_(std::move(headers)) {}

  // Same contract as FileSystem::put_pieces(), and kUnsupported for a condition if the store is
  // found to ignore conditions.
  Status put(const std::string& path, std::span<const Bytes> pieces, const PutOptions& options);

 private:
  Status put_whole(const std::string& path, std::span<const Bytes> pieces,
                   const std::string& condition);
  Status put_if(const std::string& path, std::span<const Bytes> pieces, const PutOptions& options);
  Status check_honours(const std::string& path, std::span<const Bytes> pieces,
                       const std::string& condition, std::atomic<bool>* honours);
  bool has(const std::string& path, std::span<const Bytes> pieces) const;
  // The unfinished uploads of one object, by id, and the ETags of their parts.
  using Uploads = std::map<std::string, std::vector<std::string>>;

  Status put_parts(const std::string& path, std::span<const Bytes> pieces);
  Result<std::string> begin(const std::string& path) const;
  Status send_parts(const std::string& path, const std::string& upload,
                    std::span<const Bytes> pieces) const;
  Result<std::string> send_part(const std::string& path, const std::string& upload, uint64_t number,
                                std::span<const Bytes> pieces) const;
  Status complete(const std::string& path, const std::string& upload,
                  const std::vector<std::string>& tags) const;
  Result<Uploads> uploads_of(const std::string& path) const;
  void remove_left(const std::string& path, const Uploads& before, bool was_put) const;
  void give_up(const std::string& path, const std::string& upload) const;

  const http::Service& service_;
  const std::vector<std::string> headers_;
  std::atomic<bool> honours_if_absent_ = false;  // true once the store was seen to honour it
  std::atomic<bool> honours_if_match_ = false;
  std::atomic<bool> keeps_versions_ = false;  // a bucket was seen to do so
};

}  // namespace forebay::io::s3
