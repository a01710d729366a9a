#include "cache/held/tier.h"

#include <algorithm>

namespace forebay::cache {

namespace {

// A list is begun anew when it is longer than kListLeast plus this many times its length at its
// beginning.
constexpr uint64_t kListTimes = 2;
constexpr uint64_t kListLeast = 256u << 10;  // bytes

}  // namespace

Status Tier::open(const TierOptions& options, io::Found found) {
  ASSIGN_OR_RETURN(files_, io::ScratchFiles::open(options.folder, found));
  bytes_max_ = options.bytes_max;
  return {};
}

bool Tier::has_room(uint64_t bytes) const {
  return held_bytes_ + bytes + list_->bytes() <= bytes_max_;
}

uint64_t Tier::free_bytes() const {
  return bytes_max_ - std::min(held_bytes_ + list_->bytes(), bytes_max_);
}

Status Tier::begin_list(std::span<const ExtentList::Entry> entries) {
  ASSIGN_OR_RETURN(list_, ExtentList::begin(list_path(), entries));
  list_bytes_ = list_->bytes();
  return {};
}

bool Tier::is_list_long() const { return list_->bytes() > kListLeast + kListTimes * list_bytes_; }

void Tier::set_worth(const FileId& file, uint64_t offset, Extent& extent, bool is_found,
                     uint64_t later) {
  if (extent.is_found && !is_found) found_.erase({file, offset});
  if (!extent.is_found && is_found) found_.emplace(file, offset);
  if (extent.later != 0 && later == 0) later_.erase({file, offset});
  if (extent.later == 0 && later != 0) later_.emplace(file, offset);
  extent.is_found = is_found;
  extent.later = later;
}

std::optional<Tier::Droppable> Tier::first_to_drop(bool found_may_go, bool later_may_go) const {
  const bool is_found = found_may_go && !found_.empty();
  if (!is_found && (!later_may_go || later_.empty())) return std::nullopt;
  const auto& [file, offset] = *(is_found ? found_ : later_).begin();
  return Droppable{file, offset, is_found};
}

}  // namespace forebay::cache
