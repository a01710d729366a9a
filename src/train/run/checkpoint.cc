#include "train/run/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::train {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr size_t kStepDigits = 12;
constexpr size_t kKept = 2;

// The safetensors format has no checksum. A checkpoint's checksum is a metadata entry of fixed
// width, computed with zeros in its own place. It lies in the header's first kSealWithin bytes
// because metadata sorts first.
constexpr std::string_view kSealKey = "\"crc32c\":\"";
constexpr std::string_view kNoSeal = "00000000";
constexpr size_t kSealWithin = 256;

std::optional<size_t> seal_position(Bytes file) {
  const auto head = base::as_text(file.first(std::min(file.size(), kSealWithin)));
  const size_t at = head.find(kSealKey);
  if (at == std::string_view::npos || at + kSealKey.size() + kNoSeal.size() > head.size()) {
    return std::nullopt;
  }
  return at + kSealKey.size();
}

std::string seal_of(Bytes file, size_t at) {
  uint32_t crc = base::crc32c(file.first(at));
  crc = base::crc32c(base::as_bytes(kNoSeal), crc);
  crc = base::crc32c(file.subspan(at + kNoSeal.size()), crc);
  return fmt::format("{:08x}", crc);
}

Status seal(ByteVector* file) {
  const auto at = seal_position(*file);
  FOREBAY_CHECK(at.has_value());
  const std::string text = seal_of(*file, *at);
  std::copy(text.begin(), text.end(), file->begin() + static_cast<std::ptrdiff_t>(*at));
  return {};
}

Status check_seal(Bytes file) {
  const auto at = seal_position(file);
  if (!at) return fail(Code::kCorrupt, "not a checkpoint: no checksum in its header");
  if (base::as_text(file.subspan(*at, kNoSeal.size())) != seal_of(file, *at)) {
    return fail(Code::kCorrupt, "checksum differs: cut off or damaged");
  }
  return {};
}

Result<Progress> decode_progress(const std::map<std::string, std::string>& metadata) {
  for (const char* key : {"step", "feed", "options"}) {
    if (!metadata.contains(key)) return fail(Code::kCorrupt, "no \"{}\" in its metadata", key);
  }
  const json step = json::parse(metadata.at("step"), nullptr, false);
  if (!step.is_number_unsigned()) return fail(Code::kCorrupt, "its step is not a whole number");
  Progress progress;
  progress.step = step;
  ASSIGN_OR_RETURN(progress.feed, feed::decode_state(metadata.at("feed")));
  progress.options = metadata.at("options");
  return progress;
}

// Returns a text like "lr 0.4 (now 0.2), seed 0 (now 1)"; empty when nothing differs. A run may
// continue for more epochs than it was begun with; the learning rate then follows their schedule.
std::string differences(const std::string& saved, const std::string& now) {
  json a = json::parse(saved, nullptr, false);
  json b = json::parse(now, nullptr, false);
  if (a.is_object() && b.is_object() && a.value("epochs", 0.0) < b.value("epochs", 0.0)) {
    a["epochs"] = b["epochs"];
  }
  if (!a.is_object() || !b.is_object()) return saved == now ? "" : "options";
  std::string text;
  json keys = a;
  keys.update(b);
  for (const auto& [key, unused] : keys.items()) {
    const json left = a.value(key, json());
    const json right = b.value(key, json());
    if (left == right) continue;
    text +=
        fmt::format("{}{} {} (now {})", text.empty() ? "" : ", ", key, left.dump(), right.dump());
  }
  return text;
}

}  // namespace

Result<Progress> decode_checkpoint(Bytes file, const std::string& options,
                                   const std::vector<Named>& tensors) {
  RETURN_IF_ERROR(check_seal(file));
  ASSIGN_OR_RETURN(const Safetensors content, decode_safetensors(file));
  ASSIGN_OR_RETURN(Progress progress, decode_progress(content.metadata));
  const std::string differing = differences(progress.options, options);
  if (!differing.empty()) {
    return fail(Code::kInvalid,
                "was trained with other options: {}; give the same options, or another --out",
                differing);
  }
  RETURN_IF_ERROR(load_tensors(content, tensors));
  return progress;
}

static Result<Progress> load(const io::Origin& origin, const std::string& path,
                             const std::string& options, const std::vector<Named>& tensors) {
  ASSIGN_OR_RETURN(const ByteVector file, origin.read_whole(path, base::kSafetensorsFileMax));
  auto progress = decode_checkpoint(file, options, tensors);
  if (!progress) return tl::unexpected(progress.error().at(path));
  return progress;
}

Result<ByteVector> encode_checkpoint(const Progress& progress, const std::vector<Named>& tensors) {
  const std::map<std::string, std::string> metadata = {{"crc32c", std::string(kNoSeal)},
                                                       {"feed", feed::encode_state(progress.feed)},
                                                       {"format", "pt"},
                                                       {"options", progress.options},
                                                       {"step", std::to_string(progress.step)}};
  ASSIGN_OR_RETURN(ByteVector file, encode_tensors(tensors, metadata));
  RETURN_IF_ERROR(seal(&file));
  return file;
}

Status write_checkpoint(io::FileSystem& fs, const std::string& directory, const Progress& progress,
                        const std::vector<Named>& tensors) {
  ASSIGN_OR_RETURN(const ByteVector file, encode_checkpoint(progress, tensors));
  const std::string name = fmt::format("{}{:0{}}{}", kPrefix, progress.step, kStepDigits, kSuffix);
  RETURN_IF_ERROR(fs.put(io::join_path(directory, name), file).at("checkpoint"));
  ASSIGN_OR_RETURN(const auto all, list_checkpoints(fs, directory));
  for (size_t i = kKept; i < all.size(); ++i) RETURN_IF_ERROR(fs.remove(all[i]));
  return {};
}

Result<std::vector<std::string>> list_checkpoints(const io::Origin& origin,
                                                  const std::string& directory) {
  const auto entries = origin.list(directory);
  if (!entries && entries.error().code() == Code::kNotFound) return std::vector<std::string>();
  if (!entries) return fail(entries.error().code(), "{}", entries.error().message());
  std::vector<std::string> paths;
  for (const io::DirEntry& entry : *entries) {
    const std::string& name = entry.name;
    if (name.size() == kPrefix.size() + kStepDigits + kSuffix.size() && name.starts_with(kPrefix) &&
        name.ends_with(kSuffix)) {
      paths.push_back(io::join_path(directory, name));
    }
  }
  std::reverse(paths.begin(), paths.end());
  return paths;
}

Result<std::optional<Restored>> restore_checkpoint(const io::Origin& origin,
                                                   const std::string& directory,
                                                   const std::string& options,
                                                   const std::vector<Named>& tensors) {
  ASSIGN_OR_RETURN(const auto paths, list_checkpoints(origin, directory));
  Restored restored;
  for (const std::string& path : paths) {
    auto progress = load(origin, path, options, tensors);
    if (progress) {
      restored.progress = std::move(*progress);
      restored.path = path;
      return restored;
    }
    // Only these codes mean that the file is damaged. Other errors concern the disk, memory or the
    // options.
    const Code code = progress.error().code();
    const bool damaged =
        code == Code::kCorrupt || code == Code::kTooBig || code == Code::kUnsupported;
    if (!damaged) return tl::unexpected(progress.error());
    restored.damaged.push_back(progress.error().message());
  }
  if (paths.empty()) return std::nullopt;
  return fail(Code::kCorrupt,
              "{}: all checkpoints are damaged ({}); start again with another --out", directory,
              fmt::to_string(restored.damaged.front()));
}

}  // namespace forebay::train
