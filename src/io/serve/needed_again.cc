#include "io/serve/needed_again.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::io::serve {

using base::Code;
using base::fail;
using base::Result;

namespace {

Again other(Again again) { return again == Again::kSoon ? Again::kLater : Again::kSoon; }

// The lengths in the header's value, and one more run for all bytes after them.
Result<std::vector<uint64_t>> parse_lengths(std::string_view text, uint64_t bytes) {
  std::vector<uint64_t> lengths;
  while (!text.empty()) {
    uint64_t length = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const bool is_empty = length == 0 && !lengths.empty();
    if (error != std::errc() || is_empty) {
      return fail(Code::kInvalid, "{} does not list lengths of bytes", kAgainHeader);
    }
    if (length > bytes) {
      return fail(Code::kInvalid, "{} has more bytes than the ranges", kAgainHeader);
    }
    bytes -= length;
    lengths.push_back(length);
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) {
      return fail(Code::kInvalid, "{} does not list lengths of bytes", kAgainHeader);
    }
    text.remove_prefix(1);
  }
  if (lengths.size() % 2 != 0) lengths.push_back(0);
  lengths.push_back(bytes);
  return lengths;
}

}  // namespace

std::string again_text(const std::vector<Range>& ranges) {
  std::string text;
  Again now = Again::kSoon;
  uint64_t run = 0;
  const auto end_run = [&] {
    const std::string length = fmt::format("{}{}", text.empty() ? "" : ",", run);
    if (text.size() + length.size() > base::kAgainTextBytesMax) return false;
    text += length;
    return true;
  };
  for (const Range& range : ranges) {
    if (range.again != now) {
      if (!end_run()) return text;
      now = other(now);
      run = 0;
    }
    run += range.out.size();
  }
  if (now == Again::kLater) end_run();
  return text;
}

Result<std::vector<WantedRange>> cut_by_again(const std::vector<WantedRange>& wanted,
                                              std::string_view text) {
  ASSIGN_OR_RETURN(const auto lengths, parse_lengths(text, bytes_of(wanted)));
  std::vector<WantedRange> cuts;
  size_t run = 0;
  uint64_t left = lengths[0];  // bytes of the run
  Again now = Again::kSoon;
  for (WantedRange range : wanted) {
    while (range.length > 0) {
      if (left == 0) {
        left = lengths[++run];
        now = other(now);
        continue;
      }
      const uint64_t step = std::min(left, range.length);
      cuts.push_back({range.offset, step, now});
      range.offset += step;
      range.length -= step;
      left -= step;
    }
  }
  return cuts;
}

std::vector<HeldRange> join_held(const std::vector<WantedRange>& wanted,
                                 const std::vector<WantedRange>& cuts,
                                 std::vector<HeldRange> held) {
  if (cuts.size() == wanted.size()) return held;
  std::vector<HeldRange> out;
  size_t at = 0;
  for (const WantedRange& range : wanted) {
    HeldRange joined = std::move(held[at]);
    for (uint64_t bytes = cuts[at++].length; bytes < range.length; ++at) {
      joined.crc32c = base::Crc32cJoin(cuts[at].length)(joined.crc32c, held[at].crc32c);
      std::ranges::move(held[at].pieces, std::back_inserter(joined.pieces));
      bytes += cuts[at].length;
    }
    out.push_back(std::move(joined));
  }
  return out;
}

}  // namespace forebay::io::serve
