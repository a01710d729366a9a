// A server's view of range requests: parses the ranges of a request, and writes the text of the
// answer (RFC 9110, section 14).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/origin.h"

namespace forebay::io::serve {

struct WantedRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  Again again = Again::kSoon;
  bool operator==(const WantedRange&) const = default;
};

// Parses "bytes=0-9,100-109" for a file of `size` bytes. The ranges must ascend, not overlap and
// have at least one byte each, because Forebay's clients send only such ranges. Errors: kInvalid
// for every other form, also those that RFC 9110 allows; kTooBig for more than kHttpRangesMax
// ranges.
base::Result<std::vector<WantedRange>> parse_range_header(std::string_view text, uint64_t size);

uint64_t bytes_of(std::span<const WantedRange> ranges);

// The text around the ranges' bytes in an answer: its head, then the text before each range's
// bytes, and last the text after all of them. `keep`: the connection stays open. `crc32cs`: the
// checksum of each range, or empty if they are not known. `proof`: the server's own (own_user.h),
// or empty.
std::vector<std::string> answer_texts(const std::vector<WantedRange>& ranges, uint64_t size,
                                      bool keep, const std::vector<uint32_t>& crc32cs,
                                      std::string_view proof = {});

// In an answer: the checksums of its ranges, in their order and in hexadecimal digits. Left out if
// they are not known.
inline constexpr std::string_view kChecksumsHeader = "Forebay-Crc32c";
// In a request whose last answer did not match its checksums: the server must check the bytes that
// it has.
inline constexpr std::string_view kDoubtHeader = "Forebay-Doubt";
// In a request for ranges only if the server holds them: it must not read them elsewhere.
inline constexpr std::string_view kHeldHeader = "Forebay-Held";
// In a request that wants no bytes: the bytes that the server holds of these ranges match their
// checksums but are wrong, so it must drop them.
inline constexpr std::string_view kWrongHeader = "Forebay-Wrong";
// In a request of a member that has no room for these ranges: the server holds them instead, and
// reads them from their origin, unless it has no room either.
inline constexpr std::string_view kHoldHeader = "Forebay-Hold";
// In a request for ranges that the server should fetch before they are read. The answer holds no
// bytes and does not wait for them; its code tells the outcome (prefetch_answer.h).
inline constexpr std::string_view kPrefetchHeader = "Forebay-Ahead";

}  // namespace forebay::io::serve
