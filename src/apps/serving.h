// What the commands share that serve until they are stopped.
#pragma once

#include <string>

#include "base/status.h"
#include "io/secret.h"
#include "io/stop_flag.h"

namespace forebay::apps {

// Reads a file with a secret; the end of its line is no part of it. Errors: those of reading it.
base::Result<io::Secret> read_secret(const std::string& path);
// Waits for Ctrl-C or SIGTERM.
void wait_for_stop(const io::StopFlag& flag);

}  // namespace forebay::apps
