// deps: forebay_store
// Makes a dataset with the metadata of many samples and the chunks of a few, to measure what
// opening costs and how early the first batch comes:
//    bench_large_metadata SOURCE TARGET [SAMPLES]
// SOURCE is a packed dataset on the local disk. TARGET, which must not exist, gets links to its
// chunks (or copies, on another disk), and a snapshot that names them again and again until it has
// at least SAMPLES samples (1,281,167). So every sample can be read. Chunks that an epoch meets one
// after the other should differ: SOURCE needs more chunks than the loader has lanes (8). As keys
// repeat, `forebay verify` finds fault with it. The last line is one JSON object with the counts.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "io/file_system.h"
#include "store/dataset.h"
#include "store/format/snapshot.h"
#include "store/snapshot_builder.h"

namespace {

using namespace forebay;

constexpr uint64_t kSamples = 1'281'167;  // of ImageNet

struct Made {
  uint64_t samples = 0;
  uint64_t chunks = 0;
};

base::Status link_chunks(const store::Dataset& source, const std::string& target) {
  namespace fs = std::filesystem;
  fs::create_directories(fs::path(target) / "chunks");
  for (uint32_t number = 0; number < source.chunk_count(); ++number) {
    const std::string from = source.chunk_label(number);
    const std::string to = store::chunk_path(target, source.chunk(number).id);
    std::error_code failed;
    fs::create_hard_link(from, to, failed);
    if (failed) fs::copy_file(from, to, failed);
    if (failed) return base::fail(base::Code::kIo, "cannot copy {}: {}", from, failed.message());
  }
  return {};
}

base::Result<Made> make(const std::string& from, const std::string& target, uint64_t samples) {
  io::FileSystem& fs = io::posix_file_system();
  ASSIGN_OR_RETURN(const auto source, store::open_packed(fs, from));
  if (source->sample_count() == 0) return base::fail(base::Code::kInvalid, "{}: is empty", from);
  RETURN_IF_ERROR(link_chunks(*source, target));
  std::vector<store::ChunkIndex> indexes;
  for (uint32_t number = 0; number < source->chunk_count(); ++number) {
    ASSIGN_OR_RETURN(indexes.emplace_back(), source->read_chunk_index(number));
  }
  store::SnapshotBuilder builder(fs, target, source->schema());
  Made made;
  for (; made.samples < samples; ++made.chunks) {
    const auto number = static_cast<uint32_t>(made.chunks % source->chunk_count());
    RETURN_IF_ERROR(builder.add_chunk(source->chunk(number), indexes[number]));
    made.samples += source->chunk(number).samples;
  }
  RETURN_IF_ERROR(builder.commit());
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    return std::fprintf(stderr, "usage: %s SOURCE TARGET [SAMPLES]\n", argv[0]), 2;
  }
  const uint64_t samples = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : kSamples;
  if (std::filesystem::exists(argv[2])) {
    return std::fprintf(stderr, "%s: there is something already\n", argv[2]), 1;
  }
  const auto made = make(argv[1], argv[2], samples);
  if (!made) return std::fprintf(stderr, "%s\n", made.error().message().c_str()), 1;
  std::printf("%lu samples in %lu chunks\n", made->samples, made->chunks);
  std::printf("{\"samples\": %lu, \"chunks\": %lu}\n", made->samples, made->chunks);
  return 0;
}
