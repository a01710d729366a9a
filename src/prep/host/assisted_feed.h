// A feed that prep servers help: the same batches as without them, in the same order unless
// PrepOptions::any_order lets the steps of an epoch come in another one.
#pragma once

#include "feed/feed.h"
#include "prep/host/prep_options.h"

namespace forebay::prep {

using base::Result;

class AssistedFeed : public feed::Feed {
 public:
  // Errors: those of Feed::open(); kInvalid and kUnsupported for options that a prep server cannot
  // work by, each named.
  //
  // The first start() waits a few seconds at most for the prep servers' first answers. It gives
  // kInvalid or kUnsupported where one has another dataset or another version of Forebay. One that
  // does not answer is no error: it is asked again later.
  static Result<std::unique_ptr<AssistedFeed>> open(std::shared_ptr<const store::Dataset> dataset,
                                                    const feed::FeedOptions& options,
                                                    const PrepOptions& prep,
                                                    const io::Clock& clock = io::monotonic_clock());

  // Any thread may call it.
  virtual PrepStats prep_stats() const = 0;
};

}  // namespace forebay::prep
