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

}  // namespace

void add_storage_option(CLI::App& command, StorageArguments* arguments) {
  add(command, "--storage-option", &arguments->options,
      "How to reach an object store, such as endpoint_url=https://minio.example:9000, "
      "profile=NAME or anon=true; may be given several times");
}

void add_storage_options_of_two(CLI::App& command, StorageArguments* arguments) {
  add_storage_option(command, arguments);
  add(command, "--target-storage-option", &arguments->target_options,
      "How to reach the target's object store. If any is given, --storage-option is only for the "
      "source");
}

io::StorageOptions parse_storage_options(const std::vector<std::string>& arguments) {
  io::StorageOptions options;
  for (const std::string& text : arguments) {
    options.push_back(io::s3::parse_argument(text).value());  // it was checked
  }
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
