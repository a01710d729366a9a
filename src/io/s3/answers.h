// The XML that S3 answers with: pages of listings, uploads, and errors. Plain logic without
// sockets.
#pragma once

#include "io/origin.h"

namespace forebay::io::s3 {

// A page of ListObjectsV2. Names are those after the prefix that was asked for.
struct ListPage {
  std::vector<DirEntry> entries;
  std::string next;  // the token for the next page; empty: this is the last one
};

// `prefix` is the one that was asked for. Errors: kIo where the answer is no such page, or has a
// key that was not asked for; kUnsupported for a key that has an empty name between two slashes,
// like "a//b"; kTooBig for a key or a token that is too long.
Result<ListPage> parse_list_page(std::string_view xml, std::string_view prefix);

struct ErrorAnswer {
  std::string code;  // "NoSuchKey"; empty where there is none
  std::string message;
  std::string region;  // the one to use, where the answer names it
};
ErrorAnswer parse_error(std::string_view xml);
// Whether this may be a region's name. Others would become part of a host's name.
bool is_region(std::string_view text);

// The name of an upload in parts that was begun. Errors: kIo, kTooBig.
Result<std::string> parse_upload_id(std::string_view xml);
// The names of the uploads of exactly this key that were begun and have not ended, from a page of
// ListMultipartUploads; and the tags of the parts that an upload has, from a page of ListParts.
// Errors: kIo where the answer is no such page.
Result<std::vector<std::string>> parse_uploads(std::string_view xml, std::string_view key);
Result<std::vector<std::string>> parse_parts(std::string_view xml);
// What completes an upload: the parts' tags, in order from part 1 on.
std::string list_of_parts(const std::vector<std::string>& tags);

}  // namespace forebay::io::s3
