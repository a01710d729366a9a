// deps: forebay_store
// Times opening a snapshot of 1,281,167 generated samples from a cold cache:
//    bench_snapshot FOLDER [SAMPLES]
#include "store/format/snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/random.h"
#include "io/file_system.h"
#include "io/machine.h"
#include "lib/machine.h"
#include "store/dataset.h"
#include "store/snapshot_builder.h"

namespace {

using namespace forebay;

constexpr uint32_t kChunkSamples = 580;  // photographs in a chunk of 64 MB
constexpr uint32_t kClasses = 1000;

std::string made_up_key(uint64_t sample) {
  const uint64_t wnid = 1440764 + sample % kClasses * 13;
  return fmt::format("n{:08}/n{:08}_{}", wnid, wnid, sample / kClasses * 7 + 26);
}

base::Status make_snapshot(const std::string& path, uint64_t samples) {
  store::Schema schema{
      .fields = {{"jpg", store::FieldKind::kImage}, {"cls", store::FieldKind::kClass}},
      .classes = {}};
  for (uint32_t i = 0; i < kClasses; ++i) schema.classes.push_back(fmt::format("n{:08}", i));
  store::SnapshotBuilder builder(io::posix_file_system(), path, schema);
  base::Random random(1, base::Purpose::kTest);
  for (uint64_t first = 0; first < samples; first += kChunkSamples) {
    store::ChunkIndex index{.schema = schema, .samples = {}};
    uint64_t at = 900'000;
    for (uint64_t i = first; i < std::min<uint64_t>(samples, first + kChunkSamples); ++i) {
      store::IndexedSample sample{.key = made_up_key(i), .source_path = {}};
      store::StoredFile image{
          .suffix = "JPEG", .offset = at, .length = 50'000 + random.below(100'000)};
      image.crc32c = random.next_u32();
      at += 1024 + image.length;
      sample.files.push_back(image);
      sample.scalars.resize(1);
      sample.scalars[0].field = 1;
      sample.scalars[0].value = static_cast<int64_t>(i % kClasses);
      index.samples.push_back(std::move(sample));
    }
    store::ChunkInfo info{.bytes = at,
                          .samples = static_cast<uint32_t>(index.samples.size()),
                          .index_bytes = 890'000};
    info.id = base::sha256(base::Bytes(reinterpret_cast<const uint8_t*>(&first), sizeof first));
    RETURN_IF_ERROR(builder.add_chunk(info, index));
  }
  return base::status_of(builder.commit());
}

// Asks the system to drop the file from the page cache, and returns the bytes that are still in it.
uint64_t drop_from_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto size = static_cast<size_t>(::lseek(fd, 0, SEEK_END));
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  uint64_t left = 0;
  if (map != MAP_FAILED && ::mincore(map, size, pages.data()) == 0) {
    for (const unsigned char page : pages) left += page & 1 ? 4096 : 0;
  }
  if (map != MAP_FAILED) ::munmap(map, size);
  ::close(fd);
  return left;
}

double ms_since(int64_t start_ns) {
  return static_cast<double>(io::monotonic_ns() - start_ns) / 1e6;
}

// Begins a shuffled epoch like a feed does: chunks in a random order, the samples of the first
// chunk shuffled.
uint64_t first_batch(const store::Dataset& dataset) {
  base::Random random(5, base::Purpose::kChunkOrder);
  std::vector<uint32_t> chunks(dataset.chunk_count());
  for (uint32_t i = 0; i < chunks.size(); ++i) chunks[i] = i;
  base::shuffle(std::span<uint32_t>(chunks), random);
  std::vector<uint64_t> samples;
  for (const uint32_t number : chunks) {
    if (samples.size() >= 256) break;
    const store::ChunkInfo& chunk = dataset.chunk(number);
    for (uint32_t i = 0; i < chunk.samples; ++i) samples.push_back(chunk.first_sample + i);
  }
  base::shuffle(std::span<uint64_t>(samples), random);
  uint64_t bytes = 0;
  for (size_t i = 0; i < std::min<size_t>(256, samples.size()); ++i)
    bytes += dataset.location(samples[i]).length;
  return bytes;
}

// Runs in a fresh process: measures opening, the first batch and memory, then compares some keys
// with what was generated.
int measure(const std::string& path, uint64_t bytes) {
  const int64_t start = io::monotonic_ns();
  const auto dataset = store::open_packed(io::posix_file_system(), path);
  if (!dataset) return std::fprintf(stderr, "%s\n", dataset.error().message().c_str()), 1;
  const double open_ms = ms_since(start);
  const int64_t batch_start = io::monotonic_ns();
  const bool has_batch = first_batch(**dataset) > 0;
  const double first_batch_ms = ms_since(batch_start);
  const double rss_mb = static_cast<double>(io::resident_bytes()) / 1e6;
  const int64_t find_start = io::monotonic_ns();
  const uint64_t last = (*dataset)->sample_count() - 1;
  const auto found = (*dataset)->find(made_up_key(last));
  const double find_ms = ms_since(find_start);
  const auto key = (*dataset)->key(last / 2);
  const bool right = has_batch && found && *found == last && key && *key == made_up_key(last / 2) &&
                     (*dataset)->location(last).label == static_cast<int32_t>(last % kClasses);
  if (!right) return std::fprintf(stderr, "bench_snapshot: wrong answers\n"), 1;
  std::printf(
      "samples %lu, snapshot %.1f MB\n  open, cold        %8.2f ms\n  first 256 samples %8.3f ms\n"
      "  resident          %8.1f MB\n  find last key     %8.2f ms\n",
      (*dataset)->sample_count(), static_cast<double>(bytes) / 1e6, open_ms, first_batch_ms, rss_mb,
      find_ms);
  std::printf(
      "{\"machine\": \"%s\", \"open_ms\": %.3f, \"bytes\": %lu, \"first_batch_ms\": %.4f, "
      "\"rss_mb\": %.1f, \"find_ms\": %.2f}\n",
      bench::machine().c_str(), open_ms, bytes, first_batch_ms, rss_mb, find_ms);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[2]) == "--measure") {
    return measure(argv[1], std::strtoull(argv[3], nullptr, 10));
  }
  if (argc < 2) return std::fprintf(stderr, "usage: %s FOLDER [SAMPLES]\n", argv[0]), 2;
  const std::string path = io::join_path(argv[1], "forebay-bench-snapshot");
  const uint64_t samples = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'281'167;
  if (const auto status = make_snapshot(path, samples); !status.ok()) {
    return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
  }
  uint64_t bytes = 0;
  uint64_t cached = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    bytes += entry.file_size();
    cached += drop_from_cache(entry.path().string());
  }
  if (cached > 0) std::printf("still in the page cache: %lu bytes; open is not cold\n", cached);
  std::fflush(stdout);
  const std::string size = std::to_string(bytes);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", argv[0], path.c_str(), "--measure", size.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  std::filesystem::remove_all(path);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
