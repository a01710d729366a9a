#include <iostream>

#include "commands.h"
#include "progress.h"
#include "storage_options.h"
#include "store/export.h"

namespace forebay::apps {

namespace {

struct Args {
  std::string dataset;
  std::string folder;
  store::ExportOptions options;
  StorageArguments storage;
};

int run(Args& args) {
  args.options.stop = stop_on_signal();
  SourceAndTarget origins(args.storage);
  const auto report = store::export_dataset(origins.source(), args.dataset, origins.target(),
                                            args.folder, args.options);
  if (!report) return report_error(report.error());
  fmt::print("{}: {}, {}\n", args.folder, base::counted(report->files, "file"),
             base::human_bytes(report->bytes));
  for (const std::string& lost : report->lost) {
    std::cerr << "forebay: export: left out, damaged: " << lost << "\n";
  }
  return report->lost.empty() ? 0 : kExitFailed;
}

}  // namespace

void add_export(CLI::App& app, int* exit_code) {
  auto* command =
      app.add_subcommand("export", "Write a dataset as a folder with a subfolder for each class");
  auto args = std::make_shared<Args>();
  command->add_option("dataset", args->dataset, "A packed dataset: a folder or a URL")->required();
  command->add_option("folder", args->folder, "The folder to write to, which must be new or empty")
      ->required();
  command->add_flag("--all-fields", args->options.all_fields,
                    "Also write masks, texts and all other fields of the samples");
  add_storage_options_of_two(*command, &args->storage);
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
