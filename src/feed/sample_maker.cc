#include "feed/sample_maker.h"

#include <algorithm>
#include <new>

#include "base/utf8.h"

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

// The `next`-th position to take a sample from instead: the others of the lane, round its end, then
// the lanes behind it. `next` from 1, below the order's size.
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

// What it gives, and kNoMemory when there is none.
template <class Function>
Status guarded(Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "feed: no memory to prepare a sample");
  }
}

}  // namespace

SampleMaker::SampleMaker(const io::FileSystem& fs, const store::Dataset& dataset,
                         const FeedOptions& options, size_t tasks_max, Trace& trace,
                         const Trace::Track& track)
    : fs_(fs),
      dataset_(dataset),
      options_(options),
      trace_(trace),
      track_(track),
      writer_(options) {
  begun_.reserve(tasks_max);
  requests_.reserve(tasks_max);
}

void SampleMaker::make(const EpochPlan& plan, Window& window, std::span<Task> tasks, bool on_gpu,
                       Room& room) {
  const Order& order = plan.order;
  bool good = true;
  for (Task& task : tasks) {
    const auto lane = static_cast<uint32_t>(task.position % order.lanes());
    const uint64_t index = task.position / order.lanes();
    const size_t number = order.group_of(lane, index);
    Load& load = *plan.load_of_group[number];
    // There may be no room for it before the groups in use here are gone.
    if (!load.loaded) good = finish(plan, window, on_gpu, room) && good;
    Status status = wait(window, load);
    if (status.code() == Code::kCancelled) {
      task.status = std::move(status);
      break;
    }
    if (good && status.ok()) {
      const uint64_t at = index - order.groups()[number].first_index;
      status = guarded([&] { return begin(plan, load, at, &task); });
      if (status.ok()) continue;
    }
    if (good) task.status = std::move(status);
    good = false;
    window.release(load);
  }
  finish(plan, window, on_gpu, room, true);
}

Status SampleMaker::wait(Window& window, const Load& load) const {
  if (load.loaded) return window.wait(load);
  const Trace::Span span(trace_, "wait for reading", track_, "group", load.group);
  return window.wait(load);
}

// `at`: in the group. On an error nothing has begun.
Status SampleMaker::begin(const EpochPlan& plan, Load& load, uint64_t at, Task* task) {
  const Group& group = plan.order.groups()[load.group];
  const Order::Place place = plan.order.place(group, load.permutation, at);
  const store::Location location = dataset_.location(place.sample);
  Begun begun{.task = task, .load = &load, .sample = place.sample, .label = location.label};
  auto file = find(place, location, &begun);
  if (file) {
    requests_.push_back({*file, random_of(plan, place.sample), task->slot});
  } else {
    begun.unusable = std::move(file.error());
  }
  begun_.push_back(std::move(begun));
  return {};
}

// Its bytes, checked.
Result<Bytes> SampleMaker::find(const Order::Place& place, const store::Location& location,
                                Begun* begun) {
  const PartBytes& part = begun->load->parts[place.part];
  const bool here = part.data != nullptr && location.offset >= part.offset &&
                    base::in_bounds(location.offset - part.offset, location.length, part.length);
  if (!here) return read(location, &begun->file);
  const Bytes file(part.data + (location.offset - part.offset), location.length);
  RETURN_IF_ERROR(store::check_file(file, location));
  return file;
}

Result<Bytes> SampleMaker::read(const store::Location& location, base::ByteVector* file) {
  RETURN_IF_ERROR(store::read_file_at(fs_, dataset_, location, file));
  bytes_read_ += location.length;
  return Bytes(*file);
}

// Waits for room for all that has begun.
Status SampleMaker::reserve(Room& room) {
  uint64_t bytes = 0;
  for (SlotRequest& request : requests_) {
    request.bytes = writer_.bytes_of(request.file);
    bytes += request.bytes;
  }
  return bytes == 0 ? Status() : room.reserve(bytes);
}

// `last`: nothing else of the block will need room. False when a task failed. No group is in use
// any more afterwards.
bool SampleMaker::finish(const EpochPlan& plan, Window& window, bool on_gpu, Room& room,
                         bool last) {
  const Status prepared = guarded([&] {
    Status reserved = reserve(room);
    if (last) room.end();
    if (reserved.ok()) writer_.write(requests_, on_gpu);
    return reserved;
  });
  bool good = true;
  auto request = requests_.begin();
  for (Begun& begun : begun_) window.release(*begun.load);
  for (Begun& begun : begun_) {
    Task& task = *begun.task;
    Status status = begun.unusable;
    if (status.ok()) {
      begun.bytes = request->bytes;
      status = std::move((request++)->status);
    }
    task.status =
        !prepared.ok() ? prepared : guarded([&] { return settle(plan, begun, status, room); });
    good &= task.status.ok();
  }
  begun_.clear();
  requests_.clear();
  return good;
}

// `status`: of the sample.
Status SampleMaker::settle(const EpochPlan& plan, const Begun& begun, Status status, Room& room) {
  const Slot& slot = begun.task->slot;
  if (status.ok()) {
    *slot.label = begun.label;
    *slot.sample = begun.sample;
    *slot.valid = 1;
    return {};
  }
  if (!is_bad_sample(status.code())) return status;
  begun.task->bad = describe(begun.sample, status);
  if (options_.replace_bad) return replace(plan, begun, room);
  return leave_empty(slot, begun.sample);
}

// The next good sample, prepared as the position's own would have been. More tries than samples may
// be bad are of no use: as many bad ones stop the run anyway.
Status SampleMaker::replace(const EpochPlan& plan, const Begun& begun, Room& room) {
  const Order& order = plan.order;
  const Task& task = *begun.task;
  const uint64_t tries =
      std::min(order.size() - 1, std::max<uint64_t>(1, options_.bad_samples_max));
  for (uint64_t next = 1; next <= tries; ++next) {
    // Its group may not be this rank's, or be gone already.
    const uint64_t other = order.sample_at(position_instead(order, task.position, next));
    const store::Location location = dataset_.location(other);
    const auto file = read(location, &file_);
    SlotRequest request{.file = file.value_or(Bytes()),
                        .random = random_of(plan, begun.sample),
                        .slot = task.slot,
                        .bytes = file ? writer_.bytes_of(*file) : 0,
                        .status = base::status_of(file)};
    if (file) writer_.write({&request, 1}, false);
    const Status& status = request.status;
    if (!status.ok() && is_bad_sample(status.code())) continue;
    if (!status.ok()) return status;
    // It cannot wait for its turn, as blocks after this one have had theirs.
    if (request.bytes > begun.bytes) room.add(request.bytes - begun.bytes);
    *task.slot.label = location.label;
    *task.slot.sample = other;
    *task.slot.valid = 1;
    return {};
  }
  return fail(Code::kCorrupt,
              "feed: {} samples in a row cannot be used (epoch {}, position {}), the first of them "
              "{}: {}; see `forebay verify`",
              tries + 1, plan.epoch, task.position, task.bad->key, task.bad->reason);
}

Random SampleMaker::random_of(const EpochPlan& plan, uint64_t sample) const {
  const uint64_t drawn_for = options_.drawn_for.empty() ? sample : options_.drawn_for[sample];
  return {options_.seed, Purpose::kAugment, plan.epoch, drawn_for};
}

BadSample SampleMaker::describe(uint64_t sample, const Status& reason) const {
  const uint32_t chunk = dataset_.chunk_of(sample);
  const auto key = dataset_.key(sample);
  return {.sample = sample,
          .chunk = base::to_utf8(dataset_.chunk_name(chunk)),
          .key = key ? base::to_utf8(*key)
                     : fmt::format("(sample {}, whose key cannot be read either)", sample),
          .reason = reason.message()};
}

}  // namespace forebay::feed
