// The header of a request that says when the client needs the bytes of its ranges again
// (Range::again). The request's ranges are not cut for this, so the answer needs no more parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/serve/held_range.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::io::serve {

// The lengths of runs of the wanted bytes, counted through all ranges: a run that is needed soon,
// one that is needed later, and so on in turn. Bytes after the last run are needed soon, and so is
// everything without the header. The first length may be 0.
inline constexpr std::string_view kAgainHeader = "Forebay-Again";

// The header's value for these ranges; empty if all are needed soon. Runs that do not fit into
// kAgainTextBytesMax are said to be needed soon.
std::string again_text(const std::vector<Range>& ranges);

// The wanted ranges, cut where a run of the header's value ends. Errors: kInvalid if the value is
// malformed, or has more bytes than the ranges.
base::Result<std::vector<WantedRange>> cut_by_again(const std::vector<WantedRange>& wanted,
                                                    std::string_view text);

// Joins held ranges for `cuts`, which cut_by_again() made, into held ranges for `wanted`.
std::vector<HeldRange> join_held(const std::vector<WantedRange>& wanted,
                                 const std::vector<WantedRange>& cuts, std::vector<HeldRange> held);

}  // namespace forebay::io::serve
