#include "io/s3/upload.h"

#include <algorithm>

#include "base/checksum.h"
#include "io/http/remote_file.h"
#include "io/http/url.h"
#include "io/s3/answers.h"
#include "io/share_work.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

// Parts of one object that are on their way at the same time.
constexpr size_t kPartsAtOnce = 4;
constexpr const char* kIfAbsent = "If-None-Match: *";

uint64_t bytes_of(std::span<const Bytes> pieces) {
  uint64_t bytes = 0;
  for (const Bytes& piece : pieces) bytes += piece.size();
  return bytes;
}

// The bytes [offset, offset + length) of what the pieces are together.
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
                          .body = {pieces.begin(), pieces.end()},
                          .body_sha256 = sha256_of(pieces)};
  if (!condition.empty()) question.headers.push_back(condition);
  return base::status_of(service_.ask(question));
}

// A condition that does not hold may be our own first attempt, whose answer was lost.
Status Uploader::put_if(const std::string& path, std::span<const Bytes> pieces,
                        const PutOptions& options) {
  const bool absent = options.when == PutIf::kAbsent;
  const std::string& tag = options.known.etag;
  if (!absent && tag.empty()) {
    return fail(Code::kUnsupported, "{}: the store gave no ETag, so nothing can be replaced safely",
                path);
  }
  Status status = put_whole(path, pieces, absent ? kIfAbsent : "If-Match: " + tag);
  if (!absent && status.code() == Code::kExists) {
    // Some gateways take the tag without its quotes only.
    const auto now = http::ask_identity(service_, path);
    if (now && now->etag == tag && tag.size() > 2) {
      status = put_whole(path, pieces, "If-Match: " + tag.substr(1, tag.size() - 2));
    }
  }
  const bool is_gone = !absent && status.code() == Code::kNotFound;
  if (is_gone) return fail(Code::kChanged, "{}: somebody else has removed it", path);
  if (status.code() == Code::kExists) {
    if (has(path, pieces)) return {};
    if (absent) return fail(Code::kExists, "{}: there is something already", path);
    return fail(Code::kChanged, "{}: somebody else has replaced it", path);
  }
  if (status.ok() && !honours_conditions_) return check_honours_conditions(path, pieces);
  return status;
}

// What was just put is there, so that a store which knows conditions refuses to put it again.
Status Uploader::check_honours_conditions(const std::string& path, std::span<const Bytes> pieces) {
  const Status again = put_whole(path, pieces, kIfAbsent);
  if (again.code() == Code::kExists) {
    honours_conditions_ = true;
    return {};
  }
  RETURN_IF_ERROR(again);
  return fail(Code::kUnsupported,
              "{}: the store ignores conditional writes (If-None-Match), so that two writers would "
              "overwrite each other; pack to a local disk and copy the dataset there",
              path);
}

bool Uploader::has(const std::string& path, std::span<const Bytes> pieces) const {
  const auto identity = http::ask_identity(service_, path);
  if (!identity || identity->size != bytes_of(pieces)) return false;
  base::ByteVector there(identity->size);
  if (!http::RemoteFile(service_, path, *identity).read(0, there, {}).ok()) return false;
  size_t at = 0;
  for (const Bytes& piece : pieces) {
    if (!std::equal(piece.begin(), piece.end(), there.begin() + static_cast<int64_t>(at))) {
      return false;
    }
    at += piece.size();
  }
  return true;
}

Status Uploader::put_parts(const std::string& path, std::span<const Bytes> pieces) {
  const uint64_t bytes = bytes_of(pieces);
  const uint64_t count = (bytes + kPartBytes - 1) / kPartBytes;
  ASSIGN_OR_RETURN(const std::string upload, begin(path));
  std::vector<std::string> tags(count);
  Status status = share_work(count, 1, kPartsAtOnce, [&](uint64_t part, uint64_t, size_t) {
    auto tag = send_part(path, upload, part + 1, cut(pieces, part * kPartBytes, kPartBytes));
    if (tag) tags[part] = std::move(*tag);
    return base::status_of(tag);
  });
  if (status.ok()) status = complete(path, upload, tags, bytes);
  if (status.ok()) return {};
  // Parts of an upload that never ends would be stored, and paid for.
  (void)service_.ask(
      {.method = "DELETE", .path = path, .query = "uploadId=" + http::encode_value(upload)});
  return status;
}

Result<std::string> Uploader::begin(const std::string& path) const {
  ASSIGN_OR_RETURN(const auto answer,
                   service_.ask({.method = "POST", .path = path, .query = "uploads="}));
  auto upload = parse_upload_id(answer.body);
  if (!upload) return tl::unexpected(upload.error().at(path));
  return upload;
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

// The answer may be lost after the upload is complete; then there is no such upload any more, but
// there is the object.
Status Uploader::complete(const std::string& path, const std::string& upload,
                          const std::vector<std::string>& tags, uint64_t bytes) const {
  const std::string list = list_of_parts(tags);
  const Bytes body = base::as_bytes(list);
  const auto answer = service_.ask({.method = "POST",
                                    .path = path,
                                    .query = "uploadId=" + http::encode_value(upload),
                                    .body = {body},
                                    .body_sha256 = sha256_of({&body, 1})});
  if (!answer && answer.error().code() != Code::kNotFound) return answer.error();
  ASSIGN_OR_RETURN(const Identity identity, http::ask_identity(service_, path));
  if (identity.size == bytes) return {};
  return fail(Code::kIo, "{}: it has {} bytes, of {} that were sent", path, identity.size, bytes);
}

}  // namespace forebay::io::s3
