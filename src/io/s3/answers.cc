#include "io/s3/answers.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>
#include <sstream>

#include "io/s3/given_out.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

// "a%20b" gives "a b", and so does "a+b", which is AWS's way to write a blank in a listing.
std::string decoded(std::string text) {
  std::ranges::replace(text, '+', ' ');
  int bytes = 0;
  char* const plain =
      curl_easy_unescape(nullptr, text.data(), static_cast<int>(text.size()), &bytes);
  if (plain == nullptr) return {};
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

// The part after the prefix; empty for what does not begin with it, and for a folder's own object.
std::string name_of(const char* key, std::string_view prefix) {
  std::string name = decoded(key);
  if (!name.starts_with(prefix)) return {};
  name.erase(0, prefix.size());
  return name;
}

}  // namespace

Result<ListPage> parse_list_page(std::string_view xml, std::string_view prefix) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!parsed || !list) return fail(Code::kIo, "the server's answer is no list of objects");
  ListPage page;
  for (const pugi::xml_node& object : list.children("Contents")) {
    std::string name = name_of(object.child_value("Key"), prefix);
    if (name.empty() || name.find('/') != std::string::npos) continue;
    page.entries.push_back({std::move(name), FileType::kFile, info_of(object)});
  }
  for (const pugi::xml_node& folder : list.children("CommonPrefixes")) {
    std::string name = name_of(folder.child_value("Prefix"), prefix);
    if (name.size() < 2 || name.back() != '/') continue;
    name.pop_back();
    page.entries.push_back({std::move(name), FileType::kDirectory, std::nullopt});
  }
  if (std::string_view(list.child_value("IsTruncated")) != "true") return page;
  page.next = list.child_value("NextContinuationToken");
  if (page.next.empty())
    return fail(Code::kIo, "the server's list goes on, but does not say where");
  return page;
}

ErrorAnswer parse_error(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size())) return {};
  const pugi::xml_node error = document.child("Error");
  return {.code = error.child_value("Code"),
          .message = error.child_value("Message"),
          .region = error.child_value("Region")};
}

Result<std::string> parse_upload_id(std::string_view xml) {
  pugi::xml_document document;
  std::string id;
  if (document.load_buffer(xml.data(), xml.size())) {
    id = document.child("InitiateMultipartUploadResult").child_value("UploadId");
  }
  if (id.empty()) return fail(Code::kIo, "the server's answer does not name the upload");
  return id;
}

Result<std::vector<std::string>> parse_uploads(std::string_view xml, std::string_view key) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node list = document.child("ListMultipartUploadsResult");
  if (!parsed || !list) return fail(Code::kIo, "the server's answer is no list of uploads");
  std::vector<std::string> ids;
  for (const pugi::xml_node& upload : list.children("Upload")) {
    if (upload.child_value("Key") == key) ids.emplace_back(upload.child_value("UploadId"));
  }
  return ids;
}

Result<std::vector<std::string>> parse_parts(std::string_view xml) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node list = document.child("ListPartsResult");
  if (!parsed || !list) return fail(Code::kIo, "the server's answer is no list of parts");
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
