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
  std::string name;                               // in messages
  std::shared_ptr<const store::Dataset> dataset;  // has the images
  std::vector<uint64_t> image_of;                 // the number there of each sample's image
};
// kInvalid when they do not suit a dataset of so many samples.
Status check_further(const FurtherImages& further, uint64_t samples);

// The place of a sample's file in a dataset, which may have to be read. kInvalid when the sample
// has no file there; also the errors of Dataset::load_locations().
Result<store::Location> file_at(const store::Dataset& dataset, uint64_t sample,
                                const io::ReadOptions& read);

}  // namespace forebay::feed
