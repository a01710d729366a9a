#include "store/source/file_list.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/share_work.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

constexpr uint64_t kFilesATime = 512;
constexpr size_t kQuestionsAtOnce = 16;  // because each answer of a network file system takes time

// Returns the folder of a path, with a slash at its end.
std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

// Returns the folder that all paths have in common, with a slash at its end.
std::string_view common_folder(const std::vector<std::string>& paths) {
  std::string_view common = folder_of(paths.front());
  for (const std::string& path : paths) {
    const auto end = std::ranges::mismatch(common, path).in1;
    common = folder_of(common.substr(0, static_cast<size_t>(end - common.begin())));
  }
  return common;
}

// Gives each file a key: its path below the folder without the suffix. Files that differ only in
// their suffixes get different keys, and a changed key never takes that of another file.
class KeyMaker {
 public:
  explicit KeyMaker(const std::vector<SourceSample>& samples) {
    for (const SourceSample& sample : samples) plain_.insert(plain_key(sample.source_path));
  }

  std::string key_of(const SourceSample& sample) {
    const auto [place, is_new] = by_path_.try_emplace(sample.source_path);
    if (is_new) place->second = free_key(plain_key(sample.source_path), sample.files[0].suffix);
    return place->second;
  }

 private:
  static std::string plain_key(const std::string& path) {
    const std::string_view folder = folder_of(path);
    const auto [stem, extension] = split_extension(std::string_view(path).substr(folder.size()));
    return escape_key(std::string(folder) + escape_stem(stem));
  }

  std::string free_key(const std::string& plain, const std::string& suffix) {
    if (used_.insert(plain).second) return plain;
    const std::string base = plain + "_" + suffix;
    std::string key = base;
    for (int n = 2; plain_.contains(key) || !used_.insert(key).second; ++n) {
      key = fmt::format("{}_{}", base, n);
    }
    return key;
  }

  std::unordered_set<std::string> plain_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, std::string> by_path_;
};

// Gets the sizes and times of the files, many at once.
Status measure(const io::Origin& origin, const std::vector<std::string>& paths, Listing* out) {
  std::vector<uint8_t> is_missing(paths.size());
  const auto ask = [&](uint64_t begin, uint64_t end, size_t) -> Status {
    for (uint64_t i = begin; i < end; ++i) {
      const auto info = origin.stat(paths[i]);
      is_missing[i] = !info && info.error().code() == Code::kNotFound ? 1 : 0;
      if (is_missing[i] != 0) continue;
      if (!info) return advise(origin, paths[i], info.error());
      if (info->type != io::FileType::kFile) {
        return fail(Code::kUnsupported,
                    "{}: not a regular file; a list has image files, and a dataset is opened by "
                    "its path alone",
                    paths[i]);
      }
      out->samples[i].modified_ns = info->modified_ns;
      out->samples[i].files[0].length = info->size;
    }
    return {};
  };
  RETURN_IF_ERROR(io::share_work(paths.size(), kFilesATime, kQuestionsAtOnce, ask));
  const auto missing = std::ranges::count(is_missing, 1);
  if (missing == 0) return {};
  const auto first = std::ranges::find(is_missing, 1) - is_missing.begin();
  return fail(Code::kNotFound, "{} of {} do not exist, such as {}", missing,
              base::counted(paths.size(), "file"), paths[static_cast<size_t>(first)]);
}

}  // namespace

Result<Listing> list_files(const io::Origin& origin, const std::vector<std::string>& paths) {
  if (paths.empty()) return fail(Code::kInvalid, "the list of files is empty");
  if (paths.size() > base::kSourceEntriesMax) {
    return fail(Code::kTooBig, "{} files, more than {}", paths.size(), base::kSourceEntriesMax);
  }
  const std::string_view root = common_folder(paths);
  Listing listing;
  listing.root = root.size() > 1 ? std::string(root.substr(0, root.size() - 1)) : std::string(root);
  listing.schema.fields = {{"image", FieldKind::kImage}};
  listing.samples.resize(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    SourceSample& sample = listing.samples[i];
    sample.source_path = paths[i].substr(root.size());
    const std::string_view name = sample.source_path;
    sample.files.push_back({.suffix = io::lower(split_extension(name).second)});
  }
  KeyMaker keys(listing.samples);
  for (SourceSample& sample : listing.samples) {
    sample.key = keys.key_of(sample);
    if (sample.key.size() > base::kKeyBytesMax ||
        sample.source_path.size() > base::kSourcePathBytesMax) {
      return fail(Code::kTooBig, "{}: its name makes a key of {} bytes, the limit is {}",
                  sample.source_path, sample.key.size(), base::kKeyBytesMax);
    }
  }
  RETURN_IF_ERROR(measure(origin, paths, &listing));
  return listing;
}

}  // namespace forebay::store
