// Whether a feed's options make sense.
#pragma once

#include "feed/feed.h"

namespace forebay::feed {

// kInvalid, naming the option.
Status check_options(const FeedOptions& options);
// Whether FeedOptions::step_ends, where there are any, suit the other options and the dataset.
Status check_step_ends(const FeedOptions& options, uint64_t samples);

}  // namespace forebay::feed
