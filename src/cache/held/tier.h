// One of the two places of held ranges, in memory or on a disk: its scratch files, the list of its
// extents, how much room is left, and which of its extents may be dropped for others.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cache/held/extent_list.h"
#include "cache/held/extent_map.h"
#include "io/scratch_files.h"

namespace forebay::cache {

struct TierOptions {
  std::string folder;      // in memory (a tmpfs) or on a disk
  uint64_t bytes_max = 0;  // 0: there is no such tier
};

// One thread at a time may use it.
class Tier {
 public:
  // Opens the folder; begin_list() must follow. Errors: those of ScratchFiles::open().
  Status open(const TierOptions& options, io::Found found);
  bool is_open() const { return files_ != nullptr; }
  io::ScratchFiles& files() { return *files_; }

  // Room, in bytes. Held extents count as whole blocks, and the list counts, too.
  uint64_t held_bytes() const { return held_bytes_; }
  bool is_too_small_for(uint64_t bytes) const { return bytes > bytes_max_; }
  bool is_over_full() const { return held_bytes_ > bytes_max_; }
  bool has_room(uint64_t bytes) const;
  uint64_t free_bytes() const;
  void take(uint64_t bytes) { held_bytes_ += bytes; }
  void give_back(uint64_t bytes) { held_bytes_ -= bytes; }
  // Keeps what it has, but takes nothing more: the disk is full or fails.
  void freeze() { bytes_max_ = std::min(bytes_max_, held_bytes_); }

  // The list. Errors: those of ExtentList.
  std::vector<ExtentList::Entry> read_list() const { return ExtentList::read(list_path()); }
  bool has_list() const { return list_ != nullptr; }
  Status begin_list(std::span<const ExtentList::Entry> entries);
  Status write_down(const ExtentList::Entry& entry) { return list_->add(entry); }
  // Whether it should be begun anew, because many of its entries are outdated.
  bool is_list_long() const;

  // Extents that may be dropped: those of an earlier process, and those with blocks that are needed
  // later.
  struct Droppable {
    FileId file;
    uint64_t offset = 0;
    bool is_found = false;
  };
  // Sets these members of an extent of this tier.
  void set_worth(const FileId& file, uint64_t offset, Extent& extent, bool is_found,
                 uint64_t later);
  // The extent to drop first among those that may go; nothing if there is none.
  std::optional<Droppable> first_to_drop(bool found_may_go, bool later_may_go) const;

 private:
  std::string list_path() const { return files_->list_path(); }

  std::unique_ptr<io::ScratchFiles> files_;
  std::unique_ptr<ExtentList> list_;
  uint64_t bytes_max_ = 0;
  uint64_t held_bytes_ = 0;
  uint64_t list_bytes_ = 0;  // the list's size when it was last begun
  std::set<std::pair<FileId, uint64_t>> found_;
  std::set<std::pair<FileId, uint64_t>> later_;
};

}  // namespace forebay::cache
