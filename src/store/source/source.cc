#include "store/source/source.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/file_system.h"
#include "store/format/schema_codec.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

bool ends_with_tar(std::string_view name) { return io::lower(name).ends_with(".tar"); }

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void split_place(const std::string& source, ResolvedSource* places) {
  const size_t slash = source.substr(0, source.find('{')).rfind('/');
  places->folder = slash == std::string::npos ? "." : source.substr(0, std::max<size_t>(slash, 1));
  places->name = slash == std::string::npos ? source : source.substr(slash + 1);
}

// Finds the shards in a source's folder, or else the subfolders, which are its classes.
Status look_into(const io::Origin& origin, ResolvedSource* places) {
  ASSIGN_OR_RETURN(const auto entries, origin.list(places->folder));
  std::vector<std::string> images;
  LeftOut& left_out = places->left_out;
  for (const auto& entry : entries) {
    const bool is_folder = entry.type == io::FileType::kDirectory;
    const bool is_image = is_image_extension(io::lower(split_extension(entry.name).second));
    if (is_own(entry)) {
      places->has_old_index |= is_folder && entry.name == kOldIndexFolder;
    } else if (is_hidden(entry.name)) {
      places->files += is_folder ? 0 : 1;
      if (is_folder || is_image || ends_with_tar(entry.name))
        left_out.add_hidden(entry.name, is_folder ? kHiddenFolder : kHiddenFile);
    } else if (is_folder) {
      places->classes.push_back(entry.name);
    } else if (entry.type == io::FileType::kFile && ends_with_tar(entry.name)) {
      places->shards.push_back(io::join_path(places->folder, entry.name));
    } else {
      ++places->files;
      if (is_image) images.push_back(entry.name);
      if (!is_image) left_out.add_if_data(entry.name);
    }
  }
  const bool has_shards = !places->shards.empty();
  if (!has_shards && places->classes.empty()) return {};
  for (const std::string& image : images) {
    left_out.add(image, has_shards ? "an image beside .tar files; only the .tar files are read"
                                   : "an image beside folders; only the folders' images are read, "
                                     "each folder as a class");
  }
  if (!has_shards) return {};
  places->kind = SourceKind::kWebDataset;
  for (const std::string& name : std::exchange(places->classes, {})) {
    left_out.add(name, "a folder beside .tar files; only the .tar files are read");
  }
  return {};
}

Result<ResolvedSource> find_any(const io::Origin& origin, const std::string& source) {
  if (source.empty()) return fail(Code::kInvalid, "the source's name is empty");
  ResolvedSource places;
  if (source.find('{') != std::string::npos && !origin.stat(source)) {
    places.kind = SourceKind::kWebDataset;
    split_place(source, &places);
    ASSIGN_OR_RETURN(places.shards, expand_braces(source));
    return places;
  }
  const std::string path = without_trailing_slash(source);
  ASSIGN_OR_RETURN(const io::FileInfo info, origin.stat(path));
  if (info.type == io::FileType::kFile && ends_with_tar(path)) {
    places.kind = SourceKind::kWebDataset;
    split_place(path, &places);
    places.shards = {path};
    return places;
  }
  if (info.type == io::FileType::kFile) {
    return fail(Code::kUnsupported,
                "{}: a source is a folder by class, a .tar file, a folder of .tar files or a "
                "range x-{{000..010}}.tar; unpack compressed archives first",
                path);
  }
  if (info.type != io::FileType::kDirectory) {
    return fail(Code::kUnsupported, "{}: neither a folder nor a regular file", path);
  }
  places.folder = path;
  RETURN_IF_ERROR(look_into(origin, &places));
  return places;
}

}  // namespace

std::string ResolvedSource::source() const {
  return name.empty() ? folder : io::join_path(folder, name);
}

std::string ResolvedSource::below(const std::string& path) const {
  const std::string prefix = io::join_path(folder, "");
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

Result<ResolvedSource> resolve_source(const io::Origin& origin, const std::string& source) {
  auto places = find_any(origin, source);
  if (!places) return tl::unexpected(advise(origin, source, places.error()));
  return places;
}

Result<Listing> list_places(const io::Origin& origin, const ResolvedSource& places,
                            const ListOptions& options) {
  auto listing = places.kind == SourceKind::kFolder ? list_folder(origin, places)
                                                    : list_webdataset(origin, places, options);
  if (!listing) return tl::unexpected(advise(origin, places.folder, listing.error()));
  if (listing->kind == SourceKind::kWebDataset) {
    listing->left_out = places.left_out.data();
    listing->hidden = places.left_out.hidden();
  }
  // The schema is checked now, so that pack does not fail only after everything has been packed.
  RETURN_IF_ERROR(check_schema(listing->schema).at(places.source()));
  return listing;
}

Result<Listing> list_source(const io::Origin& origin, const std::string& source) {
  ASSIGN_OR_RETURN(const ResolvedSource places, resolve_source(origin, source));
  return list_places(origin, places);
}

Status advise(const io::Origin& origin, const std::string& path, const Status& error) {
  const bool is_advised = error.message().ends_with(io::kFewDescriptors);
  if (error.code() != Code::kIo || is_advised || origin.is_remote(path)) return error;
  return {Code::kIo, error.message() + "; make it readable (chmod), or leave it out of the source"};
}

bool is_image_extension(std::string_view lower) {
  constexpr std::array<std::string_view, 9> kExtensions = {"jpg", "jpeg", "png",  "ppm", "bmp",
                                                           "pgm", "tif",  "tiff", "webp"};
  return std::find(kExtensions.begin(), kExtensions.end(), lower) != kExtensions.end();
}

Result<int64_t> parse_class(Bytes file) {
  std::string_view text = base::as_text(file);
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return fail(Code::kCorrupt, "\"{}\" is not a class number", text.substr(0, 40));
  }
  return value;
}

std::string escape_key(std::string key) {
  if (key.starts_with("__")) return "%5F" + key.substr(1);
  if (key.starts_with('%')) return "%25" + key.substr(1);
  return key;
}

std::string escape_stem(std::string_view stem) {
  std::string out;
  for (const char c : stem) {
    if (c == '.') {
      out += "%2E";
    } else if (c == '%') {
      out += "%25";
    } else {
      out += c;
    }
  }
  return out;
}

std::pair<std::string_view, std::string_view> split_extension(std::string_view base_name) {
  const size_t dot = base_name.rfind('.');
  if (dot == std::string_view::npos) return {base_name, {}};
  return {base_name.substr(0, dot), base_name.substr(dot + 1)};
}

Result<std::vector<std::string>> expand_braces(const std::string& pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) return std::vector<std::string>{pattern};
  const size_t dots = pattern.find("..", open);
  const size_t close = pattern.find('}', open);
  const auto bad = [&] {
    return fail(Code::kInvalid, "{}: a range is written {{000..010}}, numbers only", pattern);
  };
  if (dots == std::string::npos || close == std::string::npos || dots > close) return bad();
  const std::string first = pattern.substr(open + 1, dots - open - 1);
  const auto from = parse_number(first);
  const auto to = parse_number(std::string_view(pattern).substr(dots + 2, close - dots - 2));
  if (!from || !to || *from > *to) return bad();
  ASSIGN_OR_RETURN(const auto tails, expand_braces(pattern.substr(close + 1)));
  if (*to - *from >= base::kShardsMax / tails.size()) {
    return fail(Code::kTooBig, "{}: more than {} shards", pattern, base::kShardsMax);
  }
  std::vector<std::string> paths;
  for (uint64_t number = *from; number <= *to; ++number) {
    for (const std::string& tail : tails) {
      paths.push_back(
          fmt::format("{}{:0{}}{}", pattern.substr(0, open), number, first.size(), tail));
    }
  }
  return paths;
}

}  // namespace forebay::store
