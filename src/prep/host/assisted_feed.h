// A feed that prep servers help: it gives the same batches as a feed without them, in the same
// order unless PrepOptions::any_order allows another order within an epoch.
#pragma once

#include "feed/feed.h"
#include "prep/host/prep_options.h"

namespace forebay::prep {

using base::Result;

class AssistedFeed : public feed::Feed {
 public:
  // Errors: those of Feed::open(); kInvalid and kUnsupported, naming the option, for options that
  // do not work with prep servers.
  //
  // The first start() waits a few seconds at most for the prep servers' first answers. It returns
  // kInvalid or kUnsupported if a prep server has another dataset or another version of Forebay. A
  // prep server that does not answer is no error: it is asked again later.
  static Result<std::unique_ptr<AssistedFeed>> open(std::shared_ptr<const store::Dataset> dataset,
                                                    const feed::FeedOptions& options,
                                                    const PrepOptions& prep,
                                                    const io::Clock& clock = io::monotonic_clock());

  // Any thread may call it.
  virtual PrepStats prep_stats() const = 0;
};

}  // namespace forebay::prep
