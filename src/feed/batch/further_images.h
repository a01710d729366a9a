// Further images of each sample, such as the right one of a stereo pair. What is drawn for a sample
// is drawn once, for all of its images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/dataset.h"

namespace forebay::feed {

using base::Result;
using base::Status;

// Immutable once a feed has it.
struct FurtherImages {
  std::string name;                               // for messages
  std::shared_ptr<const store::Dataset> dataset;  // holds the images
  std::vector<uint64_t> image_of;  // for each sample, the number of its image in `dataset`
};
// Errors: kInvalid if they do not suit a dataset of `samples` samples.
Status check_further(const FurtherImages& further, uint64_t samples);

// The location of a sample's file in a dataset, which may have to be read first. Errors: kInvalid
// if the sample has no file there; those of Dataset::load_locations().
Result<store::Location> file_at(const store::Dataset& dataset, uint64_t sample,
                                const io::ReadOptions& read);

}  // namespace forebay::feed
