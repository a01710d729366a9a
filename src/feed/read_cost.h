// What reading over a network costs, in bytes: from this follows which bytes are worth leaving out.
// Plain numbers without state, so that they can be measured later as an epoch runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::feed {

// Reads in flight at once, so that a link is busy while each of them waits for its first byte.
inline constexpr uint32_t kRemoteReads = 64;

struct ReadCost {
  double latency_s = 0.02;  // seconds from a request to its first byte
  double bytes_per_s = 25e6;
  // What one more range in a request costs: a part of a `multipart/byteranges` answer has about so
  // many bytes of headers.
  uint64_t range_bytes = 160;
  // Ranges in one request. The line that names them must fit the 8 KB that usual servers take.
  size_t ranges_max = 256;

  // What one more request costs: its share of the bytes that come while it waits.
  uint64_t request_bytes() const {
    return static_cast<uint64_t>(latency_s * bytes_per_s / kRemoteReads) + range_bytes;
  }
  // The largest gap between two ranges that is cheaper to read than to leave out.
  uint64_t gap_bytes_max() const { return ranges_max > 1 ? range_bytes : request_bytes(); }

  // Whether a file of which `bytes` in `ranges` are needed is read as a whole: reading nearly all
  // of it saves little, and a whole file has a checksum that is longer than those of its segments.
  bool is_nearly_whole(uint64_t bytes, size_t ranges, uint64_t file_bytes) const {
    return static_cast<double>(bytes + ranges * range_bytes) >
           kWholeShare * static_cast<double>(file_bytes);
  }
  // Whether an index is worth reading when `bytes` of images will be read with its help.
  bool is_worth(uint64_t index_bytes, uint64_t bytes) const {
    return static_cast<double>(index_bytes + request_bytes()) <
           kSavedShare * static_cast<double>(bytes);
  }

  static constexpr double kWholeShare = 0.9;
  // The share of photographs' bytes that usual random crops leave out, at least.
  static constexpr double kSavedShare = 0.4;
};

}  // namespace forebay::feed
