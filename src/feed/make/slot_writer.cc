#include "feed/make/slot_writer.h"

#include <cstring>

namespace forebay::feed {
namespace {

// About how many bytes of further images are read before the images are made together.
constexpr uint64_t kFurtherBytes = 4'000'000;

}  // namespace

SlotWriter::SlotWriter(const FeedOptions& options)
    : images_(options.images),
      files_(options.files),
      transform_(options.transform),
      targets_(options.targets),
      further_(options.further),
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

void SlotWriter::begin(SlotRequest* request) const {
  request->bytes = files_ ? request->file.size() : 0;
  const bool is_needed = images_ == Images::kWhole || images_ == Images::kOwnSize ||
                         targets_ != nullptr || !further_.empty();
  if (!is_needed) return;
  auto begun = begun_sample(request);
  request->status = base::status_of(begun);
  if (!begun) return;
  request->begun = std::move(*begun);
  request->bytes += bytes_of(*request);
}

Result<image::BegunSample> SlotWriter::begun_sample(SlotRequest* request) const {
  ASSIGN_OR_RETURN(const image::Encoded source,
                   image::read_header(request->file, transform_.oriented));
  if (images_ == Images::kWhole) return image::BegunSample{source, {}};
  image::Annotations* objects = nullptr;
  if (targets_ != nullptr) {
    objects = &request->objects;
    ASSIGN_OR_RETURN(*objects, targets_->shown_objects(request->sample, source));
  }
  ASSIGN_OR_RETURN(image::Draw drawn,
                   image::draw(transform_, source.size, request->random, {}, objects));
  return image::BegunSample{source, std::move(drawn)};
}

uint64_t SlotWriter::bytes_of(const SlotRequest& request) const {
  const auto& [source, drawn] = *request.begun;
  const uint64_t images = 1 + further_.size();
  if (images_ == Images::kWhole) return images * source.size.width * source.size.height * 3;
  uint64_t bytes = 0;
  if (images_ == Images::kOwnSize) bytes += images * preparer_->sample_bytes(drawn.size);
  if (targets_ == nullptr) return bytes;
  const uint64_t pixels = uint64_t{drawn.size.width} * drawn.size.height;
  const uint64_t masks = targets_->outlines ? targets_->count(request.sample) : 0;
  const uint64_t maps = targets_->maps != nullptr ? sizeof(uint16_t) : 0;
  return bytes + pixels * (masks + maps);
}

void SlotWriter::write(std::span<SlotRequest> requests, bool on_gpu, const io::ReadOptions& read) {
  write_images(requests, on_gpu);
  for (size_t number = 0; number < further_.size(); ++number) {
    write_further(number, requests, on_gpu, read);
  }
  for (SlotRequest& request : requests) {
    if (files_) request.slot.file->assign(request.file.begin(), request.file.end());
    if (targets_ != nullptr && request.status.ok()) request.status = write_targets(request, read);
  }
}

void SlotWriter::write_images(std::span<SlotRequest> requests, bool on_gpu) {
  switch (images_) {
    case Images::kNone:
      break;
    case Images::kTensor:
    case Images::kOwnSize:
      write_tensors(requests, on_gpu);
      break;
    case Images::kWhole:
      write_whole(requests);
      break;
  }
}

// Makes the further image `number` of all samples that are good so far.
void SlotWriter::write_further(size_t number, std::span<SlotRequest> requests, bool on_gpu,
                               const io::ReadOptions& read) {
  further_files_.clear();
  uint64_t bytes = 0;
  for (SlotRequest& request : requests) {
    if (!request.status.ok()) continue;
    auto file = read_further(number, request, read);
    if (!file) {
      request.status = file.error().at(further_[number]->name);
      continue;
    }
    bytes += file->file.size();
    further_files_.push_back(std::move(*file));
    if (bytes < kFurtherBytes) continue;
    finish_further(number, on_gpu);
    bytes = 0;
  }
  finish_further(number, on_gpu);
}

// All images of a sample get the same draws, so they must have the same size.
Result<SlotWriter::FurtherFile> SlotWriter::read_further(size_t number, SlotRequest& request,
                                                         const io::ReadOptions& read) {
  const FurtherImages& further = *further_[number];
  ASSIGN_OR_RETURN(const store::Location place,
                   file_at(*further.dataset, further.image_of[request.sample], read));
  FurtherFile out{.of = &request, .file = {}, .source = {}};
  RETURN_IF_ERROR(further.dataset->read_file(place, &out.file, read));
  ++reads_;
  bytes_read_ += place.length;
  ASSIGN_OR_RETURN(out.source, image::read_header(out.file, transform_.oriented));
  const image::Size own = request.begun->source.size;
  if (out.source.size == own) return out;
  return base::fail(base::Code::kInvalid,
                    "{} x {} pixels, but the sample's own image has {} x {}; all images of a "
                    "sample must have one size",
                    out.source.size.width, out.source.size.height, own.width, own.height);
}

// Makes the images of further_files_.
void SlotWriter::finish_further(size_t number, bool on_gpu) {
  further_requests_.clear();
  for (const FurtherFile& one : further_files_) {
    SlotRequest& request = further_requests_.emplace_back(
        SlotRequest{.file = one.file,
                    .sample = one.of->sample,
                    .random = one.of->random,
                    .slot = one.of->slot,
                    .begun = image::BegunSample{one.source, one.of->begun->drawn}});
    const size_t places = (number + 1) * request.slot.slots;
    if (request.slot.image != nullptr) request.slot.image += places * sample_bytes_;
    if (request.slot.whole != nullptr) request.slot.whole += places;
  }
  write_images(further_requests_, on_gpu);
  for (size_t i = 0; i < further_files_.size(); ++i) {
    const Status& status = further_requests_[i].status;
    if (!status.ok()) further_files_[i].of->status = status.at(further_[number]->name);
  }
  further_files_.clear();
}

void SlotWriter::write_tensors(std::span<SlotRequest> requests, bool on_gpu) {
  prepares_.clear();
  numbers_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    const SlotRequest& request = requests[number];
    if (!request.status.ok()) continue;
    image::PrepareRequest& to = prepares_.emplace_back(
        image::PrepareRequest{request.file, request.random, request.slot.image});
    if (images_ == Images::kOwnSize) to.own = request.slot.whole;
    if (request.begun) to.begun = &*request.begun;
    numbers_.push_back(number);
  }
  gpu_ ? gpu_->prepare(prepares_, on_gpu) : preparer_->prepare(prepares_);
  for (size_t i = 0; i < prepares_.size(); ++i) {
    requests[numbers_[i]].status = std::move(prepares_[i].status);
  }
}

void SlotWriter::write_whole(std::span<SlotRequest> requests) {
  decodes_.clear();
  numbers_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    if (!requests[number].status.ok()) continue;
    const image::Encoded& source = requests[number].begun->source;
    decodes_.push_back({source, {0, 0, source.size.width, source.size.height}});
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

// Moves a sample's targets in the same way as its image.
Status SlotWriter::write_targets(SlotRequest& request, const io::ReadOptions& read) {
  SampleTargets& out = *request.slot.targets;
  out.first_object = targets_->first.empty() ? 0 : targets_->first[request.sample];
  const auto& [source, drawn] = *request.begun;
  out.objects = std::move(request.objects);
  if (targets_->outlines || targets_->are_fractions) {
    ASSIGN_OR_RETURN(const image::Orientation own, targets_->orientation(request.sample, source));
    const image::Size drawn_on = turned(source.size, own);
    if (targets_->are_fractions) out.drawn_on = drawn_on;
    if (targets_->outlines) {
      ASSIGN_OR_RETURN(const auto outlines, targets_->outlines_of(request.sample, drawn_on));
      masks_.make_objects(outlines, source.size, own, drawn, &out.masks);
    }
  }
  if (targets_->maps == nullptr) return {};
  const Status made = write_map(request, source, drawn, read);
  if (made.ok()) return made;
  const std::string file = targets_->maps->source_path(targets_->map_of[request.sample]);
  return (file.empty() ? made : made.at(file)).at("the sample's mask");
}

Status SlotWriter::write_map(const SlotRequest& request, const image::Encoded& image,
                             const image::Draw& drawn, const io::ReadOptions& read) {
  base::Bytes map = request.map;
  if (map.empty()) {
    ASSIGN_OR_RETURN(const store::Location place, targets_->map_at(request.sample, read));
    RETURN_IF_ERROR(targets_->maps->read_file(place, &map_, read));
    map = map_;
  }
  return masks_.make_labels(map, image, targets_->drawn_on, targets_->palette.get(), drawn,
                            &request.slot.targets->labels);
}

Status SlotWriter::clear(const Slot& slot, uint64_t sample, uint64_t drawn_for) {
  for (size_t number = 0; number <= further_.size(); ++number) {
    const size_t places = number * slot.slots;
    if (slot.image != nullptr) RETURN_IF_ERROR(clear_image(slot.image + places * sample_bytes_));
    if (slot.whole != nullptr) slot.whole[places] = {};
  }
  if (slot.file != nullptr) slot.file->clear();
  if (slot.targets != nullptr) *slot.targets = {};
  *slot.label = -1;
  *slot.sample = sample;
  *slot.drawn_for = drawn_for;
  *slot.valid = 0;
  return {};
}

Status SlotWriter::clear_image(uint8_t* image) {
  if (gpu_) return gpu_->clear(image);
  std::memset(image, 0, sample_bytes_);
  return {};
}

}  // namespace forebay::feed
