#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "commands.h"
#include "io/machine.h"
#include "store/pack/pack.h"

namespace forebay::apps {

namespace {

using store::PackProgress;

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

// The first signal asks for a clean stop, a second one ends the process at once.
void on_signal(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

struct Args {
  std::string source;
  std::string dataset;
  std::string order = "shuffled";
  std::string on_error = "skip";
  std::string skip_max = store::to_text(store::SkipMax());
  std::string damaged = "refuse";
  store::PackOptions options;
  bool json = false;
};

CLI::Validator skip_max_text() {
  return CLI::Validator(
      [](const std::string& text) {
        return base::status_of(store::parse_skip_max(text)).message();
      },
      "");
}

double rate(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string eta(const PackProgress& p) {
  const double speed = rate(p.bytes_now, p.seconds);
  if (speed <= 0) return "?";
  const auto left = static_cast<uint64_t>(static_cast<double>(p.bytes_total - p.bytes) / speed);
  return fmt::format("{}:{:02}:{:02}", left / 3600, left / 60 % 60, left % 60);
}

// One line that is rewritten on a terminal, a line every few seconds elsewhere, or JSON lines.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool json) : json_(json), terminal_(io::stderr_is_terminal()) {}

  void show(const PackProgress& p) {
    const double every = json_ ? 1.0 : terminal_ ? 0.1 : 5.0;
    if (p.seconds - shown_seconds_ < every) return;
    shown_seconds_ = p.seconds;
    if (json_) {
      const nlohmann::json line = {{"event", "progress"},
                                   {"samples", p.samples},
                                   {"samples_total", p.samples_total},
                                   {"bytes", p.bytes},
                                   {"bytes_total", p.bytes_total},
                                   {"chunks", p.chunks},
                                   {"chunks_total", p.chunks_total},
                                   {"refused", p.refused},
                                   {"seconds", p.seconds}};
      std::cout << line.dump() << std::endl;
      return;
    }
    const std::string text = fmt::format(
        "{} of {}, {} of {}, {}/s, {:.0f} samples/s, {} left", p.samples,
        base::counted(p.samples_total, "sample"), p.chunks, base::counted(p.chunks_total, "chunk"),
        base::human_bytes(static_cast<uint64_t>(rate(p.bytes_now, p.seconds))),
        rate(p.samples_now, p.seconds), eta(p));
    if (terminal_) {
      std::cerr << "\r\x1b[K" << text << std::flush;
      open_line_ = true;
    } else {
      std::cerr << text << std::endl;
    }
  }

  void end() {
    if (open_line_) std::cerr << "\r\x1b[K" << std::flush;
  }

 private:
  const bool json_;
  const bool terminal_;
  bool open_line_ = false;
  double shown_seconds_ = 0;
};

void print_report(const store::PackReport& report, const Args& args, double seconds) {
  if (args.json) {
    nlohmann::json line = store::to_json(report);
    line["event"] = report.was_complete ? "already complete" : "complete";
    line["root"] = base::to_hex(report.root);
    line["seconds"] = seconds;
    std::cout << store::dump_json(line) << std::endl;
    return;
  }
  if (report.was_complete) {
    std::cout << args.dataset << ": already complete\n";
    return;
  }
  std::cout << args.dataset << ": " << store::describe(report);
  if (report.chunks_resumed > 0) {
    std::cout << fmt::format("  went on after {} of an earlier run\n",
                             base::counted(report.chunks_resumed, "chunk"));
  }
  std::cout << fmt::format("  {:.1f} s; the whole report: {}\n", seconds,
                           store::report_path(args.dataset, report.root));
}

int run(Args& args) {
  args.options.shuffled = args.order == "shuffled";
  args.options.on_error = args.on_error == "stop" ? store::OnError::kStop : store::OnError::kSkip;
  args.options.skip_max = *store::parse_skip_max(args.skip_max);
  args.options.keep_damaged = args.damaged == "keep";
  args.options.stop = &stop_requested;
  ProgressPrinter printer(args.json);
  args.options.progress = [&](const PackProgress& p) { printer.show(p); };
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  const int64_t start = io::monotonic_ns();
  const auto report = store::pack(io::posix_file_system(), args.source, args.dataset, args.options);
  printer.end();
  if (!report) return report_error(report.error());
  print_report(*report, args, static_cast<double>(io::monotonic_ns() - start) * 1e-9);
  return 0;
}

}  // namespace

void add_pack(CLI::App& app, int* exit_code) {
  auto* command =
      app.add_subcommand("pack", "make a dataset from a folder by class or from WebDataset shards");
  auto args = std::make_shared<Args>();
  auto& options = args->options;
  command
      ->add_option("source", args->source,
                   "a folder by class, a .tar, a folder of .tar, or x-{000..010}.tar")
      ->required();
  command->add_option("dataset", args->dataset, "the folder to make")->required();
  command->add_option("--threads", options.threads, "0: as many as cores; each holds one chunk")
      ->check(CLI::Range(0, base::kThreadsMax));
  command->add_option("--chunk-bytes", options.chunk_bytes, "size of a chunk")
      ->capture_default_str()
      ->check(whole_number());
  command->add_option("--order", args->order, "of the samples")
      ->check(CLI::IsMember({"shuffled", "listed"}))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "of the shuffled order")
      ->capture_default_str()
      ->check(whole_number());
  command->add_option("--on-error", args->on_error, "what to do about a sample that is refused")
      ->check(CLI::IsMember({"skip", "stop"}))
      ->capture_default_str();
  command
      ->add_option(
          "--skip-max", args->skip_max,
          "with --on-error skip: how many samples may be left out, a number or a share of\n"
          "all (200, 5%). When more are, pack ends with an error; the rest is kept, and the\n"
          "same command with a larger --skip-max completes the dataset at once")
      ->check(skip_max_text())
      ->capture_default_str();
  command
      ->add_option(
          "--damaged", args->damaged,
          "what to do about a JPEG whose pixels' data is damaged; kept ones are for loaders "
          "with damaged=\"decode\"")
      ->check(CLI::IsMember({"refuse", "keep"}))
      ->capture_default_str();
  command->add_option("--limit", options.limit, "pack only so many samples; 0: all")
      ->check(whole_number());
  command->add_flag("--tar-fields", options.tar_fields,
                    "write a folder's classes as .cls files, for WebDataset readers");
  command->add_flag("--json", args->json, "progress and report as JSON lines");
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
