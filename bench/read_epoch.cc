// deps: forebay_store
// Reads one shuffled epoch from a tree of files and from a dataset's chunks, in turns. Both sides
// read the bytes of every sample and compute their CRC32C, and must see the same number of samples.
// There are three ways. "cold" reads chunks around the page cache, like the feed reads a dataset
// that the cache cannot hold; "cold_cached" reads chunks through the page cache, like the feed does
// with other datasets; "warm" reads what the page cache holds already. bench/read.py makes the data
// and calls this program:
//   bench_read_epoch TREE DATASET THREADS ROUNDS  ->  one JSON line
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/checksum.h"
#include "base/random.h"
#include "io/file_system.h"
#include "io/large_buffer.h"
#include "io/machine.h"
#include "lib/machine.h"
#include "store/dataset.h"

namespace {

using namespace forebay;

template <class T>
T must(base::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "bench_read_epoch: %s\n", result.error().message().c_str());
    std::exit(1);
  }
  return std::move(*result);
}
void must(const base::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "bench_read_epoch: %s\n", status.message().c_str());
    std::exit(1);
  }
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Pages of these files that are in memory, as mincore says; it looks at every hundredth file of
// many.
uint64_t cached_pages(const std::vector<std::string>& files) {
  uint64_t pages = 0;
  const size_t step = std::max<size_t>(1, files.size() / 500);
  for (size_t i = 0; i < files.size(); i += step) {
    const int fd = ::open(files[i].c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info{};
    if (fd < 0 || ::fstat(fd, &info) != 0 || info.st_size == 0) {
      if (fd >= 0) ::close(fd);
      continue;
    }
    const auto size = static_cast<size_t>(info.st_size);
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> resident((size + 4095) / 4096);
    if (map != MAP_FAILED && ::mincore(map, size, resident.data()) == 0) {
      pages += static_cast<uint64_t>(
          std::count_if(resident.begin(), resident.end(), [](auto page) { return page & 1; }));
    }
    if (map != MAP_FAILED) ::munmap(map, size);
    ::close(fd);
  }
  return pages;
}

// Drops the page, inode and name caches; needs root.
void drop_caches(const std::vector<std::string>& files) {
  ::sync();
  std::ofstream("/proc/sys/vm/drop_caches") << "3";
  if (const uint64_t left = cached_pages(files); left != 0) {
    std::fprintf(stderr, "bench_read_epoch: %lu pages are still cached; run as root\n", left);
    std::exit(1);
  }
}

void run_threads(int threads, size_t items, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      for (size_t item = next++; item < items; item = next++) work(item);
    });
  }
  for (auto& thread : pool) thread.join();
}

struct Outcome {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  double seconds = 0;
};

Outcome read_tree(std::vector<std::string> files, int threads, uint64_t epoch) {
  const int64_t start = io::monotonic_ns();
  base::Random random(1, base::Purpose::kTest, epoch);
  base::shuffle(std::span<std::string>(files), random);
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint32_t> sum = 0;
  run_threads(threads, files.size(), [&](size_t i) {
    const auto data = must(io::posix_file_system().read_whole(files[i], 1u << 30));
    sum += base::crc32c(data);
    bytes += data.size();
  });
  return {files.size(), bytes, static_cast<double>(io::monotonic_ns() - start) * 1e-9};
}

// Reads like feed/read/reading.cc.
void read_chunk(const store::Dataset& dataset, uint32_t number, bool cached,
                std::span<uint8_t> out) {
  constexpr size_t kStep = 8u << 20;
  const auto file = must(
      dataset.open_chunk(number, cached ? store::Caching::kCached : store::Caching::kUncached));
  for (size_t at = 0; at < out.size(); at += kStep) {
    must(file->read(at, out.subspan(at, std::min(kStep, out.size() - at))));
  }
}

Outcome read_chunks(const store::Dataset& dataset, int threads, bool cached, uint64_t epoch) {
  const int64_t start = io::monotonic_ns();
  std::vector<uint32_t> order(dataset.chunk_count());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  base::Random random(1, base::Purpose::kTest, epoch);
  base::shuffle(std::span<uint32_t>(order), random);
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> samples = 0;
  run_threads(threads, order.size(), [&](size_t i) {
    const store::ChunkInfo& info = dataset.chunk(order[i]);
    // A thread keeps its memory from chunk to chunk.
    static thread_local io::LargeBuffer memory;
    if (memory.size() < info.bytes) memory = io::LargeBuffer(info.bytes);
    const std::span data(memory.data(), info.bytes);
    read_chunk(dataset, order[i], cached, data);
    std::vector<uint32_t> inside(info.samples);
    for (uint32_t k = 0; k < info.samples; ++k) inside[k] = k;
    base::Random group(1, base::Purpose::kTest, epoch, order[i] + 1);
    base::shuffle(std::span<uint32_t>(inside), group);
    for (const uint32_t k : inside) {
      const store::Location at = dataset.location(info.first_sample + k);
      const auto sample = base::Bytes(data).subspan(at.offset, at.length);
      if (base::crc32c(sample) != at.crc32c) std::abort();
      bytes += at.length;
    }
    samples += info.samples;
  });
  return {samples, bytes, static_cast<double>(io::monotonic_ns() - start) * 1e-9};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_read_epoch TREE DATASET THREADS ROUNDS\n");
    return 2;
  }
  const auto tree = files_below(argv[1]);
  const auto dataset = must(store::open_packed(io::posix_file_system(), argv[2]));
  const auto chunks = files_below(std::string(argv[2]) + "/chunks");
  const int threads = std::atoi(argv[3]);
  const int rounds = std::atoi(argv[4]);

  constexpr std::array kWays{"cold", "cold_cached", "warm"};
  std::array<std::vector<double>, kWays.size()> ratios;
  uint64_t epoch = 0;
  for (int round = 0; round < rounds; ++round) {
    for (size_t way = 0; way < kWays.size(); ++way) {
      const bool is_warm = way == 2;
      const bool cached = way != 0;
      if (is_warm) {
        read_tree(tree, 2, ++epoch);  // brings it all in
      } else {
        drop_caches(tree);
      }
      const Outcome files = read_tree(tree, threads, ++epoch);
      if (is_warm) {
        read_chunks(*dataset, 2, cached, ++epoch);
      } else {
        drop_caches(chunks);
      }
      const Outcome packed = read_chunks(*dataset, threads, cached, ++epoch);
      if (files.samples != packed.samples) {
        std::fprintf(stderr, "bench_read_epoch: %lu files, %lu samples\n", files.samples,
                     packed.samples);
        return 1;
      }
      ratios[way].push_back(files.seconds / packed.seconds);
      std::fprintf(stderr,
                   "  %2d threads, %-11s: tree %7.3f s (%6.0f MB/s), chunks %7.3f s (%6.0f MB/s)\n",
                   threads, kWays[way], files.seconds,
                   static_cast<double>(files.bytes) / files.seconds * 1e-6, packed.seconds,
                   static_cast<double>(packed.bytes) / packed.seconds * 1e-6);
    }
  }
  std::printf("{\"machine\": \"%s\"", bench::machine().c_str());
  for (size_t way = 0; way < kWays.size(); ++way) {
    std::printf(", \"%s_x\": %.2f", kWays[way], median(ratios[way]));
  }
  std::printf("}\n");
  return 0;
}
