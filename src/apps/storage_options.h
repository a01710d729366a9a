// The options that say how to reach stores far away (docs/remote.md), on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "io/remote/any_origin.h"

namespace forebay::apps {

struct StorageArguments {
  std::vector<std::string> options = {};         // NAME=VALUE, checked
  std::vector<std::string> target_options = {};  // where any is given, the target has these alone
};

// Adds --storage-option NAME=VALUE, which may be given several times. Names are those of
// docs/remote.md. Keys, secrets and tokens are refused, because every user of a machine can see the
// command lines of its processes.
void add_storage_option(CLI::App& command, StorageArguments* arguments);
// Adds --target-storage-option too, for commands that read one place and write another one.
void add_storage_options_of_two(CLI::App& command, StorageArguments* arguments);

// Gives the origin of all paths of a command.
io::AnyOrigin origin_of(const StorageArguments& arguments);

// The origins of a command that reads one place and writes another one. They are the same origin
// unless the target has options of its own; then it may be in another store under the same name.
class SourceAndTarget {
 public:
  explicit SourceAndTarget(const StorageArguments& arguments);
  const io::Origin& source() const { return source_; }
  io::FileSystem& target() { return target_ ? *target_ : source_; }

 private:
  io::AnyOrigin source_;
  std::optional<io::AnyOrigin> target_;
};

// Gives the options, which were checked, as the core takes them.
io::StorageOptions parse_storage_options(const std::vector<std::string>& arguments);

}  // namespace forebay::apps
