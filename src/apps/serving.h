// Shared by the commands that serve until they are stopped.
#pragma once

#include "io/stop_flag.h"

namespace forebay::apps {

// Waits for Ctrl-C or SIGTERM.
void wait_for_stop(const io::StopFlag& flag);

}  // namespace forebay::apps
