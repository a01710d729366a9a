// Compares Forebay with libjpeg-turbo for each task on one core. The sides take turns with several
// images each, because a single image would begin with what the other side left in the caches.
// Measures thread CPU time, the best of the rounds for each image and side, and compares the
// results. There are more rounds while a neighbour uses the core too (clock.h), because that does
// not slow both sides equally.
#include <cmath>
#include <span>

#include "image/prepare.h"
#include "io/large_buffer.h"
#include "jpeg/rewrite/coefficient_reader.h"
#include "jpeg/rewrite/rewrite.h"
#include "lib/clock.h"
#include "lib/files.h"
#include "lib/jpeg_work.h"
#include "lib/libjpeg.h"

namespace forebay::bench {
namespace {

using base::Bytes;
using base::ByteVector;
using base::Pixels;

constexpr size_t kInTurn = 8;          // images of a side before the other takes its turn
constexpr size_t kSmallTogether = 64;  // images that are decoded together

// The most rounds for each round that is asked for, to find undisturbed ones.
constexpr int kPatience = 6;

// Seconds summed over all images so far.
struct Sums {
  double ours = 0;
  double theirs = 0;
  double ratio() const { return theirs / ours; }
};

// The times of one side for a group of images, or for several that are decoded together.
class Side {
 public:
  explicit Side(size_t count) : best_(count) {}
  template <class Call>
  void time(const Neighbour& neighbour, const Call& call) {
    const bool quiet_before = neighbour.is_quiet();
    for (size_t i = 0; i < best_.size(); ++i) {
      const double start = thread_seconds();
      call(i);
      best_[i].add(thread_seconds() - start);
    }
    if (quiet_before && neighbour.is_quiet()) ++undisturbed_;
  }
  double seconds() const {
    double sum = 0;
    for (const Shortest& best : best_) sum += best.seconds();
    return sum;
  }
  int undisturbed() const { return undisturbed_; }

 private:
  std::vector<Shortest> best_;
  int undisturbed_ = 0;
};

const Neighbour& measured_neighbour() {
  static const Neighbour measured;
  return measured;
}

// Calls ours(i) and theirs(i) for each of `count`, until each side had `rounds` undisturbed rounds,
// or for as many rounds as kPatience allows. The first round, in which buffers may have to grow,
// does not count.
template <class Ours, class Theirs>
void take_turns(int rounds, size_t count, const Ours& ours, const Theirs& theirs, Sums* sums) {
  const Neighbour& neighbour = measured_neighbour();
  Side our_side(count);
  Side their_side(count);
  for (size_t i = 0; i < count; ++i) ours(i);
  for (size_t i = 0; i < count; ++i) theirs(i);
  for (int round = 0; round < rounds * kPatience; ++round) {
    our_side.time(neighbour, ours);
    their_side.time(neighbour, theirs);
    if (std::min(our_side.undisturbed(), their_side.undisturbed()) >= rounds) break;
  }
  sums->ours += our_side.seconds();
  sums->theirs += their_side.seconds();
}

// Calls each(files, first) for groups of `size` files; `first` is the number of the first file of a
// group.
template <class Each>
void for_each_group(const std::vector<ByteVector>& files, size_t size, const Each& each) {
  for (size_t first = 0; first < files.size(); first += size) {
    each(std::span(files).subspan(first, std::min(size, files.size() - first)), first);
  }
}

// A checksum of all coefficients of an image that does not depend on the order of blocks, or of
// coefficients in a block.
struct CoefficientSums {
  int64_t sum = 0;
  int64_t squares = 0;
  void add(int16_t value) {
    sum += value;
    squares += int64_t{value} * value;
  }
  bool operator==(const CoefficientSums&) const = default;
};

CoefficientSums sums_of(const jpeg::Coefficients& coefficients, const jpeg::Header& header) {
  CoefficientSums sums;
  const int16_t* block = coefficients.blocks.data();
  const auto components = jpeg::component_blocks(header);
  for (uint32_t mcu = 0; mcu < header.mcu_count(); ++mcu) {
    const uint32_t mcu_x = mcu % header.mcus_across();
    const uint32_t mcu_y = mcu / header.mcus_across();
    for (const auto& component : components) {
      for (uint32_t b = 0; b < component.across * component.down; ++b, block += 64) {
        const uint32_t x = mcu_x * component.across + b % component.across;
        const uint32_t y = mcu_y * component.down + b / component.across;
        if (x >= component.width || y >= component.height) continue;
        for (size_t k = 0; k < 64; ++k) sums.add(block[k]);
      }
    }
  }
  return sums;
}

void read_ours(jpeg::CoefficientReader& reader, Bytes file, jpeg::Coefficients* out) {
  const auto header = jpeg::parse_header(file);
  if (!header || !reader.read(file, *header, out).ok()) stop("damaged");
}

void check_coefficients(Bytes file, Bytes original) {
  jpeg::CoefficientReader ours;
  Libjpeg theirs;
  jpeg::Coefficients out;
  std::vector<int16_t> all;
  read_ours(ours, file, &out);
  theirs.read_coefficients(original, &all);
  CoefficientSums expected;
  for (const int16_t value : all) expected.add(value);
  if (sums_of(out, jpeg::parse_header(file).value()) != expected) stop("the coefficients differ");
}

// Reads coefficients: ours from `files`, theirs from the originals. Neither side reads images of
// four channels.
double compare_coefficients(const std::vector<ByteVector>& files,
                            const std::vector<ByteVector>& originals, int rounds) {
  jpeg::CoefficientReader ours;
  Libjpeg theirs;
  jpeg::Coefficients out;
  Sums sums;
  for_each_group(files, kInTurn, [&](std::span<const ByteVector> group, size_t first) {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < group.size(); ++i) {
      if (jpeg::parse_header(group[i]).value().component_count == 4) continue;
      numbers.push_back(i);
      check_coefficients(group[i], originals[first + i]);
    }
    take_turns(
        rounds, numbers.size(), [&](size_t i) { read_ours(ours, group[numbers[i]], &out); },
        [&](size_t i) { theirs.read_coefficients(originals[first + numbers[i]], nullptr); }, &sums);
  });
  return sums.ratio();
}

double compare_rewrite(const std::vector<ByteVector>& originals, int rounds) {
  Libjpeg theirs;
  Sums sums;
  std::vector<int16_t> before;
  std::vector<int16_t> after;
  for_each_group(originals, kInTurn, [&](std::span<const ByteVector> group, size_t) {
    std::vector<std::pair<Bytes, uint32_t>> work;  // a file and its restart interval
    for (const ByteVector& file : group) {
      const auto out = jpeg::rewrite(file);
      if (!out) continue;  // neither side takes CMYK and similar images
      theirs.read_coefficients(file, &before);
      theirs.read_coefficients(out->file, &after);
      if (before != after) stop("the rewrite changed coefficients");
      work.emplace_back(file, out->header.restart_interval);
    }
    take_turns(
        rounds, work.size(), [&](size_t i) { static_cast<void>(jpeg::rewrite(work[i].first)); },
        [&](size_t i) { theirs.transcode(work[i].first, work[i].second); }, &sums);
  });
  return sums.ratio();
}

// Decodes whole images to RGB. Each side takes `in_turn` images in a turn; ours decodes `together`
// at a time.
double compare_rgb(const std::vector<ByteVector>& files, size_t in_turn, size_t together,
                   int rounds) {
  jpeg::Decoder ours;
  Libjpeg theirs;
  std::vector<jpeg::RegionRequest> requests;
  std::vector<Pixels> out(in_turn);
  std::vector<Pixels> expected(in_turn);
  Sums sums;
  for_each_group(files, in_turn, [&](std::span<const ByteVector> group, size_t) {
    const auto end_of = [&](size_t unit) { return std::min((unit + 1) * together, group.size()); };
    const auto decode_ours = [&](size_t unit) {
      const size_t at = unit * together;
      requests.clear();
      for (size_t i = at; i < end_of(unit); ++i) {
        const jpeg::Header header = jpeg::parse_header(group[i]).value();
        requests.push_back({group[i], header, {0, 0, header.width, header.height}});
      }
      ours.decode(requests, [&](size_t i, const base::Status& status, base::Rows& rows) {
        if (!status.ok()) stop(status.message());
        rows.move_to(&out[at + i]);
      });
    };
    const auto decode_theirs = [&](size_t unit) {
      for (size_t i = unit * together; i < end_of(unit); ++i) {
        theirs.decode(group[i], {}, &expected[i]);
      }
    };
    const size_t units = (group.size() + together - 1) / together;
    take_turns(rounds, units, decode_ours, decode_theirs, &sums);
    for (size_t i = 0; i < group.size(); ++i) {
      if (out[i].rgb != expected[i].rgb) stop("the pixels differ");
    }
  });
  return sums.ratio();
}

// Crops by libjpeg-turbo, resized and normalised like ours.
class TheirCrops {
 public:
  void prepare(Bytes file, const image::Draw& draw, uint8_t* out) {
    const image::Cut& cut = draw.cut;
    libjpeg_.decode(file, cut.region, &decoded_.pixels);
    resizer_.resize(decoded_, image::whole(decoded_), cut.resized, cut.kept,
                    [&](uint32_t y, const base::PlanarRow& row) {
                      writer_.write_row(row, y, cut.size(), draw.flip, out);
                    });
    image::TensorWriter::complete();
  }

 private:
  Libjpeg libjpeg_;
  image::Resizer resizer_;
  image::TensorWriter writer_{image::TensorOptions{}};
  base::PixelRows decoded_;
};

// Chroma at the sides of a crop may differ slightly (see Libjpeg::decode). One level of a pixel is
// 0.017 here.
bool are_close(const io::LargeBuffer& a, const io::LargeBuffer& b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += std::abs(base::load_le<float>(a.data() + i * sizeof(float)) -
                    base::load_le<float>(b.data() + i * sizeof(float)));
  }
  return sum < 0.01 * static_cast<double>(count);
}

double compare_crops(const std::vector<ByteVector>& files, int rounds) {
  const image::Transform transform;
  image::Preparer ours(transform, image::TensorOptions{});
  TheirCrops theirs;
  const size_t bytes = ours.sample_bytes();
  std::vector<io::LargeBuffer> out;
  std::vector<io::LargeBuffer> expected;
  for (size_t i = 0; i < kInTurn; ++i) {
    out.emplace_back(bytes);
    expected.emplace_back(bytes);
  }
  Sums sums;
  for_each_group(files, kInTurn, [&](std::span<const ByteVector> group, size_t first) {
    std::vector<image::Draw> draws;
    for (size_t i = 0; i < group.size(); ++i) {
      const auto source = image::read_header(group[i]);
      draws.push_back(image::draw(transform, source.value().size, random_of(first + i)).value());
    }
    take_turns(
        rounds, group.size(),
        [&](size_t i) {
          if (!ours.prepare(group[i], random_of(first + i), out[i].data()).ok()) stop("damaged");
        },
        [&](size_t i) { theirs.prepare(group[i], draws[i], expected[i].data()); }, &sums);
    for (size_t i = 0; i < group.size(); ++i) {
      if (!are_close(out[i], expected[i], bytes / sizeof(float))) stop("the crops differ");
    }
  });
  return sums.ratio();
}

}  // namespace

void compare_jpeg(const JpegWork& work, int rounds, const Report& report) {
  const auto coefficients = [&](const std::vector<ByteVector>& files) {
    return compare_coefficients(files, work.originals, rounds);
  };
  report("coefficients_x", coefficients(work.packed));
  report("coefficients_private_x", coefficients(work.packed_private));
  report("coefficients_plain_x", coefficients(work.originals));
  report("rgb_x", compare_rgb(work.packed, kInTurn, 1, rounds));
  report("crop_x", compare_crops(work.packed, rounds));
  report("crop_plain_x", compare_crops(work.originals, rounds));
  report("cifar_x", compare_rgb(work.small, kSmallTogether, kSmallTogether, rounds));
  report("rewrite_x", compare_rewrite(work.originals, rounds));
}

}  // namespace forebay::bench
