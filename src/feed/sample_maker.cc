#include "feed/sample_maker.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"

namespace forebay::feed {

using base::Bytes;
using base::Code;
using base::fail;
using base::Purpose;
using base::Random;

namespace {

// What is wrong with this one sample, as opposed to the disk, the machine or the options.
bool is_bad_sample(Code code) {
  return code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kTooBig ||
         code == Code::kInvalid;
}

}  // namespace

SampleMaker::SampleMaker(const io::FileSystem& fs, const store::Dataset& dataset,
                         const FeedOptions& options)
    : fs_(fs),
      dataset_(dataset),
      options_(options),
      preparer_(options.transform, options.tensor),
      random_(options.seed, Purpose::kAugment) {}

Status SampleMaker::make(const EpochPlan& plan, Window& window, uint64_t position, const Slot& slot,
                         std::optional<BadSample>* bad) {
  const Order& order = plan.order;
  const auto lane = static_cast<uint32_t>(position % order.lanes());
  const uint64_t index = position / order.lanes();
  const size_t number = order.group_of(lane, index);
  const Group& group = order.groups()[number];
  Load& load = *plan.load_of_group[number];
  RETURN_IF_ERROR(window.wait(load));
  const Order::Place place = order.place(group, load.permutation, index - group.first_index);
  random_ = Random(options_.seed, Purpose::kAugment, plan.epoch, place.sample);
  const Status status = make_own(load, place, slot);
  window.release(load);
  if (status.ok()) return {};
  if (!is_bad_sample(status.code())) return status;
  *bad = describe(place.sample, status);
  if (options_.shuffle) return replace(plan, position, slot);
  leave_empty(slot, place.sample);
  return {};
}

void SampleMaker::leave_empty(const Slot& slot, uint64_t sample) const {
  std::memset(slot.image, 0, preparer_.sample_bytes());
  *slot.label = -1;
  *slot.sample = sample;
  *slot.valid = 0;
}

Status SampleMaker::make_own(const Load& load, const Order::Place& place, const Slot& slot) {
  const store::Location location = dataset_.location(place.sample);
  const PartBytes& part = load.parts[place.part];
  if (part.data != nullptr && location.offset >= part.offset &&
      base::in_bounds(location.offset - part.offset, location.length, part.length)) {
    const Bytes file(part.data + (location.offset - part.offset), location.length);
    return prepare(location, file, place.sample, slot);
  }
  ASSIGN_OR_RETURN(const Bytes file, read(location));
  return prepare(location, file, place.sample, slot);
}

Status SampleMaker::prepare(const store::Location& location, Bytes file, uint64_t sample,
                            const Slot& slot) {
  if (base::crc32c(file) != location.crc32c) {
    return fail(Code::kCorrupt, "its bytes do not have the checksum that was stored for them");
  }
  RETURN_IF_ERROR(preparer_.prepare(file, random_, slot.image));
  *slot.label = location.label;
  *slot.sample = sample;
  *slot.valid = 1;
  return {};
}

Result<Bytes> SampleMaker::read(const store::Location& location) {
  if (location.length > base::kImageBytesMax) {
    return fail(Code::kTooBig, "{} are more than an image may have",
                base::human_bytes(location.length));
  }
  ASSIGN_OR_RETURN(const auto file, fs_.open(dataset_.chunk_path(location.chunk)));
  file_.resize(location.length);
  RETURN_IF_ERROR(file->read(location.offset, file_));
  bytes_read_ += location.length;
  return Bytes(file_);
}

// The next good sample of the lane, prepared as the position's own would have been. More tries
// than samples may be bad are of no use: as many bad ones stop the run anyway.
Status SampleMaker::replace(const EpochPlan& plan, uint64_t position, const Slot& slot) {
  const Order& order = plan.order;
  const auto lane = static_cast<uint32_t>(position % order.lanes());
  const uint64_t index = position / order.lanes();
  const uint64_t size = order.lane_size(lane);
  const uint64_t tries = std::min(size - 1, std::max<uint64_t>(1, options_.bad_samples_max));
  for (uint64_t next = 1; next <= tries; ++next) {
    // Its group may not be this rank's, or be gone already.
    const uint64_t sample = order.sample_at((index + next) % size * order.lanes() + lane);
    const store::Location location = dataset_.location(sample);
    const auto file = read(location);
    const Status status = file ? prepare(location, *file, sample, slot) : file.error();
    if (status.ok() || !is_bad_sample(status.code())) return status;
  }
  return fail(Code::kCorrupt,
              "feed: {} samples in a row cannot be used (epoch {}, position {}, lane {}); see "
              "`forebay verify`",
              tries + 1, plan.epoch, position, lane);
}

BadSample SampleMaker::describe(uint64_t sample, const Status& reason) const {
  const uint32_t chunk = dataset_.chunk_of(sample);
  const auto key = dataset_.key(sample);
  return {.sample = sample,
          .chunk = base::to_hex(dataset_.chunk(chunk).id),
          .key = key ? *key : "(its key cannot be read either)",
          .reason = reason.message()};
}

}  // namespace forebay::feed
