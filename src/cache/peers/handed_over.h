// Which bytes of this machine's share other members hold in its place, because it had no room for
// them: plain logic.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cache/held/extent_list.h"
#include "io/origin.h"

namespace forebay::cache {

// One thread at a time may use it.
class HandedOver {
 public:
  // A part of a range, and the id of the member that holds it; empty if no holder is known.
  struct HeldPiece {
    uint64_t offset = 0;
    uint64_t length = 0;
    std::string member;
  };
  // Cuts a range by the members that hold its parts; the parts ascend.
  std::vector<HeldPiece> find(const FileId& file, uint64_t offset, uint64_t length) const;
  // The most ranges that are remembered, at about 100 bytes each.
  static constexpr size_t kRangesMost = 1u << 18;
  // Notes that a member, whose id must not be empty, holds this range. False, and nothing is noted,
  // if there are kRangesMost already.
  bool add(const FileId& file, uint64_t offset, uint64_t length, const std::string& member);
  // Forgets who holds this range.
  void remove(const FileId& file, uint64_t offset, uint64_t length);
  // Forgets what members other than these hold.
  void keep_only(const std::set<std::string>& members);
  uint64_t bytes() const { return bytes_; }

 private:
  struct Holder {
    uint64_t end = 0;
    std::string member;
  };
  using Holders = std::map<uint64_t, Holder>;  // by offset; they do not overlap

  void cut(Holders& holders, uint64_t offset, uint64_t end);

  std::map<FileId, Holders> files_;
  size_t holders_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace forebay::cache
