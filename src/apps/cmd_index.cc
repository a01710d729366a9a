#include <iostream>

#include "base/limits.h"
#include "commands.h"
#include "io/machine.h"
#include "storage_options.h"
#include "store/source/index_file.h"

namespace forebay::apps {

namespace {

struct Args {
  std::string source;
  store::IndexOptions options;
  StorageArguments storage;
};

int run(Args& args) {
  const int64_t start = io::monotonic_ns();
  const bool show = io::stderr_is_terminal();
  if (show) {
    args.options.progress = [](uint64_t done, uint64_t samples) {
      std::cerr << fmt::format("\r\x1b[K{} of {}", done, base::counted(samples, "image"))
                << std::flush;
    };
  }
  io::AnyOrigin everywhere = origin_of(args.storage);
  const auto report = store::write_index(everywhere, args.source, args.options);
  if (show) std::cerr << "\r\x1b[K" << std::flush;
  if (!report) return report_error(report.error());
  for (const store::Remark& remark : report->remarks) {
    std::cerr << "forebay: index: " << remark.path << ": " << remark.reason << "\n";
  }
  fmt::print("{}: {}, {}, in {}; index {}, {}; {:.1f} s\n", args.source,
             base::counted(report->samples, "image"), base::human_bytes(report->image_bytes),
             base::counted(report->files, "file"), report->path,
             base::human_bytes(report->index_bytes),
             static_cast<double>(io::monotonic_ns() - start) * 1e-9);
  return 0;
}

}  // namespace

void add_index(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "index",
      "Make an index of images that are used in place. Opening them then reads one hidden file,\n"
      "<source>/.forebay-index, instead of listing folders or reading tar headers.\n"
      "If the source changes later, the index is not used, and opening says so. In an object\n"
      "store, Forebay does not notice images that are added to a class's folder or removed from\n"
      "it: run the command again then.");
  auto args = std::make_shared<Args>();
  command
      ->add_option("source", args->source,
                   "A folder with a subfolder for each class, a .tar, a folder of .tar files, or a "
                   "range like x-{000..010}.tar")
      ->required();
  command->add_flag(
      "--checksums", args->options.checksums,
      "Read every image and store its CRC32C, which is compared whenever the image is read");
  command
      ->add_option("--threads", args->options.threads,
                   "Number of threads for --checksums; 0: the usable cores")
      ->check(CLI::Range(0, base::kThreadsMax));
  add_storage_option(*command, &args->storage, true);
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
