#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "storage_options.h"
#include "store/check/inspect.h"

namespace forebay::apps {

namespace {

struct Args {
  std::string dataset;
  StorageArguments storage;
  bool json = false;
};

// Returns the text with control characters written as \xNN, so that it stays on one line and does
// not change the state of a terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

void print_sample(const store::SampleLine& line, bool json) {
  if (!json) {
    const std::string pixels =
        line.width > 0 ? fmt::format("{}x{}", line.width, line.height) : std::string("?");
    fmt::print("{}\t{}\t{}\t{}\n", printable(line.key), printable(line.class_name), line.bytes,
               pixels);
    return;
  }
  nlohmann::json out = {{"key", line.key}, {"bytes", line.bytes}, {"chunk", line.chunk}};
  if (line.width > 0) {
    out["width"] = line.width;
    out["height"] = line.height;
  }
  if (line.label >= 0) out["label"] = line.label;
  if (!line.class_name.empty()) out["class"] = line.class_name;
  const std::string text = out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  fmt::print("{}\n", text);
}

int run(const Args& args) {
  const io::AnyOrigin origin = origin_of(args.storage);
  const auto status = store::list_samples(
      origin, args.dataset, [&](const store::SampleLine& line) { print_sample(line, args.json); });
  return status.ok() ? 0 : report_error(status);
}

}  // namespace

void add_ls(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "ls", "List the samples: key, class, bytes, width x height in pixels (? for data in place)");
  auto args = std::make_shared<Args>();
  command->add_option("dataset", args->dataset, "A packed dataset, or data in place")->required();
  add_storage_option(*command, &args->storage);
  command->add_flag("--json", args->json, "Print one JSON object per sample, each on its own line");
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
