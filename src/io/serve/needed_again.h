// When a client needs the bytes of its ranges again, as a header of its request says it
// (Range::again). The ranges of the request are not cut for this, so it costs no parts of an
// answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/serve/held_range.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::io::serve {

// The lengths of runs of the wanted bytes, all ranges taken together: those that are needed soon,
// then those that are needed later, and so on in turn. After the last one everything is needed
// soon, as it is without the header. The first length may be 0.
inline constexpr std::string_view kAgainHeader = "Forebay-Again";

// The header's value for these ranges; empty where all are needed soon. What does not fit into
// kAgainTextBytesMax is said to be needed soon.
std::string again_text(const std::vector<Range>& ranges);

// The wanted ranges, cut where the value says that others begin. Errors: kInvalid where it is
// malformed, or has more bytes than the ranges.
base::Result<std::vector<WantedRange>> cut_by_again(const std::vector<WantedRange>& wanted,
                                                    std::string_view text);

// What is held of the wanted ranges, from what is held of the `cuts` that cut_by_again() made.
std::vector<HeldRange> join_held(const std::vector<WantedRange>& wanted,
                                 const std::vector<WantedRange>& cuts, std::vector<HeldRange> held);

}  // namespace forebay::io::serve
