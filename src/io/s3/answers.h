// Parses S3's answers in XML: pages of listings, uploads, and errors. Plain logic without sockets.
#pragma once

#include "io/origin.h"

namespace forebay::io::s3 {

// A page of ListObjectsV2. Names do not include the requested prefix.
struct ListPage {
  std::vector<DirEntry> entries;
  std::string next;  // the token for the next page; empty: this is the last one
};

// `prefix` is the requested one. Errors: kIo if the answer is not such a page, or has a key that
// was not requested; kUnsupported for a key with an empty name between two slashes, like "a//b";
// kTooBig for a key or a token that is too long.
Result<ListPage> parse_list_page(std::string_view xml, std::string_view prefix);

struct ErrorAnswer {
  std::string code;  // such as "NoSuchKey"; empty if there is none
  std::string message;
  std::string region;    // the region to use, if the answer names it
  std::string endpoint;  // the host to use, if the answer names it
};
ErrorAnswer parse_error(std::string_view xml);
// Whether this may be a region's name. Nothing else may become part of a host's name.
bool is_region(std::string_view text);

// The id of a new multipart upload. Errors: kIo, kTooBig.
Result<std::string> parse_upload_id(std::string_view xml);
// The ids of the unfinished uploads of exactly this key, from a page of ListMultipartUploads; and
// the ETags of an upload's parts, from a page of ListParts. Errors: kIo if the answer is not such a
// page; kTooBig for an id that is too long.
Result<std::vector<std::string>> parse_uploads(std::string_view xml, std::string_view key);
Result<std::vector<std::string>> parse_parts(std::string_view xml);
// The body of the request that completes an upload: the parts' ETags, in order from part 1 on.
std::string list_of_parts(const std::vector<std::string>& tags);

}  // namespace forebay::io::s3
