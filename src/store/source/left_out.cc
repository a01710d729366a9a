#include "store/source/left_out.h"

#include <algorithm>
#include <array>

#include "io/ascii.h"
#include "store/source/source.h"

namespace forebay::store {

namespace {

constexpr std::array<std::string_view, 15> kOtherImages = {"jfif", "jpe", "heic", "heif", "avif",
                                                           "gif",  "jp2", "j2k",  "jxl",  "dng",
                                                           "cr2",  "nef", "arw",  "svg",  "dcm"};
constexpr std::array<std::string_view, 8> kArchives = {
    ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz", ".tar.lz4", ".zip", ".7z"};

}  // namespace

bool is_hidden(std::string_view name) {
  return name.starts_with('.') || name == "@eaDir" || name == "__MACOSX";
}

void LeftOut::note(const std::string& path, std::string_view reason, Groups* groups) {
  Group& group = groups->try_emplace(std::string(reason), Group{.first = path}).first->second;
  ++group.count;
}

std::vector<Remark> LeftOut::remarks_of(const Groups& groups) {
  std::vector<Remark> out;
  for (const auto& [reason, group] : groups) {
    const std::string more = group.count == 1 ? "" : fmt::format(" ({} in all)", group.count);
    out.push_back({group.first, reason + more});
  }
  return out;
}

void LeftOut::add_if_data(const std::string& path) {
  const std::string lower = io::lower(path);
  const std::string_view suffix = split_extension(lower).second;
  if (std::ranges::find(kOtherImages, suffix) != kOtherImages.end()) {
    add(path, fmt::format("no image by its suffix .{}; read are .jpg .jpeg .png .webp", suffix));
  }
  for (const std::string_view archive : kArchives) {
    if (lower.ends_with(archive)) {
      add(path, fmt::format("a compressed archive ({}); unpack or decompress it first", archive));
    }
  }
}

}  // namespace forebay::store
