#include "train/sync/strategy.h"

namespace forebay::train {

Status Strategy::received(const MessageHeader& /*header*/, std::span<const float> /*floats*/) {
  return unexpected();
}

Status Strategy::unexpected() { return {base::Code::kCorrupt, "does not belong to this strategy"}; }

}  // namespace forebay::train
