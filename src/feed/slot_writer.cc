#include "feed/slot_writer.h"

#include <cstring>

namespace forebay::feed {

SlotWriter::SlotWriter(const FeedOptions& options)
    : images_(options.images),
      files_(options.files),
      transform_(options.transform),
      targets_(options.targets),
      decoder_(options.damaged) {
  if (images_ == Images::kOwnSize) {
    preparer_.emplace(options.transform, options.tensor, options.damaged);
    return;
  }
  if (images_ != Images::kTensor) return;
  if (options.device != nullptr) {
    gpu_.emplace(options.transform, options.tensor, options.device, options.damaged);
    sample_bytes_ = gpu_->sample_bytes();
  } else {
    preparer_.emplace(options.transform, options.tensor, options.damaged);
    sample_bytes_ = preparer_->sample_bytes();
  }
}

Result<image::Encoded> SlotWriter::read_header(const SlotRequest& request) const {
  return image::read_header(request.file, transform_.oriented);
}

Result<image::Draw> SlotWriter::draw(const SlotRequest& request, const image::Encoded& image,
                                     image::Objects* objects) const {
  if (targets_ != nullptr) {
    ASSIGN_OR_RETURN(*objects, targets_->shown_objects(request.sample, image));
  }
  return image::draw(transform_, image.size, request.random, {},
                     targets_ != nullptr ? objects : nullptr);
}

uint64_t SlotWriter::bytes_of(const SlotRequest& request) const {
  uint64_t bytes = files_ ? request.file.size() : 0;
  if (images_ != Images::kWhole && images_ != Images::kOwnSize && targets_ == nullptr) {
    return bytes;
  }
  const auto source = read_header(request);
  if (!source) return bytes;
  if (images_ == Images::kWhole) {
    return bytes + uint64_t{source->size.width} * source->size.height * 3;
  }
  image::Objects objects;
  const auto drawn = draw(request, *source, &objects);
  if (!drawn) return bytes;
  if (images_ == Images::kOwnSize) bytes += preparer_->sample_bytes(drawn->size);
  if (targets_ == nullptr) return bytes;
  const uint64_t pixels = uint64_t{drawn->size.width} * drawn->size.height;
  const uint64_t masks = targets_->outlines ? targets_->count(request.sample) : 0;
  const uint64_t maps = targets_->maps != nullptr ? sizeof(uint16_t) : 0;
  return bytes + pixels * (masks + maps);
}

void SlotWriter::write(std::span<SlotRequest> requests, bool on_gpu, const io::ReadOptions& read) {
  switch (images_) {
    case Images::kNone:
      for (SlotRequest& request : requests) request.status = {};
      break;
    case Images::kTensor:
    case Images::kOwnSize:
      write_tensors(requests, on_gpu);
      break;
    case Images::kWhole:
      write_whole(requests);
      break;
  }
  for (SlotRequest& request : requests) {
    if (files_) request.slot.file->assign(request.file.begin(), request.file.end());
    if (targets_ != nullptr && request.status.ok()) request.status = write_targets(request, read);
  }
}

void SlotWriter::write_tensors(std::span<SlotRequest> requests, bool on_gpu) {
  prepares_.clear();
  objects_.clear();
  objects_.reserve(requests.size());  // prepares_ point to them
  for (const SlotRequest& request : requests) {
    image::PrepareRequest& to = prepares_.emplace_back(
        image::PrepareRequest{request.file, request.random, request.slot.image});
    if (images_ == Images::kOwnSize) to.own = request.slot.whole;
    if (targets_ != nullptr) {
      to.objects = &objects_.emplace_back(objects_to_draw_by(request));
    }
  }
  gpu_ ? gpu_->prepare(prepares_, on_gpu) : preparer_->prepare(prepares_);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].status = std::move(prepares_[i].status);
}

// What is wrong with the file or the objects is told where the sample is made of them.
image::Objects SlotWriter::objects_to_draw_by(const SlotRequest& request) const {
  if (!transform_.oriented) return targets_->objects(request.sample);
  const auto source = read_header(request);
  if (!source) return {};
  return targets_->shown_objects(request.sample, *source).value_or(image::Objects{});
}

void SlotWriter::write_whole(std::span<SlotRequest> requests) {
  decodes_.clear();
  numbers_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    const auto source = read_header(requests[number]);
    requests[number].status = base::status_of(source);
    if (!source) continue;
    decodes_.push_back({*source, {0, 0, source->size.width, source->size.height}});
    numbers_.push_back(number);
  }
  decoder_.decode(decodes_, [&](size_t decode, Status status, base::Rows& rows) {
    SlotRequest& request = requests[numbers_[decode]];
    request.status = std::move(status);
    if (!request.status.ok()) return;
    base::Pixels pixels;
    rows.move_to(&pixels);
    pixels.rgb.shrink_to_fit();  // the memory may have been made for a larger image
    *request.slot.whole = {{pixels.width, pixels.height}, std::move(pixels.rgb)};
  });
}

// Moves a sample's targets as its image was moved.
Status SlotWriter::write_targets(const SlotRequest& request, const io::ReadOptions& read) {
  SampleTargets& out = *request.slot.targets;
  out.first_object = targets_->first.empty() ? 0 : targets_->first[request.sample];
  ASSIGN_OR_RETURN(const image::Encoded source, read_header(request));
  ASSIGN_OR_RETURN(const image::Draw drawn, draw(request, source, &out.objects));
  if (targets_->outlines) {
    ASSIGN_OR_RETURN(const image::Orientation own, targets_->orientation(request.sample, source));
    ASSIGN_OR_RETURN(const auto outlines,
                     targets_->outlines_of(request.sample, turned(source.size, own)));
    masks_.make_objects(outlines, source.size, own, drawn, &out.masks);
  }
  if (targets_->maps == nullptr) return {};
  return write_map(request, source, drawn, read).at("the sample's mask");
}

Status SlotWriter::write_map(const SlotRequest& request, const image::Encoded& image,
                             const image::Draw& drawn, const io::ReadOptions& read) {
  base::Bytes map = request.map;
  if (map.empty()) {
    ASSIGN_OR_RETURN(const store::Location place, targets_->map_at(request.sample, read));
    RETURN_IF_ERROR(targets_->maps->read_file(place, &map_, read));
    map = map_;
  }
  return masks_.make_labels(map, image, drawn, &request.slot.targets->labels);
}

Status SlotWriter::clear(const Slot& slot, uint64_t sample, uint64_t drawn_for) {
  if (slot.image != nullptr && gpu_) RETURN_IF_ERROR(gpu_->clear(slot.image));
  if (slot.image != nullptr && !gpu_) std::memset(slot.image, 0, sample_bytes_);
  if (slot.whole != nullptr) *slot.whole = {};
  if (slot.file != nullptr) slot.file->clear();
  if (slot.targets != nullptr) *slot.targets = {};
  *slot.label = -1;
  *slot.sample = sample;
  *slot.drawn_for = drawn_for;
  *slot.valid = 0;
  return {};
}

}  // namespace forebay::feed
