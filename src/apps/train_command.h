// The command line of forebay-train, which trains an image classifier on packed datasets.
#pragma once

#include <memory>

#include "train/run/replicas.h"

namespace forebay::apps {

// Returns the program's exit status. `replicas`: the processes that train the same model.
int train_command(int argc, char** argv, std::shared_ptr<train::Replicas> replicas);

}  // namespace forebay::apps
