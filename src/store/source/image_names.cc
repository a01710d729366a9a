#include "store/source/image_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "io/ascii.h"
#include "store/source/path_parts.h"
#include "store/source/source.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

std::string plain_path(std::string_view file_name) {
  return fmt::format("{}", fmt::join(components(file_name), "/"));
}

// Returns the key that an image of this name has in a folder source if no other file there has the
// same name with another suffix; empty if the name is empty.
std::string key_of(std::string_view file_name) {
  const std::vector<std::string> parts = components(file_name);
  std::string key;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    key += is_last ? escape_stem(split_extension(parts[i]).first) : parts[i] + "/";
  }
  return escape_key(std::move(key));
}

std::vector<std::string> plain_paths(const SampleNames& samples) {
  std::vector<std::string> out;
  for (const std::string& path : samples.paths) out.push_back(plain_path(path));
  return out;
}

std::vector<std::string> without_suffixes(std::vector<std::string> paths) {
  for (std::string& path : paths) {
    const std::string_view base = last_component(path);
    path.resize(path.size() - base.size() + split_extension(base).first.size());
  }
  return paths;
}

// Returns the samples' names without suffixes. These are their keys, except that a folder's "a.png"
// beside "a.jpg" has the key "a_png".
std::vector<std::string> stems_of(const SampleNames& samples) {
  std::vector<std::string> out = samples.keys;
  for (size_t i = 0; i < samples.paths.size(); ++i) {
    const std::string& path = samples.paths[i];
    std::string key = key_of(path);
    const std::string suffix = io::lower(split_extension(last_component(path)).second);
    if (out[i].starts_with(key + "_" + suffix)) out[i] = std::move(key);
  }
  return out;
}

const std::string& name_of(const SampleNames& samples, uint64_t number) {
  return samples.paths.empty() ? samples.keys[number] : samples.paths[number];
}

constexpr std::string_view kAdvice =
    "names without their suffixes leave a choice here, so give the whole names, or rename the "
    "files";

// Returns the samples' names without suffixes and without what the pattern has around "{}"; empty
// for a name that does not fit the pattern.
std::vector<std::string> stems_of(const SampleNames& samples, const NamePattern& pattern) {
  std::vector<std::string> out = stems_of(samples);
  const std::string begin = escape_stem(pattern.begin);
  const std::string end = escape_stem(pattern.end);
  for (std::string& stem : out) {
    const std::string_view last = last_component(stem);
    const bool fits =
        last.size() > begin.size() + end.size() && last.starts_with(begin) && last.ends_with(end);
    if (!fits) {
      stem.clear();
      continue;
    }
    const size_t folders = stem.size() - last.size();
    stem.resize(stem.size() - end.size());
    stem.erase(folders, begin.size());
  }
  return out;
}

// Joins what whole names left, by names without suffixes.
Status join_stems(const SampleNames& own, const SampleNames& other, const NamePatterns& patterns,
                  const std::unordered_set<uint64_t>& used, std::vector<uint64_t>* out) {
  const std::vector<std::string> own_stems = stems_of(own, patterns.own);
  const std::vector<std::string> stems = stems_of(other, patterns.other);
  std::unordered_multimap<std::string_view, uint64_t> by_stem;
  for (uint64_t i = 0; i < stems.size(); ++i) {
    if (!stems[i].empty() && !used.contains(i)) by_stem.emplace(stems[i], i);
  }
  std::unordered_map<std::string_view, uint64_t> takes;
  for (uint64_t i = 0; i < own_stems.size(); ++i) {
    if ((*out)[i] != kNoSample) continue;
    const auto [begin, end] = by_stem.equal_range(own_stems[i]);
    if (begin == end) continue;
    if (std::next(begin) != end) {
      return fail(Code::kInvalid, "{} may belong to {} or {}: {}", name_of(own, i),
                  name_of(other, std::next(begin)->second), name_of(other, begin->second), kAdvice);
    }
    const auto [taken, is_new] = takes.try_emplace(own_stems[i], i);
    if (!is_new) {
      return fail(Code::kInvalid, "{} may belong to {} or {}: {}", name_of(other, begin->second),
                  name_of(own, taken->second), name_of(own, i), kAdvice);
    }
    (*out)[i] = begin->second;
  }
  return {};
}

}  // namespace

SampleNames names_of(const Listing& listing) {
  SampleNames out;
  for (const SourceSample& sample : listing.samples) {
    out.keys.push_back(sample.key);
    out.paths.push_back(sample.source_path);
  }
  return out;
}

PathEnds::PathEnds(std::vector<std::string> paths) : paths_(std::move(paths)) {
  const std::hash<std::string_view> hash;
  entries_.reserve(paths_.size());
  for (uint64_t i = 0; i < paths_.size(); ++i) {
    entries_.push_back({hash(last_component(paths_[i])), hash(paths_[i]), i});
  }
  std::ranges::sort(entries_);
}

std::vector<uint64_t> PathEnds::equal(std::string_view path) const {
  const std::hash<std::string_view> hash;
  const Entry wanted{hash(last_component(path)), hash(path)};
  std::vector<uint64_t> out;
  for (auto at = std::ranges::lower_bound(entries_, wanted);
       at != entries_.end() && at->end_hash == wanted.end_hash && at->hash == wanted.hash; ++at) {
    if (paths_[at->number] == path) out.push_back(at->number);
  }
  return out;
}

std::vector<uint64_t> PathEnds::find(std::string_view path) const {
  std::vector<uint64_t> out = equal(path);
  if (!out.empty()) return out;
  const size_t end_hash = std::hash<std::string_view>()(last_component(path));
  for (auto at = std::ranges::lower_bound(entries_, Entry{end_hash});
       at != entries_.end() && at->end_hash == end_hash; ++at) {
    const std::string& other = paths_[at->number];
    if (ends_with_path(other, path) || ends_with_path(path, other)) out.push_back(at->number);
  }
  std::ranges::sort(out);
  return out;
}

ImageNames::ImageNames(const SampleNames& samples)
    : keys_(samples.keys),
      whole_(plain_paths(samples)),
      without_suffix_(without_suffixes(plain_paths(samples))),
      stems_(stems_of(samples)) {}

ImageNames::Match ImageNames::find(const std::string& file_name) const {
  const std::string name = plain_path(file_name);
  if (name.empty()) return {};
  if (const auto same = keys_.equal(name); !same.empty()) return {same.front()};
  const bool has_suffix =
      whole_.empty() || is_image_extension(io::lower(split_extension(last_component(name)).second));
  std::vector<uint64_t> found = whole_.find(name);
  if (found.empty()) found = without_suffix_.find(name);
  if (found.empty() && has_suffix) found = stems_.find(key_of(name));
  if (found.size() > 1) return {.sample = std::nullopt, .fits_several = true};
  return {found.empty() ? std::nullopt : std::optional(found[0])};
}

Status ImageNames::match_by(const PathEnds& names, bool is_whole,
                            std::span<const std::string> file_names,
                            std::vector<uint64_t>* out) const {
  const auto shown = [&](uint64_t sample) {
    return whole_.empty() ? stems_[sample] : whole_[sample];
  };
  std::unordered_set<uint64_t> by_whole_name(out->begin(), out->end());
  std::unordered_map<uint64_t, size_t> taken;
  for (size_t i = 0; i < file_names.size(); ++i) {
    if ((*out)[i] != kNoSample) continue;
    const std::string& file_name = file_names[i];
    const auto found = names.find(is_whole ? plain_path(file_name) : key_of(file_name));
    if (found.size() > 1) {
      return fail(Code::kInvalid, "the file_name {} may mean {} or {}: {}", file_name,
                  shown(found[0]), shown(found[1]),
                  is_whole ? "give the names with their folders" : kAdvice);
    }
    if (found.empty() || by_whole_name.contains(found[0])) continue;
    const auto [other, is_new] = taken.try_emplace(found[0], i);
    if (!is_new) {
      return fail(Code::kInvalid, "the file_name {} and the file_name {} both mean {}: {}",
                  file_names[other->second], file_name, shown(found[0]),
                  is_whole ? "each image may be listed once" : kAdvice);
    }
    (*out)[i] = found[0];
  }
  return {};
}

Result<std::vector<uint64_t>> ImageNames::match(std::span<const std::string> file_names) const {
  std::vector<uint64_t> out(file_names.size(), kNoSample);
  if (!whole_.empty()) RETURN_IF_ERROR(match_by(whole_, true, file_names, &out));
  RETURN_IF_ERROR(match_by(stems_, false, file_names, &out));
  return out;
}

bool ImageNames::is_file_name(std::string_view file_name) { return !components(file_name).empty(); }

Result<NamePattern> NamePattern::parse(std::string_view text) {
  const size_t at = text.find("{}");
  if (at == text.npos || text.find("{}", at + 2) != text.npos) {
    return fail(Code::kInvalid,
                "the pattern \"{}\" must have {{}} once, for the part that the names of an image "
                "and of its mask share, as in {{}}_mask",
                text);
  }
  if (text.find_first_of("/\\") != text.npos) {
    return fail(Code::kInvalid, "the pattern \"{}\" has folders, but must be a file's name alone",
                text);
  }
  if (const auto [stem, suffix] = split_extension(text); is_image_extension(io::lower(suffix))) {
    return fail(Code::kInvalid, "the pattern \"{}\" has a suffix, but must be \"{}\"", text, stem);
  }
  return NamePattern{std::string(text.substr(0, at)), std::string(text.substr(at + 2))};
}

Result<std::vector<uint64_t>> same_names(const SampleNames& own, const SampleNames& other,
                                         const NamePatterns& patterns) {
  std::vector<uint64_t> out(own.keys.size(), kNoSample);
  std::unordered_set<uint64_t> used;
  if (patterns.are_plain()) {
    std::unordered_map<std::string_view, uint64_t> whole;
    for (uint64_t i = 0; i < other.paths.size(); ++i) whole.emplace(other.paths[i], i);
    for (uint64_t i = 0; i < own.paths.size(); ++i) {
      const auto found = whole.find(own.paths[i]);
      if (found == whole.end()) continue;
      out[i] = found->second;
      used.insert(found->second);
    }
  }
  RETURN_IF_ERROR(join_stems(own, other, patterns, used, &out));
  return out;
}

bool may_be_twins(std::span<const std::string> keys) {
  const std::unordered_set<std::string_view> known(keys.begin(), keys.end());
  return std::ranges::any_of(keys, [&](std::string_view key) {
    for (size_t at = key.rfind('_'); at != key.npos && at > 0; at = key.rfind('_', at - 1)) {
      const std::string_view suffix = key.substr(at + 1, key.find('_', at + 1) - at - 1);
      if (is_image_extension(suffix) && known.contains(key.substr(0, at))) return true;
    }
    return false;
  });
}

}  // namespace forebay::store
