// A feed's state as JSON text, to store beside a checkpoint.
#pragma once

#include "feed/feed.h"

namespace forebay::feed {

// {"epoch": …, "position": …, "bad": [{"sample": …, "chunk": …, "key": …, "reason": …}, …]}
std::string encode_state(const FeedState& state);
// Errors: kCorrupt, when the text is not what encode_state() gives.
Result<FeedState> decode_state(std::string_view text);

}  // namespace forebay::feed
