// The names of storage options, including those that fsspec and s3fs, boto3 (LitData, Streaming)
// and the object_store crate use for the same settings. Web servers take some of the options.
#pragma once

#include <map>
#include <optional>

#include "io/s3/settings.h"

namespace forebay::io::s3 {

enum class Option : uint8_t {
  kAccessKey,
  kSecretKey,
  kSessionToken,
  kAnonymous,
  kProfile,
  kEndpoint,
  kRegion,
  kAddressing,
  kVerify,
  kConnectTimeout,
  kReadTimeout,
  kMaxAttempts,
  kRequestPayer,
  kEncryption,
  kEncryptionKey,
};

// The option with this name, in upper or lower case; nothing if there is none.
std::optional<Option> option_of(std::string_view name);

struct GivenOption {
  std::string name;  // as the user wrote it
  std::string_view value;
};

// Reads an option of a command line, NAME=VALUE. Errors: kInvalid, also for an unknown name, and
// for keys, secrets and tokens, because every user of a machine can see the command lines of its
// processes.
Result<std::pair<std::string, std::string>> parse_argument(const std::string& text);

// The options that the user gave, each with one value. They refer to the list of options, which
// must outlive them.
class GivenOptions {
 public:
  // Errors: kInvalid for an unknown name, and for two names of one option whose values differ.
  static Result<GivenOptions> sort(const Options& options);

  bool has(Option option) const { return given_.contains(option); }
  // Empty if it was not given.
  std::string_view value(Option option) const;
  // The name that the user wrote; the option must have been given.
  const std::string& name(Option option) const { return given_.at(option).name; }
  // False if it was not given. Errors: kInvalid for a value that is neither true nor false.
  Result<bool> flag(Option option) const;

 private:
  std::map<Option, GivenOption> given_;
};

}  // namespace forebay::io::s3
