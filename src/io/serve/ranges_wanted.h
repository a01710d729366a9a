// The ranges of a request, and the words of the answer (RFC 9110, section 14), for a server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay::io::serve {

struct WantedRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const WantedRange&) const = default;
};

// "bytes=0-9,100-109" for a file of `size` bytes: ranges that ascend, do not overlap and have at
// least one byte each, because that is what Forebay's clients ask for. Errors: kInvalid for every
// other form, also those that RFC 9110 allows; kTooBig for more than kHttpRangesMax ranges.
base::Result<std::vector<WantedRange>> parse_range_header(std::string_view text, uint64_t size);

uint64_t bytes_of(const std::vector<WantedRange>& ranges);

// What stands around the ranges' bytes in an answer: its head, then what comes before each range's
// bytes, and last what comes after them all. `keep`: the connection goes on.
std::vector<std::string> answer_texts(const std::vector<WantedRange>& ranges, uint64_t size,
                                      bool keep);

}  // namespace forebay::io::serve
