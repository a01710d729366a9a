#include "feed/make/sample_maker.h"

#include <algorithm>
#include <new>

#include "base/utf8.h"

namespace forebay::feed {

using base::Bytes;
using base::Code;
using base::fail;

namespace {

// In each thread, files that were composed or read one by one and are not prepared yet take at most
// this much memory and one file more. memory_bytes_max does not count them.
constexpr uint64_t kBegunBytes = 16'000'000;

// Whether an error concerns only this sample, and not the disk, the network, the machine or the
// options.
bool is_bad_sample(Code code) {
  return code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kTooBig ||
         code == Code::kInvalid;
}

// Returns the `next`-th position to try for a replacement: first the lane's positions after
// `position`, then the lane's positions from its beginning, then the positions of the following
// lanes. `next` is at least 1 and below the order's size.
uint64_t position_instead(const Order& order, uint64_t position, uint64_t next) {
  const uint64_t lanes = order.lanes();
  const auto lane = static_cast<uint32_t>(position % lanes);
  const uint64_t own = order.lane_size(lane);
  if (next < own) return (position / lanes + next) % own * lanes + lane;
  next -= own;
  for (uint32_t other = (lane + 1) % order.lanes();; other = (other + 1) % order.lanes()) {
    const uint64_t size = order.lane_size(other);
    if (next < size) return next * lanes + other;
    next -= size;
  }
}

// Returns the result of `function`; kNoMemory if it throws std::bad_alloc.
template <class Function>
Status guarded(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "feed: no memory to prepare a sample");
  }
}

}  // namespace

SampleMaker::SampleMaker(const store::Dataset& dataset, const FeedOptions& options,
                         size_t tasks_max, Trace& trace, const Trace::Track& track)
    : dataset_(dataset), options_(options), trace_(trace), track_(track), writer_(options) {
  begun_.reserve(tasks_max);
  requests_.reserve(tasks_max);
}

void SampleMaker::make(EpochData& epoch, ReadingStage& reading, std::span<Task> tasks, bool on_gpu,
                       Reservation& room) {
  const Order& order = *epoch.plan->order;
  read_options_ = reading.read_options();
  bool good = true;
  for (Task& task : tasks) {
    const auto lane = static_cast<uint32_t>(task.position % order.lanes());
    const uint64_t index = task.position / order.lanes();
    const size_t number = order.group_of(lane, index);
    const uint64_t at = index - order.groups()[number].first_index;
    const size_t load = epoch.plan->load_of(number, at);
    // Releases the groups in use here before it waits, because the next group may need their
    // memory.
    if (!epoch.loads[load].loaded) good = finish(epoch, reading, on_gpu, room) && good;
    Status status = wait(reading, epoch, load);
    if (status.code() == Code::kCancelled) {
      task.status = std::move(status);
      break;
    }
    if (good && status.ok()) {
      status = guarded([&] { return begin(epoch, load, at, &task); });
      if (status.ok() && begun_bytes_ > kBegunBytes) good = finish(epoch, reading, on_gpu, room);
      if (status.ok()) continue;
    }
    if (good) task.status = std::move(status);
    good = false;
    reading.release(epoch, load);
  }
  finish(epoch, reading, on_gpu, room, true);
}

Status SampleMaker::wait(ReadingStage& reading, const EpochData& epoch, size_t load) const {
  const LoadedGroup& group = epoch.loads[load];
  if (group.loaded) return reading.wait(group);
  const Trace::Span span(trace_, "wait for reading", track_, "group",
                         epoch.plan->loads[load].group);
  return reading.wait(group);
}

// `at` counts from the group's beginning. After an error nothing has begun.
Status SampleMaker::begin(const EpochData& epoch, size_t load, uint64_t at, Task* task) {
  const EpochPlan& plan = *epoch.plan;
  const Load& of = plan.loads[load];
  const LoadedGroup& data = epoch.loads[load];
  const SlicedSample* sliced =
      of.is_slice ? &data.slice->samples[(at - of.first) / of.stride] : nullptr;
  const Order::GroupSample place =
      sliced != nullptr ? Order::GroupSample{.stretch = 0, .sample = sliced->sample}
                        : plan.order->place(plan.order->groups()[of.group], data.permutation, at);
  const store::Location location = dataset_.location(place.sample);
  Begun begun{.task = task,
              .load = load,
              .sample = place.sample,
              .drawn_for = plan.order->drawn_for(task->position, place.sample),
              .label = location.label};
  auto file = sliced != nullptr ? find(data, *sliced, location, &begun)
                                : find(data.stretches[place.stretch], location, &begun);
  if (file) {
    SlotRequest& request = requests_.emplace_back(
        SlotRequest{*file, begun.sample, random_of(plan, begun), task->slot});
    const std::optional<size_t> with_map =
        sliced != nullptr ? sliced->map_run : std::optional<size_t>(place.stretch);
    if (with_map) request.map = find_map(data.stretches[*with_map], begun.sample, location);
  } else {
    begun.unusable = std::move(file.error());
  }
  begun_bytes_ += begun.file.size();
  begun_.push_back(std::move(begun));
  return {};
}

// Returns the sample's bytes, checked.
Result<Bytes> SampleMaker::find(const StretchBytes& bytes, const store::Location& location,
                                Begun* begun) {
  const FileRange& range = bytes.range;
  const bool here = bytes.loaded() != nullptr && location.offset >= range.offset &&
                    base::in_bounds(location.offset - range.offset, location.length, range.length);
  if (!here) return read(location, &begun->file);
  return checked({bytes.loaded() + (location.offset - range.offset), location.length}, location,
                 begun);
}

// Returns the bytes of a sample of a slice, checked: its whole file, or a file composed of the
// region that the sample needs.
Result<Bytes> SampleMaker::find(const LoadedGroup& data, const SlicedSample& sample,
                                const store::Location& location, Begun* begun) {
  parts_.clear();
  for (const SlicedSample::RunRange& place : sample.places) {
    const StretchBytes& run = data.stretches[place.run];
    if (run.loaded() == nullptr) return read(location, &begun->file);
    parts_.emplace_back(run.loaded() + (place.range.offset - run.range.offset), place.range.length);
  }
  if (parts_.empty()) return read(location, &begun->file);
  if (sample.image == nullptr) return checked(parts_.front(), location, begun);
  auto file = compose(sample, parts_);
  if (!file) return read(location, &begun->file);
  begun->file = std::move(*file);
  return Bytes(begun->file);
}

// Returns the sample's map of labels, checked, if it lies among these bytes of the image's chunk.
Bytes SampleMaker::find_map(const StretchBytes& bytes, uint64_t sample,
                            const store::Location& image) {
  if (options_.targets == nullptr || bytes.loaded() == nullptr) return {};
  const auto map = options_.targets->map_beside(dataset_, image.chunk, sample, read_options_);
  if (!map || map->offset < bytes.range.offset) return {};
  const uint64_t offset = map->offset - bytes.range.offset;
  if (!base::in_bounds(offset, map->length, bytes.range.length)) return {};
  const Bytes file{bytes.loaded() + offset, map->length};
  return store::check_file(file, *map).ok() ? file : Bytes();
}

// Returns the file if it is undamaged. Otherwise reads the sample again, because the first copy may
// have been damaged on its way: the sample is bad only if the second copy is damaged, too.
Result<Bytes> SampleMaker::checked(Bytes file, const store::Location& location, Begun* begun) {
  const Status status = store::check_file(file, location);
  if (status.ok()) return file;
  if (status.code() != Code::kCorrupt) return tl::unexpected(status);
  return read(location, &begun->file);
}

Result<Bytes> SampleMaker::read(const store::Location& location, base::ByteVector* file) {
  ++reads_;
  RETURN_IF_ERROR(dataset_.read_file(location, file, read_options_));
  bytes_read_ += location.length;
  return Bytes(*file);
}

// Reserves room for all tasks that have begun.
Status SampleMaker::reserve(Reservation& room) {
  uint64_t bytes = 0;
  for (SlotRequest& request : requests_) {
    writer_.begin(&request);
    bytes += request.bytes;
  }
  return bytes == 0 ? Status() : room.reserve(bytes);
}

// Finishes the tasks that have begun and releases their groups. `last`: the block will need no more
// room. Returns false when a task failed.
bool SampleMaker::finish(EpochData& epoch, ReadingStage& reading, bool on_gpu, Reservation& room,
                         bool last) {
  const Status prepared = guarded([&] {
    Status reserved = reserve(room);
    if (last) room.end();
    if (reserved.ok()) writer_.write(requests_, on_gpu, read_options_);
    return reserved;
  });
  bool good = true;
  auto request = requests_.begin();
  for (const Begun& begun : begun_) reading.release(epoch, begun.load);
  for (Begun& begun : begun_) {
    Task& task = *begun.task;
    Status status = begun.unusable;
    if (status.ok()) {
      begun.bytes = request->bytes;
      status = std::move((request++)->status);
    }
    task.status = !prepared.ok()
                      ? prepared
                      : guarded([&] { return settle(*epoch.plan, begun, status, room); });
    good &= task.status.ok();
  }
  begun_.clear();
  begun_bytes_ = 0;
  requests_.clear();
  return good;
}

// Completes a task after its sample was prepared with the result `status`. A bad sample is replaced
// by another one, or its slot is left empty.
Status SampleMaker::settle(const EpochPlan& plan, const Begun& begun, Status status,
                           Reservation& room) {
  const Slot& slot = begun.task->slot;
  if (status.ok()) {
    *slot.label = begun.label;
    *slot.sample = begun.sample;
    *slot.drawn_for = begun.drawn_for;
    *slot.valid = 1;
    return {};
  }
  if (!is_bad_sample(status.code())) return status;
  begun.task->bad = describe(begun.sample, status);
  if (options_.replace_bad) return replace(plan, begun, room);
  return leave_empty(slot, begun.sample, begun.drawn_for);
}

// Prepares the next good sample, with the draws of the position's own sample. Tries at most
// bad_samples_max samples, because the run stops after that number of bad samples anyway.
Status SampleMaker::replace(const EpochPlan& plan, const Begun& begun, Reservation& room) {
  const Order& order = *plan.order;
  const Task& task = *begun.task;
  const uint64_t tries =
      std::min(order.size() - 1, std::max<uint64_t>(1, options_.bad_samples_max));
  for (uint64_t next = 1; next <= tries; ++next) {
    // Reads the sample alone: its group may belong to another rank, or may have left memory.
    const uint64_t position = position_instead(order, task.position, next);
    const uint64_t other = order.sample_at(position);
    const uint32_t chunk = dataset_.chunk_of(other);
    RETURN_IF_ERROR(dataset_.load_locations({&chunk, 1}, read_options_));
    const store::Location location = dataset_.location(other);
    const auto file = read(location, &file_);
    SlotRequest request{.file = file.value_or(Bytes()),
                        .sample = other,
                        .random = random_of(plan, begun),
                        .slot = task.slot,
                        .status = base::status_of(file)};
    if (file) {
      writer_.begin(&request);
      writer_.write({&request, 1}, false, read_options_);
    }
    const Status& status = request.status;
    if (!status.ok() && is_bad_sample(status.code())) continue;
    if (!status.ok()) return status;
    // It cannot wait for its turn, because later blocks may have reserved already.
    if (request.bytes > begun.bytes) room.add(request.bytes - begun.bytes);
    *task.slot.label = location.label;
    *task.slot.sample = other;
    *task.slot.drawn_for = order.drawn_for(position, other);
    *task.slot.valid = 1;
    return {};
  }
  return fail(Code::kCorrupt,
              "feed: {} samples in a row cannot be used (epoch {}, position {}), the first of them "
              "{}: {}; see `forebay verify`",
              tries + 1, plan.epoch, task.position, task.bad->key, task.bad->reason);
}

BadSample SampleMaker::describe(uint64_t sample, const Status& reason) const {
  const uint32_t chunk = dataset_.chunk_of(sample);
  const auto key = dataset_.key(sample, read_options_);
  return {.sample = sample,
          .chunk = base::to_utf8(dataset_.chunk_name(chunk)),
          .key = key ? base::to_utf8(*key)
                     : fmt::format("(sample {}, whose key cannot be read either)", sample),
          .reason = reason.message()};
}

}  // namespace forebay::feed
