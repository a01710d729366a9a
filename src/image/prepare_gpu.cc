#include "image/prepare_gpu.h"

#include <algorithm>

namespace forebay::image {
namespace {

// The limits of a round. The host decodes an image that alone exceeds them.
constexpr size_t kRoundSamples = 1024;
constexpr uint64_t kFirstSentBytes = uint64_t{4} << 20;    // bytes
constexpr uint64_t kRoundSentBytes = uint64_t{64} << 20;   // bytes
constexpr uint64_t kRoundWorkBytes = uint64_t{128} << 20;  // bytes
constexpr uint64_t kAloneWorkBytes = uint64_t{512} << 20;  // bytes, for a single sample

Transform without_erasing(Transform transform) {
  transform.erasing.probability = 0;
  return transform;
}

}  // namespace

GpuPreparer::GpuPreparer(const Transform& transform, const TensorOptions& options,
                         std::shared_ptr<gpu::Device> device, Damaged damaged)
    : transform_(transform),
      sample_bytes_(TensorWriter(options).sample_bytes(transform.size)),
      // Crops and flips are drawn before the erased part, so leaving out erasing does not change
      // them.
      host_(without_erasing(transform), {.dtype = DType::kUint8, .layout = options.layout},
            damaged),
      device_(std::move(device)),
      round_(transform.interpolation, options, transform.erasing.value, damaged) {}

Status GpuPreparer::open() {
  if (queue_ != nullptr) return {};
  ASSIGN_OR_RETURN(queue_, device_->open_queue());
  return {};
}

void GpuPreparer::wait() {
  if (queue_ != nullptr) static_cast<void>(collect());
}

Status GpuPreparer::order_before(void* stream) {
  RETURN_IF_ERROR(failed_);
  return queue_ == nullptr ? Status() : queue_->order_before(stream);
}

bool GpuPreparer::is_done() { return queue_ == nullptr || queue_->is_done(); }

Status GpuPreparer::clear(uint8_t* out) {
  RETURN_IF_ERROR(open());
  return queue_->clear(out, sample_bytes_);
}

void GpuPreparer::prepare(std::span<PrepareRequest> requests, bool on_gpu) {
  begin(requests, on_gpu);
  finish(requests);
}

void GpuPreparer::begin(std::span<PrepareRequest> requests, bool on_gpu, void* after) {
  failed_ = queue_ == nullptr ? open() : collect();
  bad_.clear();
  sent_begin_ = 0;
  begin_round();
  if (failed_.ok() && after != nullptr) failed_ = queue_->begin_after(after);
  if (!failed_.ok()) return;
  for (size_t number = 0; number < requests.size(); ++number) {
    PrepareRequest& request = requests[number];
    const auto begun = begin_one(request);
    request.status = base::status_of(begun);
    if (!begun) {
      if (round_samples() == kRoundSamples) run(requests);
      zeros_.push_back({sample_size(transform_, request), request.out});
      continue;
    }
    Added added = on_gpu ? add(number, request, *begun) : Added::kNo;
    if (added == Added::kNoRoom) {
      run(requests);
      added = add(number, request, *begun);
    }
    if (added != Added::kYes) add_on_host(requests, number, begun->drawn);
  }
  run(requests);
}

void GpuPreparer::finish(std::span<PrepareRequest> requests, void* after) {
  // Waits for all runs, also after an error.
  if (queue_ != nullptr) {
    Status ended = collect();
    if (failed_.ok()) failed_ = std::move(ended);
  }
  begin_round();
  if (!bad_.empty() && after != nullptr && failed_.ok()) failed_ = queue_->begin_after(after);
  for (const size_t number : bad_) {
    const auto begun = begin_one(requests[number]);
    if (begun) add_on_host(requests, number, begun->drawn);
  }
  run(requests);
  if (failed_.ok()) failed_ = collect();
  if (failed_.ok()) return;
  for (PrepareRequest& request : requests) {
    if (request.status.ok()) request.status = failed_;
  }
}

void GpuPreparer::begin_round() {
  round_.begin();
  regions_.clear();
  on_host_.clear();
  on_host_bytes_ = 0;
  zeros_.clear();
}

Result<BegunSample> GpuPreparer::begin_one(const PrepareRequest& request) const {
  if (request.begun != nullptr) return *request.begun;
  if (request.stored == nullptr) return begin_sample(transform_, request);
  const jpeg::Header& header = request.stored->header;
  Encoded source;
  source.format = Format::kJpeg;
  source.size = {header.width, header.height};
  source.jpeg = header;
  ASSIGN_OR_RETURN(const Draw drawn, draw(transform_, source.size, request.random, request.crop));
  return BegunSample{source, drawn};
}

GpuPreparer::Added GpuPreparer::add(size_t number, const PrepareRequest& request,
                                    const BegunSample& begun) {
  const auto& [source, drawn] = begun;
  if (source.format != Format::kJpeg || decode_scale(transform_, source, drawn) != 1 ||
      drawn.cut.interpolation != transform_.interpolation || !drawn.actions.empty() ||
      source.orientation != Orientation{}) {
    return Added::kNo;
  }
  const auto room = request.stored == nullptr ? round_.lay_out(source, drawn)
                                              : round_.lay_out(*request.stored, drawn);
  if (!room) return Added::kNo;
  const bool alone = round_samples() == 0;
  const bool fits = room->sent + on_host_bytes_ <= kRoundSentBytes &&
                    room->work <= (alone ? kAloneWorkBytes : kRoundWorkBytes) &&
                    round_samples() < kRoundSamples;
  if (!fits) return alone ? Added::kNo : Added::kNoRoom;
  if (!reserve(room->sent, 0).ok()) return Added::kNo;
  if (request.stored != nullptr) {
    round_.add(*request.stored, drawn, request.out);
  } else if (!round_.add(source, drawn, here().host, request.out)) {
    return Added::kNo;
  }
  regions_.push_back(number);
  return Added::kYes;
}

void GpuPreparer::add_on_host(std::span<PrepareRequest> requests, size_t number,
                              const Draw& drawn) {
  const uint64_t bytes = gpu::Round::made_bytes(drawn);
  const bool alone = round_samples() == 0;
  if (!alone && (on_host_bytes_ + bytes > kRoundSentBytes || round_samples() == kRoundSamples)) {
    run(requests);
  }
  on_host_.push_back({number, drawn});
  on_host_bytes_ += bytes;
}

// Runs the current round and begins a new one.
void GpuPreparer::run(std::span<PrepareRequest> requests) {
  if (failed_.ok()) failed_ = make_on_host(requests);
  if (failed_.ok()) failed_ = run_round();
  begin_round();
}

Status GpuPreparer::make_on_host(std::span<PrepareRequest> requests) {
  if (on_host_.empty()) return {};
  for (OnHost& one : on_host_) one.at = round_.take_made(one.drawn);
  RETURN_IF_ERROR(reserve(round_.room().sent, 0));
  host_requests_.clear();
  restored_.clear();
  for (const OnHost& one : on_host_) {
    PrepareRequest request = requests[one.number];
    request.out = here().host + one.at;
    RETURN_IF_ERROR(restore(&request));
    host_requests_.push_back(std::move(request));
  }
  host_.prepare(host_requests_);
  for (size_t i = 0; i < on_host_.size(); ++i) {
    const OnHost& one = on_host_[i];
    PrepareRequest& request = requests[one.number];
    request.status = std::move(host_requests_[i].status);
    if (request.status.ok()) {
      round_.add_made(one.drawn, one.at, request.out);
    } else {
      zeros_.push_back({one.drawn.size, request.out});
    }
  }
  return {};
}

Status GpuPreparer::restore(PrepareRequest* request) {
  if (request->stored == nullptr) return {};
  base::ByteVector bits(request->stored->bits_bytes);
  RETURN_IF_ERROR(queue_->fetch(request->stored->bits, bits));
  restored_.push_back(jpeg::gpu::Plan::restore(*request->stored, bits));
  request->file = restored_.back();
  request->stored = nullptr;
  return {};
}

Status GpuPreparer::run_round() {
  for (const Zeros& zeros : zeros_) round_.add_zeros(zeros.size, zeros.out);
  if (round_.samples() == 0) return {};
  const auto room = round_.room();
  RETURN_IF_ERROR(reserve(room.sent, room.work));
  gpu::KernelArguments arguments = round_.write(here());
  arguments.sent_begin = sent_begin_;
  running_.insert(running_.end(), regions_.begin(), regions_.end());
  made_on_gpu_ += regions_.size();
  sent_begin_ += room.sent;
  RETURN_IF_ERROR(queue_->run(arguments));
  // The next round finds room after this one, or waits.
  if (sent_begin_ <= kRoundSentBytes && running_.size() + kRoundSamples <= gpu::Queue::kRegionSlots)
    return {};
  sent_begin_ = 0;
  return collect();
}

// Makes room for these bytes; `sent` counts from the beginning of the round.
Status GpuPreparer::reserve(uint64_t sent, uint64_t work) {
  sent += sent_begin_;
  if (sent <= sent_room_ && work <= work_room_) return {};
  RETURN_IF_ERROR(collect());
  const uint64_t sent_room =
      sent <= sent_room_ ? sent_room_ : std::max({sent, 2 * sent_room_, kFirstSentBytes});
  const uint64_t work_room = work <= work_room_ ? work_room_ : std::max(work, work_room_ * 3 / 2);
  // If that fails, the old memory may be gone.
  sent_room_ = 0;
  work_room_ = 0;
  ASSIGN_OR_RETURN(memory_, queue_->reserve(sent_room, work_room));
  sent_room_ = sent_room;
  work_room_ = work_room;
  return {};
}

// Returns the memory from the beginning of the round on.
gpu::Queue::Memory GpuPreparer::here() const {
  return {memory_.host + sent_begin_, memory_.sent + sent_begin_, memory_.work};
}

// Waits for all runs, and collects the requests that they found malformed.
Status GpuPreparer::collect() {
  flags_.assign(running_.size(), 0);
  RETURN_IF_ERROR(queue_->wait(flags_.data()));
  for (size_t i = 0; i < running_.size(); ++i) {
    if (flags_[i] != 0) bad_.push_back(running_[i]);
  }
  made_on_gpu_ -=
      static_cast<uint64_t>(std::ranges::count_if(flags_, [](auto f) { return f != 0; }));
  running_.clear();
  return {};
}

}  // namespace forebay::image
