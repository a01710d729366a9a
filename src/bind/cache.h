// The Python object of a job's cache.
#pragma once

#include <memory>

#include "cache/cache.h"

namespace forebay::bind {

struct Cache {
  std::shared_ptr<cache::Cache> opened;
};

}  // namespace forebay::bind
