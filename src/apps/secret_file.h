// Secrets that commands read from files.
#pragma once

#include <string>

#include "base/status.h"
#include "io/secret.h"

namespace forebay::apps {

// Reads a secret from a file and removes line breaks at its end. Errors: those of reading the file.
base::Result<io::Secret> read_secret(const std::string& path);

}  // namespace forebay::apps
