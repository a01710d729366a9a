// The annotations of a dataset's samples, which move with their images: boxes, keypoints, outlines
// and maps of labels.
#pragma once

#include <memory>

#include "image/masks.h"
#include "store/dataset.h"

namespace forebay::feed {

using base::Result;
using base::Status;

// Outlines of objects, each of any number of parts.
struct Outlines {
  // The parts of object i are those from first_part[i] to first_part[i + 1].
  std::vector<uint64_t> first_part;
  // The numbers of part i are those from first_number[i] to first_number[i + 1]: the corners of a
  // polygon (image::Corner), x and y in turn, or the lengths of runs.
  std::vector<uint64_t> first_number;
  std::vector<uint8_t> is_runs;
  std::vector<int32_t> numbers;
  // If Targets::are_fractions is set, the corners are here instead of in `numbers`, as fractions of
  // the image's width and height, and there are no runs.
  std::vector<double> fractions = {};
};

// Immutable once a feed has it.
struct Targets {
  // The objects of sample i are those from first[i] to first[i + 1]. Empty: samples have none.
  std::vector<uint64_t> first;
  std::vector<image::Bounds> boxes;  // of each object
  // Whether places are fractions of the width and the height of the image that they were drawn on,
  // instead of pixels.
  bool are_fractions = false;
  uint32_t points_each = 0;
  std::vector<image::Point> points;     // points_each for each object
  std::vector<image::PointPair> pairs;  // keypoints that change places in mirrored images
  std::optional<Outlines> outlines;
  // For each sample the size of the image that its annotations were drawn on, as it is stored or as
  // it is shown; {}: not known, and taken to be as it is stored. Empty: none is known.
  std::vector<image::Size> sizes;
  image::DrawnOn drawn_on = image::DrawnOn::kBySize;
  // The dataset of the samples' maps of labels, of which sample i has number map_of[i]; null:
  // samples have none.
  std::shared_ptr<const store::Dataset> maps;
  std::vector<uint64_t> map_of;
  std::shared_ptr<const image::Palette> palette;  // of the maps; null: they have labels

  uint64_t count(uint64_t sample) const {
    return first.empty() ? 0 : first[sample + 1] - first[sample];
  }
  // The location of a sample's map of labels in `maps`, which may have to be read first. Errors:
  // kInvalid if the sample has no map; those of Dataset::load_locations().
  Result<store::Location> map_at(uint64_t sample, const io::ReadOptions& read) const;
  // The same location if the map lies in the stored chunk that has the sample's image, so that both
  // can be read together; else nothing. `chunk` is the chunk's number in `dataset`.
  std::optional<store::Location> map_beside(const store::Dataset& dataset, uint32_t chunk,
                                            uint64_t sample, const io::ReadOptions& read) const;
  // Boxes and keypoints of a sample, in pixels of the image that they were drawn on, which has this
  // size.
  image::Annotations objects(uint64_t sample, image::Size size) const;
  // The orientation that turns the image that a sample's annotations were drawn on into the shown
  // image; the identity if they were drawn on the shown image. Errors: kInvalid if they were drawn
  // on an image of another size.
  Result<image::Orientation> orientation(uint64_t sample, const image::Encoded& image) const;
  // Boxes and keypoints of a sample, in pixels of its image as it is shown. Errors: those of
  // orientation().
  Result<image::Annotations> shown_objects(uint64_t sample, const image::Encoded& image) const;
  // The parts of the outlines of a sample's objects. Errors: kInvalid if they do not fit an image
  // of this size, which they were drawn on.
  Result<std::vector<std::vector<image::Changes>>> outlines_of(uint64_t sample,
                                                               image::Size size) const;
};
// Errors: kInvalid if the tables contradict each other, or do not suit a dataset of `samples`
// samples.
Status check_targets(const Targets& targets, uint64_t samples);

// The annotations of a sample in a batch.
struct SampleTargets {
  uint64_t first_object = 0;  // the number of its first object in Targets
  image::Annotations objects = {};
  image::OwnSize masks = {};   // of its objects (image::MaskMaker)
  image::OwnSize labels = {};  // its map of labels
  // The size of the image that the annotations were drawn on; set if Targets::are_fractions is.
  image::Size drawn_on = {};
};

}  // namespace forebay::feed
