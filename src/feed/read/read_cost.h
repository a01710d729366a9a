// What reading over a network costs, in bytes, which decides which bytes are worth leaving out.
// Plain numbers: those of a usual link, until measurements of the link replace them.
#pragma once

#include <algorithm>
#include <span>

#include "feed/read/plan.h"

namespace forebay::feed {

// Reads in flight at once, so that a link is busy while each of them waits for its first byte.
inline constexpr uint32_t kRemoteReads = 64;

struct ReadCost {
  double latency_s = 0.02;  // seconds from a request to its first byte
  double bytes_per_s = 25e6;
  // What one more range in a request costs: a part of a `multipart/byteranges` answer has about 120
  // bytes of headers, its range in the request takes 20, and both sides work on it.
  uint64_t range_bytes = 160;
  // Ranges in one request. The line that names them must fit the 8 KB that usual servers take.
  size_t ranges_max = 256;

  // What one more request costs: a fixed cost, and its share of the bytes that could come while it
  // waits.
  uint64_t request_bytes() const {
    const double waiting = latency_s * bytes_per_s / kRemoteReads;
    return kRequestBytes + static_cast<uint64_t>(std::min(waiting, kWaitingBytesMost));
  }
  // The largest gap between the ranges of two samples, or of one sample if requests may have
  // several ranges, that is cheaper to read than to leave out.
  uint64_t gap_bytes_max() const { return ranges_max > 1 ? range_bytes : request_bytes(); }

  // Whether a file of which these ascending ranges are needed is read as a whole: reading nearly
  // all of it saves little, and a whole file has a checksum that is longer than those of its
  // segments. If a request may have only one range, everything from the first range to the last is
  // read.
  bool is_nearly_whole(std::span<const FileRange> needed, uint64_t file_bytes) const {
    uint64_t bytes = 0;  // what would be read, with the gaps that are read too
    uint64_t end = 0;
    for (const FileRange& range : needed) {
      const uint64_t gap = range.offset - end;
      const bool reads_gap = end > 0 && (ranges_max == 1 || gap <= gap_bytes_max());
      bytes += range.length + (reads_gap ? gap : range_bytes);
      end = range.offset + range.length;
    }
    return static_cast<double>(bytes) > kWholeShare * static_cast<double>(file_bytes);
  }
  // Whether an index is worth reading when `bytes` of images will be read with its help.
  bool is_worth(uint64_t index_bytes, uint64_t bytes) const {
    const double saved = ranges_max > 1 ? kSavedShare : kSavedShareOfOneRange;
    return static_cast<double>(index_bytes + request_bytes()) < saved * static_cast<double>(bytes);
  }

  // A request and the head of its answer have about 1 KB. Both sides work on them, and object
  // stores charge for them: at AWS's prices a request costs as much as sending 4 KB out of their
  // network.
  static constexpr uint64_t kRequestBytes = 4 << 10;
  // However slow a link is, longer gaps are not read: a slice's memory is that of its samples.
  static constexpr double kWaitingBytesMost = 64 << 10;
  static constexpr double kWholeShare = 0.95;
  // The least shares of photographs' bytes that usual random crops leave out, once the images'
  // headers are known: if requests may have several ranges, and if they have one.
  static constexpr double kSavedShare = 0.4;
  static constexpr double kSavedShareOfOneRange = 0.25;
};

}  // namespace forebay::feed
