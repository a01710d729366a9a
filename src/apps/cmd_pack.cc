#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "commands.h"
#include "io/machine.h"
#include "progress.h"
#include "storage_options.h"
#include "store/pack/pack.h"

namespace forebay::apps {

namespace {

using base::Result;
using store::PackProgress;

struct Args {
  std::string source;
  std::string dataset;
  std::string order = "shuffled";
  std::string on_error = "skip";
  std::string skip_max = store::to_text(store::SkipMax());
  std::string damaged = "refuse";
  std::vector<std::string> mask_names;
  std::optional<uint64_t> resize;
  std::optional<uint64_t> quality;
  store::PackOptions options;
  StorageArguments storage;
  bool json = false;
};

CLI::Validator skip_max_text() {
  return CLI::Validator(
      [](const std::string& text) {
        return base::status_of(store::parse_skip_max(text)).message();
      },
      "");
}

std::string progress_json(const PackProgress& p) {
  const nlohmann::json line = {{"event", "progress"},
                               {"samples", p.samples},
                               {"samples_total", p.samples_total},
                               {"bytes", p.bytes},
                               {"bytes_total", p.bytes_total},
                               {"chunks", p.chunks},
                               {"chunks_total", p.chunks_total},
                               {"refused", p.refused},
                               {"seconds", p.seconds}};
  return line.dump();
}

std::string progress_text(const PackProgress& p) {
  const double speed = rate(p.bytes_now, p.seconds);
  return fmt::format("{} of {}, {} of {}, {}/s, {:.0f} samples/s, {} left", p.samples,
                     base::counted(p.samples_total, "sample"), p.chunks,
                     base::counted(p.chunks_total, "chunk"),
                     base::human_bytes(static_cast<uint64_t>(speed)),
                     rate(p.samples_now, p.seconds), time_left(p.bytes_total - p.bytes, speed));
}

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
    std::cout << fmt::format("  kept {} from an earlier run\n",
                             base::counted(report.chunks_resumed, "chunk"));
  }
  std::cout << fmt::format("  {:.1f} s; the whole report is in {}\n", seconds,
                           store::report_path(args.dataset, report.root));
}

// Returns the values of --resize and --quality. pack() checks their ranges.
Result<std::optional<image::Shrink>> resize_of(const Args& args) {
  if (!args.resize && args.quality) {
    return base::fail(base::Code::kInvalid,
                      "pack: --quality {} without --resize: only images that are made smaller are "
                      "encoded again; add --resize, or leave out --quality",
                      *args.quality);
  }
  if (!args.resize) return std::nullopt;
  image::Shrink resize{.short_side = *args.resize};
  if (args.quality) resize.quality = *args.quality;
  return resize;
}

Result<store::NamePatterns> mask_names_of(const Args& args) {
  if (args.mask_names.empty()) return store::NamePatterns();
  store::NamePatterns out;
  ASSIGN_OR_RETURN(out.own, store::NamePattern::parse(args.mask_names[0]));
  ASSIGN_OR_RETURN(out.other, store::NamePattern::parse(args.mask_names[1]));
  return out;
}

int run(Args& args) {
  const auto resize = resize_of(args);
  if (!resize) return report_error(resize.error());
  args.options.resize = *resize;
  const auto mask_names = mask_names_of(args);
  if (!mask_names) return report_error(mask_names.error().at("pack: --mask-names"));
  args.options.mask_names = *mask_names;
  args.options.shuffled = args.order == "shuffled";
  args.options.on_error = args.on_error == "stop" ? store::OnError::kStop : store::OnError::kSkip;
  args.options.skip_max = *store::parse_skip_max(args.skip_max);
  args.options.keep_damaged = args.damaged == "keep";
  args.options.stop = stop_on_signal();
  ProgressPrinter printer(args.json);
  args.options.progress = [&](const PackProgress& p) {
    if (printer.is_due(p.seconds)) printer.show(args.json ? progress_json(p) : progress_text(p));
  };
  const int64_t start = io::monotonic_ns();
  SourceAndTarget origins(args.storage);
  const auto report =
      store::pack(origins.source(), args.source, origins.target(), args.dataset, args.options);
  printer.end();
  if (!report) return report_error(report.error());
  print_report(*report, args, static_cast<double>(io::monotonic_ns() - start) * 1e-9);
  return 0;
}

// Refuses a folder, such as that of YOLO's text files, in place of annotations.
CLI::Validator no_folder() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        std::error_code error;
        if (!std::filesystem::is_directory(path, error)) return "";
        return path +
               " is a folder, but only a JSON file in COCO's format is packed; give a folder of "
               "YOLO's text files to the packed dataset: Dataset(…, annotations=…)";
      },
      "");
}

// Adds the options that say how images are stored, and what is stored with them.
void add_image_options(CLI::App& command, Args* args) {
  command
      .add_option("--damaged", args->damaged,
                  "Refuse a JPEG whose pixel data is damaged, or keep it for loaders with "
                  "damaged=\"decode\"")
      ->check(CLI::IsMember({"refuse", "keep"}))
      ->capture_default_str();
  command
      .add_option("--annotations", args->options.annotations,
                  "Also pack annotations (boxes, outlines, keypoints, captions) from this JSON\n"
                  "file in COCO's format. The name of an image's file says which sample it is")
      ->type_name("FILE")
      ->check(no_folder());
  auto* const masks =
      command
          .add_option("--masks", args->options.masks,
                      "Also pack masks: for each image a PNG of labels with the same name, in a\n"
                      "folder that is laid out like that of the images, or in tar shards")
          ->type_name("PATH");
  command
      .add_option("--mask-names", args->mask_names,
                  "Patterns of the names of images and masks, if they differ; {} stands for what\n"
                  "they share: --mask-names '{}_leftImg8bit' '{}_gtFine_labelIds'")
      ->type_name("IMAGE MASK")
      ->expected(2)
      ->needs(masks);
  command
      .add_option(
          "--resize", args->resize,
          "LOSSY, off by default: scale images down whose shorter side has more pixels than this,\n"
          "so that it has exactly this many, and encode them again as JPEG. PNG and WebP become\n"
          "JPEG too, unless they are transparent, animated or not 8 bits a channel. All other\n"
          "images, and those in other fields, stay as they are. Not with --annotations or --masks")
      ->type_name("SHORT")
      ->check(whole_number());
  command
      .add_option("--quality", args->quality,
                  "With --resize: the quality of the new JPEGs, 1 to 100 (default: 90)")
      ->type_name("Q")
      ->check(whole_number());
}

// Adds the options for a table of labels.
void add_label_options(CLI::App& command, store::LabelOptions* labels) {
  auto* const file =
      command
          .add_option(
              "--labels", labels->file,
              "Take each image's class from this table: .csv, .tsv or .jsonl. The name of an\n"
              "image's file says which sample a row belongs to (docs/labels.md)")
          ->type_name("FILE");
  command
      .add_option("--labels-key", labels->key,
                  "The column with the images' names (default: file_name, else the first column)")
      ->type_name("COLUMN")
      ->needs(file);
  command
      .add_option("--labels-column", labels->column,
                  "The column with the class: a name, or a number from 0 (default: label or\n"
                  "labels, else the only other column)")
      ->type_name("COLUMN")
      ->needs(file);
  command
      .add_option("--labels-keep", labels->keep,
                  "Columns to store as texts, such as several labels or numbers to regress, with\n"
                  "commas between them")
      ->type_name("COLUMNS")
      ->delimiter(',')
      ->needs(file);
  command
      .add_option_function<std::string>(
          "--labels-missing",
          [labels](const std::string& how) { labels->drops_missing = how == "drop"; },
          "Stop if images have no row or no class, or drop these images (default: stop)")
      ->check(CLI::IsMember({"stop", "drop"}))
      ->needs(file);
}

}  // namespace

void add_pack(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "pack", "Make a dataset from a folder of images or from WebDataset shards");
  auto args = std::make_shared<Args>();
  auto& options = args->options;
  command
      ->add_option("source", args->source,
                   "A folder with a subfolder for each class, a .tar, a folder of .tar files, or a "
                   "range like x-{000..010}.tar")
      ->required();
  command->add_option("dataset", args->dataset, "Place of the dataset: a folder, s3:// or gs://")
      ->required();
  command
      ->add_option(
          "--threads", options.threads,
          "Number of threads, each of which holds two chunks in memory; 0: the usable cores")
      ->check(CLI::Range(0, base::kThreadsMax));
  command->add_option("--chunk-bytes", options.chunk_bytes, "Size of a chunk in bytes")
      ->capture_default_str()
      ->check(whole_number());
  command
      ->add_option("--order", args->order,
                   "Store the samples in shuffled order, or in the order in which the source lists "
                   "them")
      ->check(CLI::IsMember({"shuffled", "listed"}))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Seed of the shuffled order")
      ->capture_default_str()
      ->check(whole_number());
  command
      ->add_option("--on-error", args->on_error,
                   "Skip samples that cannot be packed, or stop at the first one")
      ->check(CLI::IsMember({"skip", "stop"}))
      ->capture_default_str();
  command
      ->add_option(
          "--skip-max", args->skip_max,
          "With --on-error skip: how many samples may be skipped, as a number (200) or as a\n"
          "share of all samples (5%). If more are skipped, pack ends with an error but keeps the\n"
          "other samples, and the same command with a larger --skip-max completes the dataset")
      ->check(skip_max_text())
      ->capture_default_str();
  add_image_options(*command, args.get());
  add_label_options(*command, &options.labels);
  command->add_option("--limit", options.limit, "Pack only this many samples; 0: all of them")
      ->check(whole_number());
  command->add_flag(
      "--tar-fields", options.tar_fields,
      "Also write each sample's class and annotations as files .cls and .coco.json, for\n"
      "WebDataset readers");
  add_storage_options_of_two(*command, &args->storage);
  command->add_flag("--json", args->json, "Print progress and the report as JSON lines");
  command->callback([args, exit_code] { *exit_code = run(*args); });
}

}  // namespace forebay::apps
