// Trains the shared Huffman tables and prints src/jpeg/format/huffman_sets_data.cc:
//   train_huffman_sets PHOTOS THUMBNAILS > src/jpeg/format/huffman_sets_data.cc
// Clusters the symbol histograms of images for each slot separately, like k-means with the size of
// the file as the distance. Reasons and figures are in docs/decisions/0003-huffman-sets.md.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "jpeg/format/huffman_sets.h"
#include "jpeg/kernels/symbols.h"
#include "jpeg/rewrite/coefficient_reader.h"

namespace fs = std::filesystem;
namespace jpeg = forebay::jpeg;
using forebay::base::ByteVector;
using forebay::base::Purpose;
using forebay::base::Random;
using forebay::base::Status;

namespace {

constexpr size_t kThumbnails = 2000;  // the number of thumbnails that are used
constexpr double kThumbnailShare =
    0.1;                        // the share of thumbnails in the training weight, in symbols
constexpr int kRounds = 25;     // rounds of assigning and refitting
constexpr int kStarts = 12;     // random starts; the best one wins
constexpr double kDhtBits = 8;  // each code up to the last used one is a byte of DHT

struct Image {
  std::array<jpeg::Histogram, jpeg::kSlots> histograms;
  double weight = 1;
};

// Returns about `most` regular files below `folder`, spread evenly over the sorted names.
std::vector<fs::path> list(const fs::path& folder, size_t most) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) all.push_back(entry.path());
  }
  std::ranges::sort(all);
  const size_t step = std::max<size_t>(1, all.size() / most);
  std::vector<fs::path> out;
  for (size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

ByteVector read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Status count_symbols(const ByteVector& file, jpeg::CoefficientReader& reader,
                     jpeg::Symbols* symbols) {
  ASSIGN_OR_RETURN(const jpeg::Header header, jpeg::parse_header(file));
  jpeg::Coefficients coefficients;
  RETURN_IF_ERROR(reader.read(file, header, &coefficients));
  const bool subsampled = header.mcu_width() > 8 || header.mcu_height() > 8;
  const uint32_t interval = header.mcu_count() < 64 ? 0 : subsampled ? 4 : 8;
  return jpeg::collect_symbols(header, coefficients, interval, jpeg::best_entropy_kernel(),
                               symbols);
}

double symbols_of(const std::vector<Image>& images) {
  double sum = 0;
  for (const Image& image : images) {
    for (const auto& histogram : image.histograms) {
      for (const uint32_t count : histogram) sum += count;
    }
  }
  return sum;
}

std::vector<Image> load(const fs::path& folder, size_t most) {
  std::vector<Image> images;
  jpeg::CoefficientReader reader;
  jpeg::Symbols symbols;
  for (const fs::path& path : list(folder, most)) {
    if (const Status status = count_symbols(read(path), reader, &symbols); !status.ok()) {
      fmt::print(stderr, "{}: {}; left out\n", path.string(), status.message());
      continue;
    }
    images.push_back({symbols.histograms, 1});
  }
  return images;
}

// A table for the sum of the histograms of some images, complete for all legal symbols.
class Sum {
 public:
  void add(const jpeg::Histogram& histogram, double weight) {
    for (size_t i = 0; i < 256; ++i) sum_[i] += weight * histogram[i];
  }
  jpeg::HuffmanTable table(bool ac) const {
    jpeg::Histogram rounded{};
    for (int i = 0; i < 256; ++i) {
      const auto at = static_cast<size_t>(i);
      if (jpeg::is_legal_symbol(ac, i)) rounded[at] = 1 + static_cast<uint32_t>(sum_[at] * 4);
    }
    return jpeg::optimal_table(rounded);
  }

 private:
  std::array<double, 256> sum_{};
};

double cost(const jpeg::HuffmanCodes& codes, const jpeg::Histogram& histogram) {
  return static_cast<double>(jpeg::code_bits(codes, histogram)) +
         kDhtBits * jpeg::codes_needed(codes, histogram);
}

struct Clustering {
  std::vector<jpeg::HuffmanTable> tables;
  double bits = 0;
};

Clustering cluster(const std::vector<Image>& images, size_t slot, Random& random) {
  std::vector<size_t> member(images.size());
  Clustering out;
  // Each cluster starts with a random image, whose table gives all images a first choice.
  std::vector<jpeg::HuffmanCodes> codes;
  for (size_t set = 0; set < jpeg::kHuffmanSets; ++set) {
    Sum sum;
    sum.add(images[random.below(images.size())].histograms[slot], 1);
    codes.push_back(jpeg::codes_of(sum.table(jpeg::is_ac(slot))));
  }
  for (int round = 0; round < kRounds; ++round) {
    out.bits = 0;
    std::vector<Sum> sums(jpeg::kHuffmanSets);
    for (const Image& image : images) {
      size_t best_set = 0;
      double best = 1e300;
      for (size_t set = 0; set < codes.size(); ++set) {
        const double bits = cost(codes[set], image.histograms[slot]);
        if (bits < best) best = bits, best_set = set;
      }
      out.bits += best * image.weight;
      sums[best_set].add(image.histograms[slot], image.weight);
    }
    out.tables.clear();
    for (size_t set = 0; set < codes.size(); ++set) {
      out.tables.push_back(sums[set].table(jpeg::is_ac(slot)));
      codes[set] = jpeg::codes_of(out.tables.back());
    }
  }
  return out;
}

Clustering best_cluster(const std::vector<Image>& images, size_t slot) {
  Clustering best;
  for (int start = 0; start < kStarts; ++start) {
    Random random(1, Purpose::kTest, slot, static_cast<uint64_t>(start));
    Clustering next = cluster(images, slot, random);
    if (best.tables.empty() || next.bits < best.bits) best = std::move(next);
  }
  return best;
}

void print_tables(const std::array<Clustering, jpeg::kSlots>& slots, bool ac) {
  const char* name = ac ? "Ac" : "Dc";
  fmt::print("const uint8_t k{}Tables[2][kHuffmanSets][16 + k{}Symbols] = {{\n", name, name);
  for (size_t slot = ac ? 1 : 0; slot < jpeg::kSlots; slot += 2) {
    fmt::print("{{\n");
    for (const jpeg::HuffmanTable& table : slots[slot].tables) {
      fmt::print("{{{},\n{}}},\n", fmt::join(table.bits, ", "),
                 fmt::join(table.values.begin(), table.values.begin() + table.count, ", "));
    }
    fmt::print("}},\n");
  }
  fmt::print("}};\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: train_huffman_sets PHOTOS THUMBNAILS\n");
    return 2;
  }
  std::vector<Image> images = load(argv[1], SIZE_MAX);
  std::vector<Image> thumbnails = load(argv[2], kThumbnails);
  const double scale =
      symbols_of(images) / symbols_of(thumbnails) * kThumbnailShare / (1 - kThumbnailShare);
  for (Image& image : thumbnails) image.weight = scale;
  images.insert(images.end(), thumbnails.begin(), thumbnails.end());
  std::array<Clustering, jpeg::kSlots> slots;
  for (size_t slot = 0; slot < jpeg::kSlots; ++slot) {
    slots[slot] = best_cluster(images, slot);
    fmt::print(stderr, "slot {}: {:.0f} bytes\n", slot, slots[slot].bits / 8);
  }
  fmt::print("// Written by scripts/train_huffman_sets.cc; not edited by hand.\n");
  fmt::print("#include \"jpeg/format/huffman_sets.h\"\n\nnamespace forebay::jpeg::data {{\n\n");
  fmt::print("// clang-format off\n");
  print_tables(slots, false);
  print_tables(slots, true);
  fmt::print("// clang-format on\n\n}}  // namespace forebay::jpeg::data\n");
  return 0;
}
