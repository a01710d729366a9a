// Whether a feed's options make sense.
#pragma once

#include "feed/feed.h"

namespace forebay::feed {

// kInvalid, naming the option.
Status check_options(const FeedOptions& options);

}  // namespace forebay::feed
