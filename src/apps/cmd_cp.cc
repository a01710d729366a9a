#include <iostream>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "commands.h"
#include "io/machine.h"
#include "progress.h"
#include "storage_options.h"
#include "store/copy/copy.h"

namespace forebay::apps {

namespace {

using store::CopyProgress;

struct Args {
  std::string source;
  std::string target;
  store::CopyOptions options;
  StorageArguments storage;
  bool json = false;
};

std::string progress_json(const CopyProgress& p) {
  const nlohmann::json line = {
      {"event", "progress"}, {"chunks", p.chunks},           {"chunks_total", p.chunks_total},
      {"bytes", p.bytes},    {"bytes_total", p.bytes_total}, {"seconds", p.seconds}};
  return line.dump();
}

std::string progress_text(const CopyProgress& p) {
  const double speed = rate(p.bytes_now, p.seconds);
  return fmt::format(
      "{} of {}, {} of {}, {}/s, {} left", p.chunks, base::counted(p.chunks_total, "chunk"),
      base::human_bytes(p.bytes), base::human_bytes(p.bytes_total),
      base::human_bytes(static_cast<uint64_t>(speed)), time_left(p.bytes_total - p.bytes, speed));
}

void print_json(const store::CopyReport& report, double seconds) {
  const nlohmann::json line = {{"event", report.was_complete ? "already complete" : "complete"},
                               {"root", base::to_hex(report.root)},
                               {"samples", report.samples},
                               {"chunks", report.chunks},
                               {"bytes", report.bytes},
                               {"chunks_copied", report.chunks_copied},
                               {"bytes_copied", report.bytes_copied},
                               {"seconds", seconds}};
  std::cout << line.dump() << std::endl;
}

void print_text(const store::CopyReport& report, const Args& args, double seconds) {
  if (report.was_complete) {
    std::cout << args.target << ": already complete\n";
    return;
  }
  std::cout << fmt::format("{}: {} in {}, {}\n", args.target,
                           base::counted(report.samples, "sample"),
                           base::counted(report.chunks, "chunk"), base::human_bytes(report.bytes));
  if (const uint64_t kept = report.chunks - report.chunks_copied; kept > 0) {
    std::cout << fmt::format("  {} {} there already\n", base::counted(kept, "chunk"),
                             kept == 1 ? "was" : "were");
  }
  if (report.chunks_copied == 0) return;
  std::cout << fmt::format(
      "  copied and compared {}, {} in {:.1f} s, {}/s\n",
      base::counted(report.chunks_copied, "chunk"), base::human_bytes(report.bytes_copied), seconds,
      base::human_bytes(static_cast<uint64_t>(rate(report.bytes_copied, seconds))));
}

int run(Args& args) {
  args.options.stop = stop_on_signal();
  ProgressPrinter printer(args.json);
  args.options.progress = [&](const CopyProgress& p) {
    if (printer.is_due(p.seconds)) printer.show(args.json ? progress_json(p) : progress_text(p));
  };
  const int64_t start = io::monotonic_ns();
  SourceAndTarget origins(args.storage);
  const auto report = store::copy_dataset(origins.source(), args.source, origins.target(),
                                          args.target, args.options);
  printer.end();
  if (!report) return report_error(report.error());
  const double seconds = static_cast<double>(io::monotonic_ns() - start) * 1e-9;
  if (args.json) {
    print_json(*report, seconds);
  } else {
    print_text(*report, args, seconds);
  }
  return 0;
}

}  // namespace

void add_cp(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "cp",
      "Copy a packed dataset to another place: a folder, s3:// or gs://. Chunks and snapshots\n"
      "are checked against the SHA-256 in their names. To resume an interrupted copy, run the\n"
      "same command again.");
  auto args = std::make_shared<Args>();
  command->add_option("source", args->source, "A packed dataset")->required();
  command
      ->add_option(
          "target", args->target,
          "Place of the copy: a folder, s3:// or gs://; it must be new or empty, or an unfinished "
          "copy")
      ->required();
  command
      ->add_option("--threads", args->options.threads,
                   "Number of chunks that are copied at once; each is in memory as a whole. 0: the "
                   "usable cores, but at least 8 if data goes over a network")
      ->check(CLI::Range(0, base::kThreadsMax));
  add_storage_options_of_two(*command, &args->storage);
  command->add_flag("--json", args->json, "Print progress and the result as JSON lines");
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
