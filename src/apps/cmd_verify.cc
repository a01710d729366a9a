#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/machine.h"
#include "storage_options.h"
#include "store/check/verify.h"

namespace forebay::apps {

namespace {

struct Args {
  std::string dataset;
  store::VerifyOptions options;
  StorageArguments storage;
  bool json = false;
};

void print_json(const store::VerifyReport& report) {
  nlohmann::json damages = nlohmann::json::array();
  for (const store::Damage& damage : report.damages) {
    damages.push_back({{"file", damage.file},
                       {"chunk", damage.chunk},
                       {"sample", damage.sample},
                       {"offset", damage.offset},
                       {"what", damage.what}});
  }
  const nlohmann::json out = {{"chunks", report.chunks}, {"samples", report.samples},
                              {"bytes", report.bytes},   {"images_decoded", report.images_decoded},
                              {"damages", damages},      {"leftovers", report.leftovers},
                              {"notes", report.notes}};
  fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const store::VerifyReport& report, double seconds) {
  for (const store::Damage& damage : report.damages) fmt::print("{}\n", describe(damage));
  for (const std::string& path : report.leftovers) {
    fmt::print("{}: not part of the dataset; it may be removed\n", path);
  }
  fmt::print("{}, {}, {} checked", base::counted(report.chunks, "chunk"),
             base::counted(report.samples, "sample"), base::human_bytes(report.bytes));
  if (report.images_decoded > 0) {
    fmt::print(", {} decoded", base::counted(report.images_decoded, "image"));
  }
  fmt::print(" in {:.1f} s: ", seconds);
  if (report.damages.empty()) {
    fmt::print("no damage\n");
  } else {
    fmt::print("{}\n", base::counted(report.damages.size(), "damage"));
  }
}

int run(Args& args) {
  const int64_t start = io::monotonic_ns();
  const bool show = io::stderr_is_terminal();
  if (show) {
    args.options.progress = [](uint64_t done, uint64_t chunks) {
      std::cerr << fmt::format("\r\x1b[K{} of {}", done, base::counted(chunks, "chunk"))
                << std::flush;
    };
  }
  const auto report = store::verify(origin_of(args.storage), args.dataset, args.options);
  if (show) std::cerr << "\r\x1b[K" << std::flush;
  if (!report) return report_error(report.error());
  for (const std::string& note : report->notes) {
    std::cerr << "forebay: verify: " << note << "\n";
  }
  if (args.json) {
    print_json(*report);
  } else {
    print_text(*report, static_cast<double>(io::monotonic_ns() - start) * 1e-9);
  }
  return report->damages.empty() ? 0 : kExitFailed;
}

}  // namespace

void add_verify(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "verify",
      "Check every checksum, and decode the images of data in place. All damage is listed;\n"
      "the exit code is 1 if there is any.");
  auto args = std::make_shared<Args>();
  command->add_option("dataset", args->dataset, "A packed dataset, or data in place")->required();
  command->add_flag(
      "--pixels", args->options.pixels,
      "Also decode every image of a packed dataset (images in place are always decoded)");
  command->add_option("--threads", args->options.threads, "Number of threads; 0: the usable cores");
  add_storage_option(*command, &args->storage);
  command->add_flag("--json", args->json, "Print the result as one JSON object");
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
