// deps: forebay_cache
// Serves a file like a process of a job that holds its machine's share of the cache, until standard
// input ends; bench/cache.py calls it:
//   bench_serve FOLDER memory|disk FILE [SECRET]
// The share is in FOLDER, or in a folder of /dev/shm with the same last name, and is filled before.
// With a secret, clients speak TLS, and the certificate and key that come from it are put into
// FOLDER.pem. The first line
// is one JSON object with the port and the target of requests.
#include <cstdio>
#include <filesystem>

#include "cache/cached_origin.h"
#include "cache/peers/file_name.h"
#include "io/file_system.h"
#include "io/serve/job_certificate.h"
#include "lib/files.h"

namespace {

using namespace forebay;
using bench::stop;

constexpr uint64_t kRoom = 4ull << 30;
constexpr uint64_t kStep = 8u << 20;

template <class T>
T must(base::Result<T> result) {
  if (!result) stop(result.error().message());
  return std::move(*result);
}

cache::CacheOptions options_of(const std::string& folder, const std::string& tier,
                               const std::string& secret) {
  cache::CacheOptions options{.folder = folder, .secret = io::Secret(secret)};
  if (tier == "memory") {
    options.memory_folder = "/dev/shm/" + std::filesystem::path(folder).filename().string();
    options.memory_prefix = "forebay-bench-";
    options.memory_bytes_max = kRoom;
  } else {
    options.disk_bytes_max = kRoom;
  }
  return options;
}

// Reads the whole file through the cache, which holds it from then on.
void fill(const cache::CachedOrigin& origin, const std::string& path, uint64_t size) {
  const auto file = must(origin.open(
      path, {.known = io::Identity{.size = size, .etag = {}}, .copies = io::Copies::kAny}));
  base::ByteVector bytes(kStep);
  for (uint64_t at = 0; at < size; at += kStep) {
    const auto step = static_cast<size_t>(std::min(kStep, size - at));
    const base::Status status = file->read(at, base::MutableBytes(bytes).first(step));
    if (!status.ok()) stop(status.message());
  }
}

void put_certificate(const std::string& path, const std::string& secret) {
  const auto made = must(io::serve::make_job_certificate(io::Secret(secret)));
  const std::string text = made.certificate + std::string(made.key.reveal());
  const auto status = io::posix_file_system().put(path, base::as_bytes(text));
  if (!status.ok()) stop(status.message());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) stop("usage: bench_serve FOLDER memory|disk FILE [SECRET]");
  const std::string folder = argv[1];
  const std::string secret = argc > 4 ? argv[4] : "";
  const std::string file = argv[3];
  const uint64_t size = std::filesystem::file_size(file);
  // The file system outlives everything here, so that nobody owns it.
  const std::shared_ptr<const io::Origin> disk(&io::posix_file_system(), [](const auto*) {});
  const auto cache = must(cache::Cache::open(options_of(folder, argv[2], secret)));
  const cache::CachedOrigin origin(disk, cache, std::filesystem::path(file).parent_path());
  fill(origin, file, size);
  if (!secret.empty()) put_certificate(folder + ".pem", secret);
  const std::string target =
      cache::encode_target({.path = file, .identity = {.size = size, .etag = {}}});
  fmt::print("{{\"port\": {}, \"target\": \"{}\"}}\n", cache->machine().port, target);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  if (cache->stats().origin_bytes != size) stop("not all of the file was held");
}
