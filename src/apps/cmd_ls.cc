#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/remote/any_origin.h"
#include "store/check/inspect.h"

namespace forebay::apps {

namespace {

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

}  // namespace

void add_ls(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "ls", "List the samples: key, class, bytes, width x height in pixels (? for data in place)");
  auto dataset = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("dataset", *dataset, "A packed dataset, or data in place")->required();
  command->add_flag("--json", *json, "Print one JSON object per sample, each on its own line");
  command->callback([=] {
    const auto status =
        store::list_samples(io::AnyOrigin(), *dataset,
                            [&](const store::SampleLine& line) { print_sample(line, *json); });
    *exit_code = status.ok() ? 0 : report_error(status);
  });
}

}  // namespace forebay::apps
