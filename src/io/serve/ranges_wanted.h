// The ranges of a request, and the words of the answer (RFC 9110, section 14), for a server.
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

// "bytes=0-9,100-109" for a file of `size` bytes: ranges that ascend, do not overlap and have at
// least one byte each, because that is what Forebay's clients ask for. Errors: kInvalid for every
// other form, also those that RFC 9110 allows; kTooBig for more than kHttpRangesMax ranges.
base::Result<std::vector<WantedRange>> parse_range_header(std::string_view text, uint64_t size);

uint64_t bytes_of(std::span<const WantedRange> ranges);

// What stands around the ranges' bytes in an answer: its head, then what comes before each range's
// bytes, and last what comes after them all. `keep`: the connection goes on. `crc32cs`: of each
// range, or none where they are not known.
std::vector<std::string> answer_texts(const std::vector<WantedRange>& ranges, uint64_t size,
                                      bool keep, const std::vector<uint32_t>& crc32cs);

// The header of an answer with the checksums of its ranges, in hexadecimal digits and in their
// order, as far as they are known.
inline constexpr std::string_view kChecksumsHeader = "Forebay-Crc32c";
// The header of a request whose last answer had bytes with other checksums: the server must check
// what it has.
inline constexpr std::string_view kDoubtHeader = "Forebay-Doubt";
// The header of a request for what the server holds, and for nothing that it would have to read
// elsewhere.
inline constexpr std::string_view kHeldHeader = "Forebay-Held";
// The header of a request that wants nothing: what the server holds of these ranges has the right
// checksums and is wrong all the same, so that it must not be held any more.
inline constexpr std::string_view kWrongHeader = "Forebay-Wrong";
// The header of a request of a member that has no room for these ranges: the server holds them in
// its place, and reads for it where they come from, unless it has no room either.
inline constexpr std::string_view kHoldHeader = "Forebay-Hold";
// The header of a request for ranges that the server shall fetch before somebody reads them. The
// answer has no bytes of them, and comes before they have; its code says what will
// become of them (prefetch_answer.h).
inline constexpr std::string_view kPrefetchHeader = "Forebay-Ahead";

}  // namespace forebay::io::serve
