// Secrets that commands get by files.
#pragma once

#include <string>

#include "base/status.h"
#include "io/secret.h"

namespace forebay::apps {

// Reads a file with a secret, without the line break at its end. Errors: those of reading it.
base::Result<io::Secret> read_secret(const std::string& path);

}  // namespace forebay::apps
