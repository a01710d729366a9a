// forebay-train: a separate program because it needs libtorch (HACKING.md). train/run/job.h says
// what it does.
#include "train_command.h"

int main(int argc, char** argv) {
  return forebay::apps::train_command(argc, argv, std::make_shared<forebay::train::LoneProcess>());
}
