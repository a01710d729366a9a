// The Python object of a dataset.
#pragma once

#include <memory>

#include "store/dataset.h"

namespace forebay::bind {

struct Dataset {
  std::shared_ptr<const store::Dataset> opened;
};

}  // namespace forebay::bind
