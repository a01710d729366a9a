#include <charconv>

#include "commands.h"
#include "storage_options.h"
#include "store/check/inspect.h"

namespace forebay::apps {

namespace {

struct Args {
  std::string dataset;
  std::string item;
  std::vector<uint32_t> crop;
  StorageArguments storage;
};

base::Result<std::string> describe(const Args& args) {
  const io::AnyOrigin origin = origin_of(args.storage);
  if (!args.crop.empty()) {
    return store::describe_crop(origin, args.dataset, args.item,
                                {args.crop[0], args.crop[1], args.crop[2], args.crop[3]});
  }
  if (!args.item.empty()) return store::describe_item(origin, args.dataset, args.item);
  return store::describe_dataset(origin, args.dataset);
}

}  // namespace

void add_inspect(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand("inspect", "Describe a dataset, a chunk or a sample in words");
  auto args = std::make_shared<Args>();
  command->add_option("dataset", args->dataset, "A packed dataset, or data in place")->required();
  auto* item = command->add_option(
      "item", args->item, "A sample's key, or a chunk's hash or number; without it, the dataset");
  command
      ->add_option("--crop", args->crop,
                   "Show which bytes the crop x,y,width,height (in pixels) of the sample needs")
      ->delimiter(',')
      ->expected(4)
      ->needs(item);
  add_storage_option(*command, &args->storage);
  command->callback([args, exit_code] {
    const auto text = describe(*args);
    if (!text) {
      *exit_code = report_error(text.error());
      return;
    }
    fmt::print("{}", *text);
  });
}

}  // namespace forebay::apps
