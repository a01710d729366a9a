#include "io/http/remote_file.h"

#include <algorithm>

#include "base/limits.h"
#include "io/http/range_read.h"

namespace forebay::io::http {

using base::Code;
using base::fail;

RemoteFile::RemoteFile(const Service& service, std::string path, Identity identity)
    : service_(service), path_(std::move(path)), identity_(std::move(identity)) {}

Status RemoteFile::read(uint64_t offset, MutableBytes out, const ReadOptions& options) const {
  return read_ranges(*this, {{offset, out}}, options);
}

void RemoteFile::start(std::vector<Range> ranges, const ReadOptions& options,
                       std::function<void(Status)> done) const {
  std::erase_if(ranges, [](const Range& range) { return range.out.empty(); });
  if (ranges.empty()) return done({});
  const Range& last = ranges.back();
  if (!base::in_bounds(last.offset, last.out.size(), identity_.size)) {
    return done(fail(Code::kTruncated, "{}: truncated: the file has {} bytes, but {} were expected",
                     path_, identity_.size, last.offset + last.out.size()));
  }
  RangeRead::start(service_, path_, identity_, std::move(ranges), options, std::move(done));
}

Result<Identity> ask_identity(const Service& service, const std::string& path) {
  ASSIGN_OR_RETURN(const Document answer, service.ask({.method = "HEAD", .path = path}));
  if (answer.head.header("content-length").empty()) {
    return fail(Code::kUnsupported,
                "{}: the server does not say how many bytes it has (no Content-Length)", path);
  }
  return identity_of(answer.head);
}

Result<std::unique_ptr<ReadableFile>> open_remote(const Service& service, const std::string& path,
                                                  const OpenOptions& options) {
  if (options.known) return std::make_unique<RemoteFile>(service, path, *options.known);
  ASSIGN_OR_RETURN(Identity identity, ask_identity(service, path));
  return std::make_unique<RemoteFile>(service, path, std::move(identity));
}

Result<base::ByteVector> read_remote(const Service& service, const std::string& path,
                                     uint64_t limit) {
  uint64_t size = 0;
  base::ByteVector data;
  const uint64_t body_bytes = std::min(limit, base::kHttpDocumentBytesMax);
  if (const auto answer = service.ask({.path = path, .body_bytes = body_bytes})) {
    size = answer->body.size();
    const Bytes body = base::as_bytes(answer->body);
    if (size <= limit) data.assign(body.begin(), body.end());
  } else if (answer.error().code() != Code::kTooBig) {
    return tl::unexpected(answer.error());
  } else {  // too large to be answered at once
    ASSIGN_OR_RETURN(const auto file, open_remote(service, path, {}));
    size = file->identity().size;
    if (size <= limit) {
      data.resize(size);
      RETURN_IF_ERROR(file->read(0, data, {}));
    }
  }
  if (size <= limit) return data;
  return fail(Code::kTooBig, "{}: {} bytes, more than the limit of {}", path, size, limit);
}

}  // namespace forebay::io::http
