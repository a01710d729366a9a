#include "image/round_gpu.h"

#include <algorithm>

namespace forebay::image::gpu {
namespace {

constexpr size_t kAlignment = 256;

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
struct ArrayOffset {
  size_t at;
  T* in(uint8_t* memory) const { return reinterpret_cast<T*>(memory + at); }
};

// Places arrays one after the other, after the bytes that are already in use.
class Layer {
 public:
  explicit Layer(size_t used = 0) : end_(aligned(used)) {}
  template <class T>
  ArrayOffset<T> take(size_t count) {
    const ArrayOffset<T> place{end_};
    end_ = aligned(end_ + count * sizeof(T));
    return place;
  }
  size_t end() const { return end_; }

 private:
  size_t end_;
};

}  // namespace

struct Round::Places {
  ArrayOffset<jpeg::gpu::Region> regions;
  ArrayOffset<Sample> samples;
  ArrayOffset<jpeg::gpu::SegmentTask> segments;
  ArrayOffset<jpeg::gpu::HuffmanLookup> lookups;
  ArrayOffset<int32_t> numbers;
  ArrayOffset<int16_t> weights;
  ArrayOffset<uint8_t> patches;
  ArrayOffset<uint32_t> values;
  ArrayOffset<uint32_t> bad;
  size_t sent_end;
  ArrayOffset<int16_t> coefficients;
  ArrayOffset<uint8_t> planes;
  ArrayOffset<uint8_t> pixels;
  ArrayOffset<uint8_t> between;
  size_t work_end;
};

Round::Round(Interpolation interpolation, const TensorOptions& options,
             const std::array<float, 3>& erased, Damaged damaged)
    : interpolation_(interpolation),
      layout_(options.layout),
      number_bytes_(dtype_bytes(options.dtype)),
      writer_(options),
      values_(writer_.numbers()),
      erased_(writer_.numbers_of(erased)),
      plan_(damaged) {}

void Round::begin() {
  plan_.begin();
  samples_.clear();
  numbers_.clear();
  weights_.clear();
  patches_.clear();
  made_bytes_ = 0;
  between_bytes_ = 0;
}

std::optional<Round::MemoryBytes> Round::lay_out(const Encoded& source, const Draw& drawn) {
  const size_t bits_bytes = plan_.lay_out(source.file, source.jpeg, drawn.cut.region);
  if (bits_bytes == 0) return {};
  return room_with_next(drawn, bits_bytes);
}

std::optional<Round::MemoryBytes> Round::lay_out(const jpeg::gpu::ResidentJpeg& stored,
                                                 const Draw& drawn) {
  if (!plan_.lay_out(stored, drawn.cut.region)) return {};
  return room_with_next(drawn, 0);
}

Round::MemoryBytes Round::room_with_next(const Draw& drawn, uint64_t bits_bytes) const {
  const auto sizes = plan_.sizes_with_next();
  const uint64_t between = uint64_t{drawn.cut.kept.width} * drawn.cut.region.height * 3;
  return {.sent = sizes.bits_bytes + bits_bytes,
          .work = sizes.coefficients * sizeof(int16_t) + sizes.planes_bytes + sizes.pixels_bytes +
                  between_bytes_ + between};
}

bool Round::add(const Encoded& source, const Draw& drawn, uint8_t* bits, uint8_t* out) {
  if (!plan_.add(source.file, bits + plan_.sizes().bits_bytes)) return false;
  add_decoded(drawn, out);
  return true;
}

void Round::add(const jpeg::gpu::ResidentJpeg& stored, const Draw& drawn, uint8_t* out) {
  plan_.add(stored);
  add_decoded(drawn, out);
}

// Adds the sample of the region that was added to the plan last.
void Round::add_decoded(const Draw& drawn, uint8_t* out) {
  Sample sample = make_sample(drawn, out);
  const auto axis = [&](uint32_t from, uint32_t to, uint32_t first, uint32_t count) {
    return add_axis({.in = from,
                     .length = static_cast<double>(from),
                     .out = to,
                     .first = first,
                     .count = count,
                     .cubic = interpolation_ == Interpolation::kBicubic,
                     .exact = interpolation_ == Interpolation::kNearestExact});
  };
  const Rect& kept = drawn.cut.kept;
  sample.across = axis(drawn.cut.region.width, drawn.cut.resized.width, kept.x, kept.width);
  sample.down = axis(drawn.cut.region.height, drawn.cut.resized.height, kept.y, kept.height);
  sample.between = between_bytes_;
  between_bytes_ += uint64_t{kept.width} * drawn.cut.region.height * 3;
  const Size size = drawn.size;
  const bool flip = drawn.flip;
  if (drawn.cut.outside) {
    const auto& [image, viewport, border] = *drawn.cut.outside;
    const Rect part = part_shown(image, viewport, border.kind);
    sample.columns = add_shown(size.width, flip, viewport.x, image.width, part.x, border.kind);
    sample.rows =
        add_shown(size.height, drawn.vertical_flip, viewport.y, image.height, part.y, border.kind);
    std::ranges::copy(border.fill, sample.border);
  } else {
    sample.columns = add_shown(size.width, flip, 0, size.width, 0, BorderKind::kConstant);
    sample.rows =
        add_shown(size.height, drawn.vertical_flip, 0, size.height, 0, BorderKind::kConstant);
  }
  samples_.push_back(sample);
}

uint64_t Round::made_begin() const { return aligned(plan_.sizes().bits_bytes); }

uint64_t Round::take_made(const Draw& drawn) {
  const uint64_t at = made_begin() + made_bytes_;
  made_bytes_ += aligned(made_bytes(drawn));
  return at;
}

void Round::add_made(const Draw& drawn, uint64_t at, uint8_t* out) {
  Sample sample = make_sample(drawn, out);
  sample.made = at;
  samples_.push_back(sample);
}

void Round::add_zeros(Size size, uint8_t* out) {
  Draw drawn;
  drawn.size = size;
  Sample sample = make_sample(drawn, out);
  sample.zero = true;
  samples_.push_back(sample);
}

// Makes the part of a sample that does not depend on its source.
Sample Round::make_sample(const Draw& drawn, uint8_t* out) {
  Sample sample{};
  sample.width = drawn.size.width;
  sample.height = drawn.size.height;
  sample.out = reinterpret_cast<uint64_t>(out);
  if (drawn.erased) add_erased(drawn, &sample);
  return sample;
}

void Round::add_erased(const Draw& drawn, Sample* sample) {
  const Rect& part = *drawn.erased;
  sample->erased_left = part.x;
  sample->erased_right = part.x + part.width;
  sample->erased_top = part.y;
  sample->erased_bottom = part.y + part.height;
  if (!drawn.noise) return;
  const Size size{part.width, part.height};
  sample->patched = true;
  sample->patch = patches_.size() / number_bytes_;
  patches_.resize(patches_.size() + writer_.sample_bytes(size));
  uint8_t* const patch = patches_.data() + sample->patch * number_bytes_;
  writer_.write_noise({0, 0, size.width, size.height}, size, *drawn.noise, patch);
}

Axis Round::add_axis(const AxisSpec& spec) {
  Axis out{.count = spec.count,
           .taps = 1,
           .precision = 1,
           .last = spec.in - 1,
           .starts = numbers_.size(),
           .weights = weights_.size()};
  const bool nearest = is_nearest(interpolation_);
  if (nearest || is_copy(spec)) {
    for (uint32_t i = 0; i < spec.count; ++i) {
      const uint32_t output = spec.first + i;
      numbers_.push_back(static_cast<int32_t>(nearest ? nearest_pixel(spec, output) : output));
    }
    weights_.insert(weights_.end(), spec.count, int16_t{2});  // this is 1 at that precision
    return out;
  }
  axis_.compute(spec);
  out.taps = axis_.taps;
  out.precision = axis_.precision;
  numbers_.insert(numbers_.end(), axis_.start.begin(), axis_.start.end());
  weights_.insert(weights_.end(), axis_.weights.begin(), axis_.weights.end());
  return out;
}

// Same as append_shown(), but in reverse order when `flip`. Returns where the list begins in
// numbers_.
uint64_t Round::add_shown(uint32_t count, bool flip, int64_t begin, uint32_t side, uint32_t first,
                          BorderKind kind) {
  const size_t at = numbers_.size();
  append_shown(begin, count, side, kind, first, &numbers_);
  if (flip) std::reverse(numbers_.begin() + static_cast<ptrdiff_t>(at), numbers_.end());
  return at;
}

Round::Places Round::places() const {
  const auto& sizes = plan_.sizes();
  Layer sent(made_begin() + made_bytes_);
  Layer work;
  Places out{.regions = sent.take<jpeg::gpu::Region>(plan_.regions().size()),
             .samples = sent.take<Sample>(samples_.size()),
             .segments = sent.take<jpeg::gpu::SegmentTask>(plan_.segments()),
             .lookups = sent.take<jpeg::gpu::HuffmanLookup>(plan_.lookups().size()),
             .numbers = sent.take<int32_t>(numbers_.size()),
             .weights = sent.take<int16_t>(weights_.size()),
             .patches = sent.take<uint8_t>(patches_.size()),
             .values = sent.take<uint32_t>(values_.size()),
             .bad = sent.take<uint32_t>(plan_.regions().size()),
             .sent_end = sent.end(),
             .coefficients = work.take<int16_t>(sizes.coefficients),
             .planes = work.take<uint8_t>(sizes.planes_bytes),
             .pixels = work.take<uint8_t>(sizes.pixels_bytes),
             .between = work.take<uint8_t>(between_bytes_),
             .work_end = work.end()};
  return out;
}

Round::MemoryBytes Round::room() const {
  const Places all = places();
  return {all.sent_end, all.work_end};
}

KernelArguments Round::write(const Queue::Memory& memory) {
  const Places all = places();
  const auto send = [&](const auto& place, const auto& from) {
    std::ranges::copy(from, place.in(memory.host));
    return place.in(memory.sent);
  };
  KernelArguments arguments{};
  arguments.job = {.count = static_cast<uint32_t>(samples_.size()),
                   .region_count = static_cast<uint32_t>(plan_.regions().size()),
                   .segment_count = static_cast<uint32_t>(plan_.segments()),
                   .regions = send(all.regions, plan_.regions()),
                   .samples = send(all.samples, samples_),
                   .segments = send(all.segments, plan_.sorted_segments()),
                   .lookups = send(all.lookups, plan_.lookups()),
                   .bits = reinterpret_cast<const uint32_t*>(memory.sent),
                   .made = memory.sent,
                   .patches = send(all.patches, patches_),
                   .numbers = send(all.numbers, numbers_),
                   .weights = send(all.weights, weights_),
                   .coefficients = all.coefficients.in(memory.work),
                   .planes = all.planes.in(memory.work),
                   .pixels = all.pixels.in(memory.work),
                   .between = all.between.in(memory.work),
                   .bad = all.bad.in(memory.sent),
                   .planar = layout_ == Layout::kNchw,
                   .number_bytes = static_cast<uint32_t>(number_bytes_),
                   .values = send(all.values, values_),
                   .erased = {erased_[0], erased_[1], erased_[2]}};
  std::fill_n(all.bad.in(memory.host), arguments.job.region_count, 0u);
  arguments.sent_bytes = all.sent_end;
  arguments.coefficients_bytes = plan_.sizes().coefficients * sizeof(int16_t);
  count_items(&arguments);
  return arguments;
}

void Round::count_items(KernelArguments* arguments) const {
  for (size_t i = 0; i < samples_.size(); ++i) {
    const Sample& sample = samples_[i];
    arguments->outputs_max = std::max(arguments->outputs_max, sample.width * sample.height);
    if (i >= plan_.regions().size()) continue;
    const jpeg::gpu::Region& region = plan_.regions()[i];
    arguments->blocks_max = std::max(arguments->blocks_max, region.needed_blocks());
    arguments->quads_max =
        std::max(arguments->quads_max, region.plane_bytes() / jpeg::gpu::kTogether);
    const uint32_t row_groups = (region.height + ResizeAcross::kRows - 1) / ResizeAcross::kRows;
    arguments->between_max = std::max(arguments->between_max, row_groups * sample.across.count);
  }
}

}  // namespace forebay::image::gpu
