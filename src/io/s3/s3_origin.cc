#include "io/s3/s3_origin.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "base/limits.h"
#include "io/http/remote_file.h"
#include "io/http/url.h"
#include "io/s3/answers.h"
#include "io/s3/s3_protocol.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kLookAtTheStore =
    "check the store, and proxies on the way to it, or use another one";

// An upload in parts takes them only where it begins: S3 refuses them with a part.
std::vector<std::string> headers_of_new_objects(const Settings& settings) {
  std::vector<std::string> headers;
  if (settings.encryption.empty()) return headers;
  headers.push_back("x-amz-server-side-encryption: " + settings.encryption);
  if (settings.encryption_key_id.empty()) return headers;
  headers.push_back("x-amz-server-side-encryption-aws-kms-key-id: " + settings.encryption_key_id);
  return headers;
}

}  // namespace

Result<std::unique_ptr<S3Origin>> S3Origin::make(Settings settings, Surroundings around,
                                                 http::ServiceOptions options) {
  // The same certificates are trusted for the services that give out credentials.
  if (settings.ca_file.empty()) settings.ca_file = options.client.ca_file;
  options.client.ca_file = settings.ca_file;
  settings.patience.apply_to(options);
  std::vector<std::string> headers = headers_of_new_objects(settings);
  ASSIGN_OR_RETURN(auto protocol, S3Protocol::make(std::move(settings), std::move(around)));
  return std::unique_ptr<S3Origin>(new S3Origin(std::move(protocol), options, std::move(headers)));
}

Result<std::unique_ptr<ReadableFile>> S3Origin::open(const std::string& path,
                                                     const OpenOptions& options) const {
  return http::open_remote(service_, path, options);
}

Result<base::ByteVector> S3Origin::read_whole(const std::string& path, uint64_t limit) const {
  return http::read_remote(service_, path, limit);
}

// One page of the names that begin with the prefix, up to the next slash.
Result<ListPage> S3Origin::list_page(const ObjectName& folder, size_t names_max,
                                     const std::string& from) const {
  std::string query;
  if (!from.empty()) query += fmt::format("continuation-token={}&", http::encode_value(from));
  query += fmt::format("delimiter=%2F&encoding-type=url&list-type=2&max-keys={}&prefix={}",
                       names_max, http::encode_value(folder.key));
  const std::string bucket = fmt::format("s3://{}/", folder.bucket);
  ASSIGN_OR_RETURN(const http::Document answer, service_.ask({.path = bucket, .query = query}));
  auto page = parse_list_page(answer.body, folder.key);
  if (!page) return tl::unexpected(page.error().at(bucket + folder.key));
  return page;
}

// The folder's name with a slash at its end, as all keys in the folder begin.
Result<ObjectName> S3Origin::folder_name(const std::string& path) {
  ASSIGN_OR_RETURN(ObjectName name, split_path(path));
  if (!name.key.empty() && name.key.back() != '/') name.key += '/';
  return name;
}

Result<std::vector<DirEntry>> S3Origin::list(const std::string& path) const {
  ASSIGN_OR_RETURN(const ObjectName folder, folder_name(path));
  std::vector<DirEntry> entries;
  std::string from;
  std::unordered_set<size_t> seen;  // hashes of the tokens so far
  int empty_pages = 0;              // in a row
  do {
    ASSIGN_OR_RETURN(ListPage page, list_page(folder, base::kS3NamesMax, from));
    empty_pages = page.entries.empty() ? empty_pages + 1 : 0;
    std::ranges::move(page.entries, std::back_inserter(entries));
    from = std::move(page.next);
    if (!from.empty() && !seen.insert(std::hash<std::string>()(from)).second) {
      return fail(Code::kIo, "{}: the server's list repeats the token of an earlier page; {}", path,
                  kLookAtTheStore);
    }
    if (empty_pages > base::kS3EmptyPagesMax) {
      return fail(Code::kIo, "{}: the server's list has {} empty pages in a row; {}", path,
                  empty_pages, kLookAtTheStore);
    }
    if (entries.size() > base::kSourceEntriesMax) {
      return fail(Code::kTooBig, "{}: the folder has more than {} entries; use smaller folders",
                  path, base::kSourceEntriesMax);
    }
  } while (!from.empty());
  std::ranges::sort(entries, {}, &DirEntry::name);
  return entries;
}

Result<FileInfo> S3Origin::stat(const std::string& path) const {
  ASSIGN_OR_RETURN(const ObjectName name, split_path(path));
  if (!name.key.empty() && name.key.back() != '/') {
    const auto identity = http::ask_identity(service_, path);
    if (identity) {
      return FileInfo{.type = FileType::kFile,
                      .size = identity->size,
                      .modified_ns = identity->modified_ns,
                      .allocated = identity->size};
    }
    if (identity.error().code() != Code::kNotFound) return tl::unexpected(identity.error());
  }
  ASSIGN_OR_RETURN(const ObjectName folder, folder_name(path));
  ASSIGN_OR_RETURN(const ListPage page, list_page(folder, 2, ""));
  // A page may be empty although more pages follow.
  if (!page.entries.empty() || !page.next.empty() || name.key.empty()) {
    return FileInfo{.type = FileType::kDirectory};
  }
  return fail(Code::kNotFound, "{}: nothing is there: no object of this name, and none below it",
              path);
}

Status S3Origin::remove(const std::string& path) {
  return base::status_of(service_.ask({.method = "DELETE", .path = path}));
}

Result<std::unique_ptr<FileLock>> S3Origin::lock(const std::string&) {
  return std::unique_ptr<FileLock>();
}

std::string S3Origin::canonical(const std::string& path) const {
  std::string canonical = path;
  while (canonical.ends_with('/')) canonical.pop_back();
  return canonical;
}

}  // namespace forebay::io::s3
