#include "io/s3/upload.h"

#include <algorithm>

#include "base/checksum.h"
#include "io/http/remote_file.h"
#include "io/http/url.h"
#include "io/s3/answers.h"
#include "io/s3/s3_protocol.h"
#include "io/share_work.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

// Parts of one object that are sent at the same time.
constexpr size_t kPartsAtOnce = 4;
constexpr const char* kIfAbsent = "If-None-Match: *";
constexpr const char* kIfMatch = "If-Match: ";
constexpr const char* kNoTag = "00000000000000000000000000000000";  // an ETag that no object has

uint64_t bytes_of(std::span<const Bytes> pieces) {
  uint64_t bytes = 0;
  for (const Bytes& piece : pieces) bytes += piece.size();
  return bytes;
}

// The bytes [offset, offset + length) of all pieces together.
std::vector<Bytes> cut(std::span<const Bytes> pieces, uint64_t offset, uint64_t length) {
  std::vector<Bytes> part;
  for (const Bytes& piece : pieces) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const Bytes taken = piece.subspan(offset, std::min<uint64_t>(length, piece.size() - offset));
    offset = 0;
    length -= taken.size();
    if (!taken.empty()) part.push_back(taken);
    if (length == 0) break;
  }
  return part;
}

// Whether a store did not answer a request after all its tries. Another request would wait just as
// long in vain.
bool is_silent(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kTimedOut;
}

std::string sha256_of(std::span<const Bytes> pieces) {
  base::Sha256Stream hash;
  for (const Bytes& piece : pieces) hash.add(piece);
  return base::to_hex(hash.finish());
}

}  // namespace

Status Uploader::put(const std::string& path, std::span<const Bytes> pieces,
                     const PutOptions& options) {
  if (options.when != PutIf::kAlways) return put_if(path, pieces, options);
  if (bytes_of(pieces) > kPartBytes) return put_parts(path, pieces);
  return put_whole(path, pieces, "");
}

Status Uploader::put_whole(const std::string& path, std::span<const Bytes> pieces,
                           const std::string& condition) {
  http::Question question{.method = "PUT",
                          .path = path,
                          .headers = headers_,
                          .body = {pieces.begin(), pieces.end()},
                          .body_sha256 = sha256_of(pieces)};
  if (!condition.empty()) question.headers.push_back(condition);
  ASSIGN_OR_RETURN(const http::Document answer, service_.ask(question));
  if (!answer.head.header("x-amz-version-id").empty()) keeps_versions_ = true;
  return {};
}

// If the condition does not hold, our own first attempt may have put the object, and its answer may
// have been lost.
Status Uploader::put_if(const std::string& path, std::span<const Bytes> pieces,
                        const PutOptions& options) {
  const bool absent = options.when == PutIf::kAbsent;
  std::string tag = options.known.etag;
  if (!absent && tag.empty()) {
    return fail(Code::kUnsupported,
                "{}: the store gave no ETag, so the object cannot be replaced safely", path);
  }
  Status status = put_whole(path, pieces, absent ? kIfAbsent : kIfMatch + tag);
  if (!absent && status.code() == Code::kExists) {
    // Some gateways accept the ETag only without its quotes.
    const auto now = http::ask_identity(service_, path);
    if (now && now->etag == tag && tag.size() > 2) {
      tag = tag.substr(1, tag.size() - 2);
      status = put_whole(path, pieces, kIfMatch + tag);
    }
  }
  const bool is_gone = !absent && status.code() == Code::kNotFound;
  if (is_gone) return fail(Code::kChanged, "{}: somebody else has removed it", path);
  if (status.code() == Code::kExists) {
    if (has(path, pieces)) return {};
    if (absent) return fail(Code::kExists, "{}: an object of this name exists already", path);
    return fail(Code::kChanged, "{}: somebody else has replaced it", path);
  }
  RETURN_IF_ERROR(status);
  if (absent) return check_honours(path, pieces, kIfAbsent, &honours_if_absent_);
  // With or without quotes, as the store accepted the ETag.
  const std::string other = tag.starts_with('"') ? fmt::format("\"{}\"", kNoTag) : kNoTag;
  return check_honours(path, pieces, kIfMatch + other, &honours_if_match_);
}

// Puts the same object again, on a condition that does not hold because the object is there now. A
// store that honours conditions refuses this.
Status Uploader::check_honours(const std::string& path, std::span<const Bytes> pieces,
                               const std::string& condition, std::atomic<bool>* honours) {
  if (*honours) return {};
  const Status again = put_whole(path, pieces, condition);
  if (again.code() == Code::kExists) {
    *honours = true;
    return {};
  }
  RETURN_IF_ERROR(again);
  return fail(
      Code::kUnsupported,
      "{}: the store ignores conditional writes ({}){}, so two writers would overwrite each "
      "other; use {}, or write the dataset to a local folder and copy its files to the "
      "store with another program, HEAD last",
      path, condition.substr(0, condition.find(':')),
      keeps_versions_ ? " in this bucket, which keeps versions of objects" : "",
      keeps_versions_ ? "a bucket without versions" : "another store");
}

bool Uploader::has(const std::string& path, std::span<const Bytes> pieces) const {
  const auto identity = http::ask_identity(service_, path);
  const uint64_t bytes = bytes_of(pieces);
  if (!identity || identity->size != bytes) return false;
  const http::RemoteFile file(service_, path, *identity);
  base::ByteVector there;
  for (uint64_t at = 0; at < bytes; at += there.size()) {
    there.resize(std::min(kPartBytes, bytes - at));
    if (!file.read(at, there, {}).ok()) return false;
    auto next = there.begin();
    for (const Bytes& piece : cut(pieces, at, there.size())) {
      if (!std::equal(piece.begin(), piece.end(), next)) return false;
      next += static_cast<ptrdiff_t>(piece.size());
    }
  }
  return true;
}

// Another process that puts the same object at the same time may remove this upload when its own is
// complete. Or the answer to this upload's completion was lost, and the upload no longer exists. In
// both cases the object is there, so its bytes decide. If the store does not answer, the next put
// of the object removes what this upload leaves there.
Status Uploader::put_parts(const std::string& path, std::span<const Bytes> pieces) {
  ASSIGN_OR_RETURN(const Uploads before, uploads_of(path));
  const uint64_t retries = service_.traffic().retries;
  const auto upload = begin(path);
  const bool may_be_twice = !upload || service_.traffic().retries != retries;
  Status status = base::status_of(upload);
  if (upload) status = send_parts(path, *upload, pieces);
  if (is_silent(status)) return status;
  if (upload) {
    if (status.code() == Code::kNotFound) {
      status = has(path, pieces)
                   ? Status()
                   : Status(Code::kUnavailable,
                            status.message() + ": the store does not know the upload any more");
    }
    if (!status.ok()) give_up(path, *upload);
  }
  if (may_be_twice || !before.empty()) remove_left(path, before, status.ok());
  return status;
}

Result<std::string> Uploader::begin(const std::string& path) const {
  ASSIGN_OR_RETURN(
      const auto answer,
      service_.ask({.method = "POST", .path = path, .query = "uploads=", .headers = headers_}));
  auto upload = parse_upload_id(answer.body);
  if (!upload) return tl::unexpected(upload.error().at(path));
  return upload;
}

Status Uploader::send_parts(const std::string& path, const std::string& upload,
                            std::span<const Bytes> pieces) const {
  const uint64_t count = (bytes_of(pieces) + kPartBytes - 1) / kPartBytes;
  std::vector<std::string> tags(count);
  RETURN_IF_ERROR(share_work(count, 1, kPartsAtOnce, [&](uint64_t part, uint64_t, size_t) {
    auto tag = send_part(path, upload, part + 1, cut(pieces, part * kPartBytes, kPartBytes));
    if (tag) tags[part] = std::move(*tag);
    return base::status_of(tag);
  }));
  return complete(path, upload, tags);
}

Result<std::string> Uploader::send_part(const std::string& path, const std::string& upload,
                                        uint64_t number, std::span<const Bytes> pieces) const {
  ASSIGN_OR_RETURN(const auto answer,
                   service_.ask({.method = "PUT",
                                 .path = path,
                                 .query = fmt::format("partNumber={}&uploadId={}", number,
                                                      http::encode_value(upload)),
                                 .body = {pieces.begin(), pieces.end()},
                                 .body_sha256 = sha256_of(pieces)}));
  return std::string(answer.head.header("etag"));
}

// The store compared each part's checksum, and the list names all parts.
Status Uploader::complete(const std::string& path, const std::string& upload,
                          const std::vector<std::string>& tags) const {
  const std::string list = list_of_parts(tags);
  const Bytes body = base::as_bytes(list);
  return base::status_of(service_.ask({.method = "POST",
                                       .path = path,
                                       .query = "uploadId=" + http::encode_value(upload),
                                       .body = {body},
                                       .body_sha256 = sha256_of({&body, 1})}));
}

// The unfinished uploads of the object. Empty if the store refuses to list them: then they cannot
// be removed, but the object can be put. One page is enough, because the uploads of the object
// itself come first. Errors: only those of a store that does not answer.
Result<Uploader::Uploads> Uploader::uploads_of(const std::string& path) const {
  Uploads uploads;
  const auto name = split_path(path);
  if (!name) return uploads;
  const std::string bucket = path.substr(0, path.size() - name->key.size());
  const auto page = service_.ask(
      {.path = bucket, .query = fmt::format("prefix={}&uploads=", http::encode_value(name->key))});
  if (!page && is_silent(page.error())) return tl::unexpected(page.error());
  const auto ids = page ? parse_uploads(page->body, name->key) : std::vector<std::string>();
  if (!ids) return uploads;
  for (const std::string& id : *ids) {
    const auto parts = service_.ask({.path = path, .query = "uploadId=" + http::encode_value(id)});
    if (!parts && is_silent(parts.error())) return tl::unexpected(parts.error());
    auto tags = parts ? parse_parts(parts->body) : tl::unexpected(parts.error());
    if (tags) uploads.emplace(id, std::move(*tags));
  }
  return uploads;
}

// Removes uploads of this object that killed processes left, and uploads that this process began
// without receiving the answer. Otherwise their parts would stay stored, and be paid for. Another
// process may put the same object at this time, and no store is reliable if an upload is completed
// and removed at the same time. So an upload stays if it got parts since `before` was listed, or if
// it is newer and has parts. If the object was not put, uploads in `before` stay too.
void Uploader::remove_left(const std::string& path, const Uploads& before, bool was_put) const {
  const auto now = uploads_of(path);
  if (!now) return;
  for (const auto& [upload, parts] : *now) {
    const auto then = before.find(upload);
    const bool is_left = then == before.end() ? parts.empty() : was_put && parts == then->second;
    if (is_left) give_up(path, upload);
  }
}

// An upload that cannot be removed now is found by the next put of the object.
void Uploader::give_up(const std::string& path, const std::string& upload) const {
  (void)service_.ask(
      {.method = "DELETE", .path = path, .query = "uploadId=" + http::encode_value(upload)});
}

}  // namespace forebay::io::s3
