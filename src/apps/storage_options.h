// Command-line options for reaching object stores (docs/remote.md).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "io/remote/any_origin.h"

namespace forebay::apps {

struct StorageArguments {
  std::vector<std::string> options = {};          // NAME=VALUE, checked
  std::vector<std::string> target_options = {};   // if not empty, the target uses only these,
  std::vector<std::string> options_of_both = {};  // and these, which have names of their own
};

// Adds --storage-option NAME=VALUE, which may be given several times; docs/remote.md lists the
// names. Adds the options that have names of their own as in AWS's programs: --request-payer and,
// if the command `writes`, --sse and --sse-kms-key-id. Keys, secrets and tokens are refused,
// because every user of a machine can see the command lines of its processes.
void add_storage_option(CLI::App& command, StorageArguments* arguments, bool writes = false);
// Also adds --target-storage-option, for commands that read one place and write another.
void add_storage_options_of_two(CLI::App& command, StorageArguments* arguments);

// The options for all paths of a command, in the form that the core takes.
io::StorageOptions options_of(const StorageArguments& arguments);
// Returns the origin for all paths of a command.
io::AnyOrigin origin_of(const StorageArguments& arguments);

// The origins of a command that reads one place and writes another. They are the same origin unless
// the target has options of its own, for example to reach another object store.
class SourceAndTarget {
 public:
  explicit SourceAndTarget(const StorageArguments& arguments);
  const io::Origin& source() const { return source_; }
  io::FileSystem& target() { return target_ ? *target_ : source_; }

 private:
  io::AnyOrigin source_;
  std::optional<io::AnyOrigin> target_;
};

}  // namespace forebay::apps
