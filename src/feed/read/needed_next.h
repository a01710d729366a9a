// Which of the bytes that an epoch reads the next epoch needs too, for caches that have too little
// room (io::Again). Plain logic without files and threads.
#pragma once

#include <span>
#include <vector>

#include "feed/read/region_plan.h"
#include "io/origin.h"

namespace forebay::feed {

// Part of a run of a slice.
struct RunPiece {
  size_t run = 0;
  FileRange range;
  io::Again again = io::Again::kSoon;
};

// Caches hold blocks of this size. A block of which only a part is needed is not worth its room.
inline constexpr uint64_t kKeptBlockBytes = 4096;

// Cuts the runs of a slice, which ascend and do not overlap, where the bytes that the next epoch
// needs of the same samples begin and end. Blocks of which it needs only a part are kLater. Empty
// if it needs all bytes.
std::vector<RunPiece> cut_runs(std::span<const ChunkRun> runs,
                               std::vector<WantedBytes> needed_next);

}  // namespace forebay::feed
