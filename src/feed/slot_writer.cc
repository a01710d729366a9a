#include "feed/slot_writer.h"

#include <cstring>

namespace forebay::feed {

SlotWriter::SlotWriter(const FeedOptions& options)
    : images_(options.images), files_(options.files), decoder_(options.damaged) {
  if (images_ != Images::kTensor) return;
  if (options.device != nullptr) {
    gpu_.emplace(options.transform, options.tensor, options.device, options.damaged);
    sample_bytes_ = gpu_->sample_bytes();
  } else {
    preparer_.emplace(options.transform, options.tensor, options.damaged);
    sample_bytes_ = preparer_->sample_bytes();
  }
}

uint64_t SlotWriter::bytes_of(base::Bytes file) const {
  uint64_t bytes = files_ ? file.size() : 0;
  if (images_ != Images::kWhole) return bytes;
  if (const auto source = image::read_header(file)) {
    bytes += uint64_t{source->size.width} * source->size.height * 3;
  }
  return bytes;
}

void SlotWriter::write(std::span<SlotRequest> requests, bool on_gpu) {
  switch (images_) {
    case Images::kNone:
      for (SlotRequest& request : requests) request.status = {};
      break;
    case Images::kTensor:
      write_tensors(requests, on_gpu);
      break;
    case Images::kWhole:
      write_whole(requests);
      break;
  }
  if (!files_) return;
  for (const SlotRequest& request : requests) {
    request.slot.file->assign(request.file.begin(), request.file.end());
  }
}

void SlotWriter::write_tensors(std::span<SlotRequest> requests, bool on_gpu) {
  prepares_.clear();
  for (const SlotRequest& request : requests) {
    prepares_.push_back({request.file, request.random, request.slot.image});
  }
  gpu_ ? gpu_->prepare(prepares_, on_gpu) : preparer_->prepare(prepares_);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].status = std::move(prepares_[i].status);
}

void SlotWriter::write_whole(std::span<SlotRequest> requests) {
  decodes_.clear();
  numbers_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    const auto source = image::read_header(requests[number].file);
    requests[number].status = base::status_of(source);
    if (!source) continue;
    decodes_.push_back({*source, {0, 0, source->size.width, source->size.height}});
    numbers_.push_back(number);
  }
  decoder_.decode(decodes_, [&](size_t decode, Status status, base::Rows& rows) {
    SlotRequest& request = requests[numbers_[decode]];
    request.status = std::move(status);
    if (!request.status.ok()) return;
    rows.move_to(request.slot.whole);
    request.slot.whole->rgb.shrink_to_fit();  // the memory may have been made for a larger image
  });
}

Status SlotWriter::clear(const Slot& slot, uint64_t sample, uint64_t drawn_for) {
  if (slot.image != nullptr && gpu_) RETURN_IF_ERROR(gpu_->clear(slot.image));
  if (slot.image != nullptr && !gpu_) std::memset(slot.image, 0, sample_bytes_);
  if (slot.whole != nullptr) slot.whole->reset(0, 0);
  if (slot.file != nullptr) slot.file->clear();
  *slot.label = -1;
  *slot.sample = sample;
  *slot.drawn_for = drawn_for;
  *slot.valid = 0;
  return {};
}

}  // namespace forebay::feed
