#include "storage_options.h"

#include "io/s3/options.h"

namespace forebay::apps {

namespace {

// The text must have an equals sign.
std::pair<std::string, std::string> split(const std::string& text) {
  const size_t equals = text.find('=');
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// Returns what is wrong with an argument, or nothing.
std::string check(const std::string& text) {
  using io::s3::Option;
  if (text.find('=') == std::string::npos) return text + " is not NAME=VALUE";
  const io::StorageOptions options = {split(text)};
  const auto given = io::s3::GivenOptions::sort(options);
  if (!given) return given.error().message();
  if (given->has(Option::kAccessKey) || given->has(Option::kSecretKey) ||
      given->has(Option::kSessionToken)) {
    return "give no " + options.front().first +
           " on the command line, where every user of this machine can see it; put it into the "
           "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or into a "
           "profile, and name the profile with profile=NAME";
  }
  return {};
}

void add(CLI::App& command, const std::string& name, std::vector<std::string>* arguments,
         const std::string& help) {
  command.add_option(name, *arguments, help)
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->check(CLI::Validator([](const std::string& text) { return check(text); }, ""));
}

}  // namespace

void add_storage_option(CLI::App& command, StorageArguments* arguments) {
  add(command, "--storage-option", &arguments->options,
      "How to reach a store, such as endpoint_url=https://minio.example:9000, profile=NAME or "
      "anon=true; may be given several times");
}

void add_storage_options_of_two(CLI::App& command, StorageArguments* arguments) {
  add_storage_option(command, arguments);
  add(command, "--target-storage-option", &arguments->target_options,
      "The same for the place that is written. Where any is given, the target has these alone, "
      "and --storage-option is for the source");
}

io::StorageOptions parse_storage_options(const std::vector<std::string>& arguments) {
  io::StorageOptions options;
  for (const std::string& text : arguments) options.push_back(split(text));
  return options;
}

io::AnyOrigin origin_of(const StorageArguments& arguments) {
  return io::AnyOrigin(parse_storage_options(arguments.options));
}

SourceAndTarget::SourceAndTarget(const StorageArguments& arguments)
    : source_(parse_storage_options(arguments.options)) {
  if (arguments.target_options.empty()) return;
  target_.emplace(parse_storage_options(arguments.target_options));
}

}  // namespace forebay::apps
