#include <filesystem>
#include <iostream>

#include "cache/cached_origin.h"
#include "cache/machine_locations.h"
#include "cache/member_list.h"
#include "cache/overview.h"
#include "cache_page.h"
#include "commands.h"
#include "io/file_system.h"
#include "io/find_address.h"
#include "io/secret_file.h"
#include "io/serve/page_server.h"
#include "progress.h"
#include "serving.h"
#include "storage_options.h"
#include "store/in_place_dataset.h"

namespace forebay::apps {

namespace {

using base::Code;
using base::fail;
using base::Result;
using base::Status;

// The job's name is always the same, so that a restarted daemon goes on with the data that a killed
// daemon left in the folder.
constexpr const char* kJob = "forebay cache --serve";

struct Args {
  std::vector<std::string> datasets;
  std::string folder;
  uint64_t disk_bytes = 0;
  uint64_t memory_bytes = 0;
  bool serve = false;
  bool keep = false;
  std::vector<std::string> members;
  std::string address;
  std::string secret_file;
  std::string status = "127.0.0.1:0";
  StorageArguments storage;
};

// A dataset together with the origin that it is read from.
struct Opened {
  std::shared_ptr<const cache::CachedOrigin> origin;
  std::shared_ptr<const store::Dataset> dataset;
};

Result<std::vector<Opened>> open_datasets(const Args& args,
                                          const std::shared_ptr<cache::Cache>& cache) {
  const auto source = std::make_shared<const io::AnyOrigin>(options_of(args.storage));
  std::vector<Opened> opened;
  for (const std::string& name : args.datasets) {
    // The jobs and the daemon must name a file in the same way: by its absolute path or URL.
    const bool is_url = name.find("://") != std::string::npos;
    const std::string path = is_url ? name : (std::filesystem::current_path() / name).string();
    Opened& one = opened.emplace_back();
    one.origin = std::make_shared<const cache::CachedOrigin>(source, cache, path);
    ASSIGN_OR_RETURN(one.dataset,
                     store::open_dataset(*one.origin, path,
                                         {.kept = io::kept_files(""), .loads_locations = false}));
  }
  return opened;
}

Status check(const Args& args) {
  if (args.disk_bytes + args.memory_bytes == 0) {
    return fail(Code::kInvalid, "cache: a cache needs a size: --disk-bytes or --memory-bytes");
  }
  if (args.keep && args.disk_bytes == 0) {
    return fail(Code::kInvalid, "cache: --keep goes with --disk-bytes");
  }
  if (args.memory_bytes == 0) return {};
  std::error_code error;
  const auto memory = std::filesystem::space("/dev/shm", error);
  if (!error && memory.available < args.memory_bytes) {
    return fail(Code::kInvalid,
                "cache: --memory-bytes is {}, but /dev/shm has room for {}; in a container, raise "
                "--shm-size",
                args.memory_bytes, memory.available);
  }
  return {};
}

Result<std::shared_ptr<cache::Cache>> open_cache(const Args& args) {
  const cache::MachineLocations places = cache::locations_in(args.folder);
  cache::CacheOptions options{.folder = places.folder,
                              .disk_bytes_max = args.disk_bytes,
                              .memory_folder = places.memory.folder,
                              .memory_prefix = places.memory.prefix,
                              .memory_bytes_max = args.memory_bytes,
                              .stays = args.keep,
                              .job = kJob,
                              .for_all_jobs = true};
  if (!args.secret_file.empty()) {
    auto secret = io::read_secret_file(args.secret_file);
    if (!secret) return tl::unexpected(secret.error().at("cache: --secret-file"));
    options.secret = std::move(*secret);
  }
  if (!args.members.empty()) {
    RETURN_IF_ERROR(cache::use_member_list(args.members, args.address, &options).at("cache"));
  }
  return cache::Cache::open(options);
}

// Returns the part of the page between two marks, each of which occurs once.
std::string_view part_of_page(std::string_view begin, std::string_view end) {
  const size_t from = kCachePage.find(begin) + begin.size();
  return kCachePage.substr(from, kCachePage.find(end, from) - from);
}

// The page's Content-Security-Policy: the page may contact only its own server, and may use only
// the script and the styles in its source.
std::string page_policy() {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      io::serve::policy_hash(part_of_page("<script>", "</script>")),
      io::serve::policy_hash(part_of_page("<style>", "</style>")));
}

std::optional<io::serve::Page> page_of(const std::string& path, const cache::Cache& cache,
                                       cache::Overview& overview) {
  if (path == "/") {
    return io::serve::Page{.type = "text/html; charset=utf-8",
                           .body = std::string(kCachePage),
                           .policy = page_policy()};
  }
  if (path == "/status.json") return io::serve::Page{"application/json", overview.json()};
  if (path == "/metrics") {
    return io::serve::Page{"text/plain; version=0.0.4; charset=utf-8",
                           cache::metrics_text(cache.figures())};
  }
  return std::nullopt;
}

// Where the status page is served.
struct StatusPlace {
  io::serve::PageServerOptions options;
  std::string shown;  // the name or the address that the user gave
};

// The token is the same whenever this user starts a daemon, so that monitoring can keep it.
Result<StatusPlace> status_place(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string name = text.substr(0, colon);
  const bool is_name = !cache::parse_place(text) && colon != std::string::npos &&
                       cache::parse_place("127.0.0.1" + text.substr(colon)).has_value();
  std::string address = text;
  if (is_name) {
    auto found = io::find_address(name);
    if (!found) return tl::unexpected(found.error().at("cache: --status"));
    address = cache::place_of(found->text, 0);
    address = address.substr(0, address.rfind(':')) + text.substr(colon);
  }
  auto place = cache::parse_place(address);
  if (!place) return tl::unexpected(place.error().at("cache: --status"));
  auto secret = io::own_secret(/*make=*/true);
  if (!secret) return tl::unexpected(secret.error().at("cache: --status"));
  return StatusPlace{.options = {.address = place->host,
                                 .port = place->port,
                                 .names = {name},
                                 .token = io::token_of(*secret, "the status page of a cache")},
                     .shown = is_name ? name : place->host};
}

Status serve(const Args& args) {
  RETURN_IF_ERROR(check(args));
  const io::StopFlag flag(stop_on_signal());
  ASSIGN_OR_RETURN(const StatusPlace place, status_place(args.status));
  ASSIGN_OR_RETURN(const auto cache, open_cache(args));
  ASSIGN_OR_RETURN(const auto datasets, open_datasets(args, cache));
  cache::Overview overview(*cache);
  ASSIGN_OR_RETURN(const auto status,
                   io::serve::PageServer::start(place.options, [&](const std::string& path) {
                     return page_of(path, *cache, overview);
                   }));
  std::cout << fmt::format("{}: {}\n", args.folder,
                           cache->stats().serves
                               ? "serves this machine's processes that use this folder"
                               : "another process serves this folder; this one takes over when "
                                 "that one ends")
            << fmt::format("status: http://{}/?token={}\n",
                           cache::place_of(place.shown, status->port()), place.options.token)
            << std::flush;
  wait_for_stop(flag);
  return {};
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t* bytes,
                       const std::string& help) {
  return command.add_option(name, *bytes, help)
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
}

}  // namespace

void add_cache(CLI::App& app, int* exit_code) {
  auto* command = app.add_subcommand(
      "cache",
      "Run a cache daemon: hold the data that this machine's jobs read from remote datasets,\n"
      "until stopped. A job uses the daemon if its loaders' cache has the same folder.");
  auto args = std::make_shared<Args>();
  command
      ->add_option("datasets", args->datasets,
                   "Packed datasets, or data in place, by the same names that the jobs use")
      ->required();
  command
      ->add_flag("--serve", args->serve,
                 "Serve the datasets to the processes of this machine, until Ctrl-C or SIGTERM")
      ->required();
  command
      ->add_option("--folder", args->folder,
                   "The cache's folder, on a fast local disk; the jobs must name the same one")
      ->required();
  add_bytes(*command, "--disk-bytes", &args->disk_bytes,
            "Size of the cache on disk, such as 200GB or 64GiB");
  add_bytes(*command, "--memory-bytes", &args->memory_bytes,
            "Size of the cache in memory, which is filled before the disk");
  command->add_flag("--keep", args->keep, "Leave the cached data on the disk at the end");
  command
      ->add_option("--members", args->members,
                   "All machines that share the cache, including this one; the same list on each")
      ->type_name("HOST:PORT,…")
      ->delimiter(',');
  command
      ->add_option("--address", args->address,
                   "This machine's entry in --members, if its network addresses do not show which")
      ->needs("--members");
  command
      ->add_option("--secret-file", args->secret_file,
                   "A file with a secret that only the members share; `forebay secret FILE` makes "
                   "one")
      ->needs("--members");
  command
      ->add_option(
          "--status", args->status,
          "Address, or this machine's name, of the status page (/) and of the figures for\n"
          "Prometheus (/metrics). Both need the token that is printed. Port 0: any free port")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  add_storage_option(*command, &args->storage);
  command->callback([args, exit_code] {
    const Status status = serve(*args);
    *exit_code = status.ok() ? 0 : report_error(status);
  });
}

}  // namespace forebay::apps
