#include "storage_options.h"

#include "io/s3/options.h"

namespace forebay::apps {

namespace {

// Returns a message about an invalid argument, or an empty text for a valid one.
std::string check(const std::string& text) {
  const auto parsed = io::s3::parse_argument(text);
  return parsed ? std::string() : parsed.error().message();
}

void add(CLI::App& command, const std::string& name, std::vector<std::string>* arguments,
         const std::string& help) {
  command.add_option(name, *arguments, help)
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->check(CLI::Validator([](const std::string& text) { return check(text); }, ""));
}

// Adds an option that stands for a storage option.
CLI::Option* add_own(CLI::App& command, const std::string& option, const std::string& name,
                     StorageArguments* arguments, const std::string& help) {
  return command.add_option_function<std::string>(
      option,
      [arguments, name](const std::string& value) {
        arguments->options_of_both.push_back(name + "=" + value);
      },
      help);
}

// Converts options that were checked.
io::StorageOptions parsed(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& more) {
  io::StorageOptions options;
  for (const auto* const texts : {&arguments, &more}) {
    for (const std::string& text : *texts) {
      options.push_back(io::s3::parse_argument(text).value());
    }
  }
  return options;
}

}  // namespace

void add_storage_option(CLI::App& command, StorageArguments* arguments, bool writes) {
  add(command, "--storage-option", &arguments->options,
      "How to reach an object store, such as endpoint_url=https://minio.example:9000, "
      "profile=NAME or anon=true; may be given several times");
  add_own(command, "--request-payer", "request_payer", arguments,
          "This user pays for the requests to the bucket (its owner does not)")
      ->check(CLI::IsMember({"requester"}));
  if (!writes) return;
  auto* const encryption = add_own(command, "--sse", "sse", arguments,
                                   "How the store encrypts new objects; by default as the bucket "
                                   "says");
  encryption->check(CLI::IsMember({"AES256", "aws:kms", "aws:kms:dsse"}));
  add_own(command, "--sse-kms-key-id", "sse_kms_key_id", arguments,
          "The KMS key with which it does so, by its id, alias or ARN; by default AWS's own key")
      ->needs(encryption)
      ->type_name("KEY");
}

void add_storage_options_of_two(CLI::App& command, StorageArguments* arguments) {
  add_storage_option(command, arguments, true);
  add(command, "--target-storage-option", &arguments->target_options,
      "How to reach the target's object store. If any is given, --storage-option is only for the "
      "source");
}

io::StorageOptions options_of(const StorageArguments& arguments) {
  return parsed(arguments.options, arguments.options_of_both);
}

io::AnyOrigin origin_of(const StorageArguments& arguments) {
  return io::AnyOrigin(options_of(arguments));
}

SourceAndTarget::SourceAndTarget(const StorageArguments& arguments)
    : source_(options_of(arguments)) {
  if (arguments.target_options.empty()) return;
  target_.emplace(parsed(arguments.target_options, arguments.options_of_both));
}

}  // namespace forebay::apps
