#include <filesystem>
#include <iostream>

#include "cache/member_list.h"
#include "commands.h"
#include "io/file_system.h"
#include "io/http/url.h"
#include "io/secret_file.h"
#include "prep/server/prep_server.h"
#include "progress.h"
#include "serving.h"
#include "storage_options.h"
#include "store/in_place_dataset.h"

namespace forebay::apps {

namespace {

using base::Status;

struct Args {
  std::string dataset;
  bool serve = false;
  std::string listen = "127.0.0.1:7311";
  std::string secret_file;
  prep::PrepServerOptions options;
  StorageArguments storage;
};

Status serve(Args args) {
  const io::StopFlag flag(stop_on_signal());
  const auto place = cache::parse_place(args.listen);
  if (!place) return place.error().at("prep: --listen");
  args.options.address = place->host;
  args.options.port = place->port;
  if (!args.secret_file.empty()) {
    auto secret = io::read_secret_file(args.secret_file);
    if (!secret) return secret.error().at("prep: --secret-file");
    args.options.secret = std::move(*secret);
  } else if (io::http::is_loopback(place->host)) {
    auto secret = io::own_secret(/*make=*/true);
    if (!secret) return secret.error().at("prep: --secret-file");
    args.options.secret = std::move(*secret);
  } else {
    return base::fail(base::Code::kInvalid,
                      "prep: --listen {}: serving other machines needs --secret-file; `forebay "
                      "secret FILE` makes such a file",
                      args.listen);
  }
  const io::AnyOrigin origin = origin_of(args.storage);
  ASSIGN_OR_RETURN(const auto dataset,
                   store::open_dataset(origin, args.dataset,
                                       {.kept = io::kept_files(""), .loads_locations = false}));
  const uint64_t samples = dataset->sample_count();
  ASSIGN_OR_RETURN(const auto server, prep::PrepServer::serve(dataset, args.options));
  std::cout << fmt::format("{}: {} samples{}\nserving at https://{}\n", args.dataset, samples,
                           args.secret_file.empty() ? ", for programs of this user" : "",
                           cache::place_of(place->host, server->port()))
            << std::flush;
  wait_for_stop(flag);
  const prep::PrepServerStats stats = server->stats();
  if (!stats.trouble.empty()) {
    std::cerr << fmt::format(
        "some batches were sent over the network, because files could not be written: {}\n",
        stats.trouble);
  }
  std::cout << fmt::format("{} batches were prepared, {} sent\n", stats.steps,
                           base::human_bytes(stats.bytes));
  return {};
}

}  // namespace

void add_prep(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "prep",
      "Run a prep server: prepare batches of a dataset for training processes on other machines,\n"
      "until stopped. A loader needs its address: Loader(..., prep=\"https://HOST:PORT\").");
  auto args = std::make_shared<Args>();
  command
      ->add_option("dataset", args->dataset,
                   "A packed dataset, or data in place, with the same content as the loader's")
      ->required();
  command->add_flag("--serve", args->serve, "Serve batches, until Ctrl-C or SIGTERM")->required();
  command
      ->add_option("--listen", args->listen,
                   "Address at which loaders reach the server; port 0: any free port. Serving\n"
                   "other machines needs --secret-file")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  command->add_option("--secret-file", args->secret_file,
                      "A file with a secret that only the server and the training processes have;\n"
                      "`forebay secret FILE` makes one. Without it, only programs of this user on\n"
                      "this machine are served");
  command
      ->add_option("--threads", args->options.threads,
                   "Number of decoding threads for each loader; 0: the usable cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      ->add_option("--processes", args->options.jobs,
                   "Number of loaders that are served at once, counted over all training processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--memory-bytes", args->options.job_memory_bytes,
                   "Memory limit for each loader, such as 2GB")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  command
      ->add_option("--folder", args->options.folder,
                   "Hand over batches as files in this folder to loaders that see it under the\n"
                   "same path: on shared storage, or in /dev/shm for loaders on this machine.\n"
                   "Other loaders get batches over the network")
      ->type_name("FOLDER");
  command
      ->add_option("--folder-bytes", args->options.folder_bytes,
                   "Size limit of the files in --folder, such as 4GB")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  add_storage_option(*command, &args->storage);
  command->callback([args, exit_code] {
    const Status status = serve(*args);
    *exit_code = status.ok() ? 0 : report_error(status);
  });
}

}  // namespace forebay::apps
