#include "image/prepare_gpu.h"

#include <algorithm>
#include <cstring>

namespace forebay::image {
namespace {

// At once; what does not fit alone is left to the host.
constexpr size_t kSamplesMax = 1024;
constexpr uint64_t kSentMax = uint64_t{64} << 20;   // bytes
constexpr uint64_t kWorkMax = uint64_t{512} << 20;  // bytes

template <class T>
struct Place {
  size_t at;
  T* in(uint8_t* memory) const { return reinterpret_cast<T*>(memory + at); }
};

// Lays arrays behind each other, and behind what is used already.
class Places {
 public:
  explicit Places(size_t used = 0) { take<uint8_t>(used); }
  template <class T>
  Place<T> take(size_t count) {
    constexpr size_t kAlignment = 256;
    const Place<T> place{end_};
    end_ = (end_ + count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  size_t end() const { return end_; }

 private:
  size_t end_ = 0;
};

}  // namespace

GpuPreparer::GpuPreparer(const Transform& transform, const TensorOptions& options,
                         std::shared_ptr<gpu::Device> device)
    : transform_(transform),
      options_(options),
      host_(transform, options),
      device_(std::move(device)),
      made_(host_.sample_bytes()) {
  const TensorWriter writer(options);
  values_ = writer.numbers();
  erased_ = writer.numbers_of(transform.erasing.value);
}

Status GpuPreparer::open() {
  if (queue_ != nullptr) return {};
  ASSIGN_OR_RETURN(queue_, device_->open_queue());
  return {};
}

Status GpuPreparer::clear(uint8_t* out) {
  RETURN_IF_ERROR(open());
  std::ranges::fill(made_, uint8_t{0});
  return queue_->copy(made_, out);
}

void GpuPreparer::prepare(std::span<PrepareRequest> requests, bool on_gpu) {
  if (const Status opened = open(); !opened.ok()) {
    for (PrepareRequest& request : requests) request.status = opened;
    return;
  }
  if (!on_gpu) {
    for (PrepareRequest& request : requests) prepare_on_host(request);
    return;
  }
  begin();
  for_host_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    PrepareRequest& request = requests[number];
    const auto begun = begin_sample(transform_, request);
    request.status = base::status_of(begun);
    if (!begun) continue;
    Added added = add(number, request, *begun);
    if (added == Added::kNoRoom) {
      run(requests);
      added = add(number, request, *begun);
    }
    if (added != Added::kYes) for_host_.push_back(number);
  }
  run(requests);
  for (const size_t number : for_host_) prepare_on_host(requests[number]);
}

void GpuPreparer::begin() {
  taken_.clear();
  plan_.begin();
  samples_.clear();
  numbers_.clear();
  weights_.clear();
  between_bytes_ = 0;
}

GpuPreparer::Added GpuPreparer::add(size_t number, const PrepareRequest& request,
                                    const BegunSample& begun) {
  const auto& [source, drawn] = begun;
  const bool can = source.format == Format::kJpeg && !drawn.noise &&
                   decode_scale(transform_, source.format, drawn) == 1;
  if (!can) return Added::kNo;
  const size_t bits_bytes = plan_.lay_out(request.file, source.jpeg, drawn.region);
  if (bits_bytes == 0) return Added::kNo;
  const auto sizes = plan_.sizes_with_next();
  const uint64_t between = uint64_t{drawn.kept.width} * drawn.region.height * 3;
  const uint64_t sent = sizes.bits_bytes + bits_bytes;
  const uint64_t work = sizes.coefficients * sizeof(int16_t) + sizes.planes_bytes +
                        sizes.pixels_bytes + between_bytes_ + between;
  const bool fits = sent <= kSentMax && work <= kWorkMax && taken_.size() < kSamplesMax;
  if (!fits) return taken_.empty() ? Added::kNo : Added::kNoRoom;
  if (sent > sent_room_) {
    const size_t wanted = std::max<size_t>(sent, 2 * sent_room_);
    const auto memory = queue_->reserve(wanted, 0);
    if (!memory) return Added::kNo;
    memory_ = *memory;
    sent_room_ = wanted;
  }
  if (!plan_.add(request.file, memory_.host + plan_.sizes().bits_bytes)) return Added::kNo;
  taken_.push_back(number);
  add_sample(request, drawn);
  between_bytes_ += between;
  return Added::kYes;
}

void GpuPreparer::add_sample(const PrepareRequest& request, const Draw& drawn) {
  gpu::Sample out{};
  const auto axis = [&](uint32_t from, uint32_t to, uint32_t first, uint32_t count) {
    return add_axis({.in = from,
                     .length = static_cast<double>(from),
                     .out = to,
                     .first = first,
                     .count = count,
                     .cubic = transform_.interpolation == Interpolation::kBicubic});
  };
  const Rect& kept = drawn.kept;
  out.across = axis(drawn.region.width, drawn.resized.width, kept.x, kept.width);
  out.down = axis(drawn.region.height, drawn.resized.height, kept.y, kept.height);
  out.between = between_bytes_;
  const Size size = transform_.size;
  const bool flip = drawn.flip;
  if (drawn.outside) {
    const auto& [image, window, border] = *drawn.outside;
    const Rect part = part_shown(image, window, border.kind);
    out.columns = add_shown(size.width, flip, window.x, image.width, part.x, border.kind);
    out.rows =
        add_shown(size.height, drawn.vertical_flip, window.y, image.height, part.y, border.kind);
    std::ranges::copy(border.fill, out.border);
  } else {
    out.columns = add_shown(size.width, flip, 0, size.width, 0, BorderKind::kConstant);
    out.rows =
        add_shown(size.height, drawn.vertical_flip, 0, size.height, 0, BorderKind::kConstant);
  }
  if (const auto& erased = drawn.erased) {
    out.erased_left = erased->x;
    out.erased_right = erased->x + erased->width;
    out.erased_top = erased->y;
    out.erased_bottom = erased->y + erased->height;
  }
  out.out = reinterpret_cast<uint64_t>(request.out);
  samples_.push_back(out);
}

gpu::Axis GpuPreparer::add_axis(const AxisSpec& spec) {
  gpu::Axis out{.count = spec.count,
                .taps = 1,
                .precision = 1,
                .last = spec.in - 1,
                .starts = numbers_.size(),
                .weights = weights_.size()};
  const bool nearest = transform_.interpolation == Interpolation::kNearest;
  if (nearest || is_copy(spec)) {
    for (uint32_t i = 0; i < spec.count; ++i) {
      const uint32_t output = spec.first + i;
      numbers_.push_back(static_cast<int32_t>(nearest ? nearest_pixel(spec, output) : output));
    }
    weights_.insert(weights_.end(), spec.count, int16_t{2});  // 1, with that precision
    return out;
  }
  axis_.compute(spec);
  out.taps = axis_.taps;
  out.precision = axis_.precision;
  numbers_.insert(numbers_.end(), axis_.start.begin(), axis_.start.end());
  weights_.insert(weights_.end(), axis_.weights.begin(), axis_.weights.end());
  return out;
}

// As append_shown(), the last place first where it is flipped. Where that begins in numbers_.
uint64_t GpuPreparer::add_shown(uint32_t count, bool flip, int64_t begin, uint32_t side,
                                uint32_t first, BorderKind kind) {
  const size_t at = numbers_.size();
  append_shown(begin, count, side, kind, first, &numbers_);
  if (flip) std::reverse(numbers_.begin() + static_cast<ptrdiff_t>(at), numbers_.end());
  return at;
}

// What was added, and begins anew.
void GpuPreparer::run(std::span<PrepareRequest> requests) {
  if (!taken_.empty()) {
    const Status status = run_job();
    for (size_t i = 0; i < taken_.size(); ++i) {
      requests[taken_[i]].status = status;
      if (!status.ok()) continue;
      if (bad_[i] != 0) {
        for_host_.push_back(taken_[i]);
      } else {
        ++made_on_gpu_;
      }
    }
  }
  begin();
}

Status GpuPreparer::run_job() {
  const auto& sizes = plan_.sizes();
  const auto& all_segments = plan_.sorted_segments();
  Places sent(sizes.bits_bytes);
  const auto regions = sent.take<jpeg::gpu::Region>(plan_.regions().size());
  const auto samples = sent.take<gpu::Sample>(samples_.size());
  const auto segments = sent.take<jpeg::gpu::Segment>(all_segments.size());
  const auto lookups = sent.take<jpeg::gpu::HuffmanLookup>(plan_.lookups().size());
  const auto numbers = sent.take<int32_t>(numbers_.size());
  const auto weights = sent.take<int16_t>(weights_.size());
  const auto values = sent.take<uint32_t>(values_.size());
  Places work;
  const auto coefficients = work.take<int16_t>(sizes.coefficients);
  const auto planes = work.take<uint8_t>(sizes.planes_bytes);
  const auto pixels = work.take<uint8_t>(sizes.pixels_bytes);
  const auto between = work.take<uint8_t>(between_bytes_);
  const auto bad = work.take<uint32_t>(taken_.size());
  ASSIGN_OR_RETURN(memory_, queue_->reserve(sent.end(), work.end()));
  sent_room_ = std::max(sent_room_, sent.end());

  const auto send = [&](const auto& place, const auto& from) {
    std::memcpy(place.in(memory_.host), from.data(), from.size() * sizeof(from[0]));
    return place.in(memory_.sent);
  };
  gpu::Run run{};
  run.job = {.count = static_cast<uint32_t>(samples_.size()),
             .segment_count = static_cast<uint32_t>(all_segments.size()),
             .regions = send(regions, plan_.regions()),
             .samples = send(samples, samples_),
             .segments = send(segments, all_segments),
             .lookups = send(lookups, plan_.lookups()),
             .bits = reinterpret_cast<const uint32_t*>(memory_.sent),
             .numbers = send(numbers, numbers_),
             .weights = send(weights, weights_),
             .coefficients = coefficients.in(memory_.work),
             .planes = planes.in(memory_.work),
             .pixels = pixels.in(memory_.work),
             .between = between.in(memory_.work),
             .bad = bad.in(memory_.work),
             .width = transform_.size.width,
             .height = transform_.size.height,
             .planar = options_.layout == Layout::kNchw,
             .number_bytes = static_cast<uint32_t>(dtype_bytes(options_.dtype)),
             .values = send(values, values_),
             .erased = {erased_[0], erased_[1], erased_[2]}};
  run.sent_bytes = sent.end();
  run.coefficients_bytes = sizes.coefficients * sizeof(int16_t);
  count_items(&run);
  RETURN_IF_ERROR(queue_->run(run));
  bad_.resize(taken_.size());
  return queue_->wait(bad_.data());
}

void GpuPreparer::count_items(gpu::Run* run) const {
  for (size_t i = 0; i < samples_.size(); ++i) {
    const jpeg::gpu::Region& region = plan_.regions()[i];
    run->blocks_max = std::max(run->blocks_max, region.needed_blocks());
    run->pixels_max = std::max(run->pixels_max, region.area());
    run->between_max = std::max(run->between_max, region.height * samples_[i].across.count);
  }
}

void GpuPreparer::prepare_on_host(PrepareRequest& request) {
  PrepareRequest on_host{.file = request.file, .random = request.random, .out = made_.data()};
  host_.prepare({&on_host, 1});
  request.status = std::move(on_host.status);
  if (!request.status.ok()) return;
  request.status = queue_->copy(made_, request.out);
}

}  // namespace forebay::image
