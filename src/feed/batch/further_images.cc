#include "feed/batch/further_images.h"

#include <algorithm>

namespace forebay::feed {

using base::Code;
using base::fail;

Status check_further(const FurtherImages& further, uint64_t samples) {
  const auto is_image = [&](uint64_t image) { return image < further.dataset->sample_count(); };
  if (further.dataset != nullptr && further.image_of.size() == samples &&
      std::ranges::all_of(further.image_of, is_image)) {
    return {};
  }
  return fail(Code::kInvalid, "the further images \"{}\" do not suit a dataset of {} samples",
              further.name, samples);
}

Result<store::Location> file_at(const store::Dataset& dataset, uint64_t sample,
                                const io::ReadOptions& read) {
  const uint32_t chunk = dataset.chunk_of(sample);
  if (!dataset.knows_locations(chunk)) {
    RETURN_IF_ERROR(dataset.load_locations({&chunk, 1}, read));
  }
  const store::Location location = dataset.location(sample);
  if (location.length == 0) return fail(Code::kInvalid, "it is missing or empty");
  return location;
}

}  // namespace forebay::feed
