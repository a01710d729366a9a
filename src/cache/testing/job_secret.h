// For tests: a secret of this process alone. Tests that run at the same time may get ports that
// this one's machines had.
#pragma once

#include <unistd.h>

#include <string>

#include "io/secret.h"

namespace forebay::cache {

inline io::Secret job_secret() {
  return io::Secret("the secret of the job of process " + std::to_string(::getpid()));
}

}  // namespace forebay::cache
