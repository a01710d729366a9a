#include "io/s3/answers.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>
#include <sstream>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/http/answer.h"
#include "io/s3/given_out.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

// "a%20b" gives "a b", and so does "a+b", which is AWS's way to write a blank in a listing. Nothing
// if a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> decoded(std::string text) {
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
    const std::string_view digits = std::string_view(text).substr(at + 1, 2);
    if (digits.size() < 2 || digits.find_first_not_of(kHexDigits) != digits.npos) return {};
  }
  std::ranges::replace(text, '+', ' ');
  int bytes = 0;
  char* const plain =
      curl_easy_unescape(nullptr, text.data(), static_cast<int>(text.size()), &bytes);
  if (plain == nullptr) throw std::bad_alloc();
  std::string out(plain, static_cast<size_t>(bytes));
  curl_free(plain);
  return out;
}

FileInfo info_of(const pugi::xml_node& object) {
  FileInfo info{.type = FileType::kFile};
  const std::string_view size = object.child_value("Size");
  std::from_chars(size.data(), size.data() + size.size(), info.size);
  info.allocated = info.size;
  info.modified_ns = utc_ns(object.child_value("LastModified")).value_or(0);
  return info;
}

// How a listing writes names, and which names were requested.
struct Listing {
  std::string_view prefix;
  bool is_encoded;  // the store says that it encodes names like those in URLs
};

tl::unexpected<Status> fail_key(Code code, std::string_view key, std::string_view why) {
  return fail(
      code, "the store lists the key {}, {}; remove or rename this object, or name another folder",
      http::printable(key), why);
}

// The part of the key after the prefix, without the slash after a folder's name. Empty for a
// folder's own object, which has no such part.
Result<std::string> name_of(std::string_view text, const Listing& listing, bool is_folder) {
  std::optional<std::string> name =
      listing.is_encoded ? decoded(std::string(text)) : std::string(text);
  if (!name) return fail_key(Code::kIo, text, "which is not encoded as the store says it is");
  if (name->size() > base::kSourcePathBytesMax) {
    return fail_key(Code::kTooBig, *name,
                    fmt::format("which has more than {} bytes", base::kSourcePathBytesMax));
  }
  if (!name->starts_with(listing.prefix)) {
    return fail_key(Code::kIo, *name, "which is not in the folder that was requested");
  }
  const std::string key = *name;
  name->erase(0, listing.prefix.size());
  if (name->empty()) return std::move(*name);
  if (is_folder && name->back() != '/') return fail_key(Code::kIo, key, "which is no folder");
  if (is_folder) name->pop_back();
  if (name->empty()) {
    return fail_key(Code::kUnsupported, key, "which has an empty name between two slashes");
  }
  if (name->find('/') != std::string::npos) {
    return fail_key(Code::kIo, key, "which is in another folder than the requested one");
  }
  return std::move(*name);
}

// A short text of an answer, such as the id of an upload.
Result<std::string> token_of(const pugi::xml_node& node, const char* name) {
  std::string token = node.child_value(name);
  if (token.size() <= base::kS3TokenBytesMax) return token;
  return fail(Code::kTooBig, "the server's answer has a {} of {} bytes; the limit is {}", name,
              token.size(), base::kS3TokenBytesMax);
}

}  // namespace

Result<ListPage> parse_list_page(std::string_view xml, std::string_view prefix) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!parsed || !list) return fail(Code::kIo, "the server's answer is not a list of objects");
  const Listing listing{.prefix = prefix,
                        .is_encoded = std::string_view(list.child_value("EncodingType")) == "url"};
  ListPage page;
  for (const pugi::xml_node& object : list.children("Contents")) {
    ASSIGN_OR_RETURN(std::string name, name_of(object.child_value("Key"), listing, false));
    if (name.empty()) continue;
    page.entries.push_back({std::move(name), FileType::kFile, info_of(object)});
  }
  for (const pugi::xml_node& folder : list.children("CommonPrefixes")) {
    ASSIGN_OR_RETURN(std::string name, name_of(folder.child_value("Prefix"), listing, true));
    if (name.empty()) continue;
    page.entries.push_back({std::move(name), FileType::kDirectory, std::nullopt});
  }
  if (std::string_view(list.child_value("IsTruncated")) != "true") return page;
  ASSIGN_OR_RETURN(page.next, token_of(list, "NextContinuationToken"));
  if (page.next.empty()) {
    return fail(Code::kIo, "the server's list goes on, but has no token for the next page");
  }
  return page;
}

ErrorAnswer parse_error(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size())) return {};
  const pugi::xml_node error = document.child("Error");
  const std::string_view region = error.child_value("Region");
  return {.code = error.child_value("Code"),
          .message = error.child_value("Message"),
          .region = std::string(is_region(region) ? region : std::string_view()),
          .endpoint = error.child_value("Endpoint")};
}

bool is_region(std::string_view text) {
  return !text.empty() && text.size() <= base::kS3TokenBytesMax &&
         is_made_of_letters_and("-_", text);
}

Result<std::string> parse_upload_id(std::string_view xml) {
  pugi::xml_document document;
  std::string id;
  if (document.load_buffer(xml.data(), xml.size())) {
    ASSIGN_OR_RETURN(id, token_of(document.child("InitiateMultipartUploadResult"), "UploadId"));
  }
  if (id.empty()) return fail(Code::kIo, "the server's answer has no id of the upload");
  return id;
}

Result<std::vector<std::string>> parse_uploads(std::string_view xml, std::string_view key) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node list = document.child("ListMultipartUploadsResult");
  if (!parsed || !list) return fail(Code::kIo, "the server's answer is not a list of uploads");
  std::vector<std::string> ids;
  for (const pugi::xml_node& upload : list.children("Upload")) {
    if (upload.child_value("Key") != key) continue;
    ASSIGN_OR_RETURN(std::string id, token_of(upload, "UploadId"));
    ids.push_back(std::move(id));
  }
  return ids;
}

Result<std::vector<std::string>> parse_parts(std::string_view xml) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node list = document.child("ListPartsResult");
  if (!parsed || !list) return fail(Code::kIo, "the server's answer is not a list of parts");
  std::vector<std::string> tags;
  for (const pugi::xml_node& part : list.children("Part")) {
    tags.emplace_back(part.child_value("ETag"));
  }
  return tags;
}

std::string list_of_parts(const std::vector<std::string>& tags) {
  pugi::xml_document document;
  pugi::xml_node list = document.append_child("CompleteMultipartUpload");
  for (size_t i = 0; i < tags.size(); ++i) {
    pugi::xml_node part = list.append_child("Part");
    part.append_child("PartNumber").text() = i + 1;
    part.append_child("ETag").text() = tags[i].c_str();
  }
  std::ostringstream out;
  document.save(out, "", pugi::format_raw);
  return out.str();
}

}  // namespace forebay::io::s3
