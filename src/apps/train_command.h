// The command line of forebay-train, which trains an image classifier on packed datasets.
#pragma once

#include "train/run/together.h"

namespace forebay::apps {

// Returns the program's exit status. `together`: the job's other processes; null for none.
int train_command(int argc, char** argv, train::Together* together);

}  // namespace forebay::apps
