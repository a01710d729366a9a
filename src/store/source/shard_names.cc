#include "store/source/shard_names.h"

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "io/ascii.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

// Returns the folder of a key, with a slash at its end; empty for a key at the top of a shard.
std::string_view folder_of(std::string_view key) { return key.substr(0, key.rfind('/') + 1); }

// Returns the leading folders that the keys of all samples have in common.
std::string_view common_folders(const std::vector<SourceSample>& samples) {
  std::string_view common = folder_of(samples.front().key);
  for (const SourceSample& sample : samples) {
    const std::string_view folder = folder_of(sample.key);
    const auto end = std::ranges::mismatch(common, folder).in1;
    common = common.substr(0, static_cast<size_t>(end - common.begin()));
    common = folder_of(common);
  }
  return common;
}

std::string_view class_of(std::string_view key, size_t common_bytes) {
  const std::string_view rest = key.substr(common_bytes);
  return rest.substr(0, rest.find('/'));
}

// Returns a shard's file name without ".tar".
std::string_view stem_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return io::lower(name).ends_with(".tar") ? name.substr(0, name.size() - 4) : name;
}

// Returns the prefix of each shard's keys, which is the shard's name below the folder.
Result<std::vector<std::string>> prefixes_of(const ResolvedSource& places, const Listing& listing) {
  std::vector<std::string> prefixes;
  std::set<std::string_view> seen;
  prefixes.reserve(listing.shards.size());
  for (const SourceShard& shard : listing.shards) {
    std::string name = places.below(shard.path);
    if (name.ends_with(".tar")) name.resize(name.size() - 4);
    prefixes.push_back(escape_key(std::move(name)));
    if (leads_out(prefixes.back()) || !seen.insert(prefixes.back()).second) {
      return fail(
          Code::kUnsupported,
          "{}: several shards have the same keys, so each sample is named by its shard and its "
          "key, but this shard has no unique name below {}; rename it",
          shard.path, places.folder);
    }
  }
  return prefixes;
}

}  // namespace

bool label_by_folders(Listing* listing) {
  const size_t common_bytes = common_folders(listing->samples).size();
  std::set<std::string_view> names;
  for (const SourceSample& sample : listing->samples) {
    if (folder_of(sample.key).size() <= common_bytes) return false;
    const std::string_view name = class_of(sample.key, common_bytes);
    if (name.empty() || name.size() > base::kClassNameBytesMax) return false;
    names.insert(name);
    if (names.size() > base::kClassesMax) return false;
  }
  auto& classes = listing->schema.classes;
  classes.assign(names.begin(), names.end());
  for (SourceSample& sample : listing->samples) {
    const auto at = std::ranges::lower_bound(classes, class_of(sample.key, common_bytes));
    sample.label = at - classes.begin();
  }
  return true;
}

bool label_by_shards(Listing* listing) {
  std::set<std::string_view> names;
  for (const SourceShard& shard : listing->shards) names.insert(stem_of(shard.path));
  const size_t shards = listing->shards.size();
  if (shards < 2 || names.size() < shards || shards > base::kClassesMax) return false;
  const auto is_too_long = [](auto name) { return name.size() > base::kClassNameBytesMax; };
  if (std::ranges::any_of(names, is_too_long)) return false;
  for (const SourceSample& sample : listing->samples) {
    const std::string_view shard = stem_of(listing->shards[sample.files[0].shard].path);
    const std::string_view image =
        std::string_view(sample.key).substr(folder_of(sample.key).size());
    if (!image.starts_with(shard) || !image.substr(shard.size()).starts_with('_')) return false;
  }
  auto& classes = listing->schema.classes;
  classes.assign(names.begin(), names.end());
  for (SourceSample& sample : listing->samples) {
    const std::string_view shard = stem_of(listing->shards[sample.files[0].shard].path);
    sample.label = std::ranges::lower_bound(classes, shard) - classes.begin();
  }
  listing->has_classes_of_shards = true;
  return true;
}

Status qualify_keys(const ResolvedSource& places, Listing* listing) {
  ASSIGN_OR_RETURN(const auto prefixes, prefixes_of(places, *listing));
  for (SourceSample& sample : listing->samples) {
    const uint32_t shard = sample.files[0].shard;
    sample.key = io::join_path(prefixes[shard], sample.key);
    sample.source_path = io::join_path(prefixes[shard], sample.source_path);
    if (sample.key.size() > base::kKeyBytesMax ||
        sample.source_path.size() > base::kSourcePathBytesMax) {
      return fail(
          Code::kTooBig,
          "{}: several shards have the same keys, and with the shard's name \"{}\" is longer "
          "than the limit of {} bytes for a key, or {} bytes for a path",
          listing->shards[shard].path, sample.key, base::kKeyBytesMax, base::kSourcePathBytesMax);
    }
  }
  return {};
}

}  // namespace forebay::store
