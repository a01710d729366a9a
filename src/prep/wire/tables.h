// Tables of numbers that a job or an epoch needs besides the job's text: selections of a dataset's
// samples, weights, lists of samples, and targets (boxes, keypoints and outlines). Each is sent
// once, as bytes. Pure codec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "feed/batch/options.h"

namespace forebay::prep {

using base::Bytes;
using base::ByteVector;
using base::Result;

struct Table {
  std::string name;  // the SHA-256 of the bytes, in hexadecimal digits
  std::shared_ptr<const ByteVector> bytes;
};

Table table_of(const feed::SampleWeights& weights);
Table table_of(const feed::SampleList& list);
// The numbers of a selection's samples.
Table table_of(std::span<const uint64_t> selected);
inline Table table_of(const std::vector<uint64_t>& selected) {
  return table_of(std::span<const uint64_t>(selected));
}
// The table leaves out maps of labels, which are a dataset of their own.
Table table_of(const feed::Targets& targets);

// Decode untrusted bytes. Errors: kInvalid if table_of() cannot have written them.
Result<feed::SampleWeights> decode_weights(Bytes bytes);
Result<feed::SampleList> decode_list(Bytes bytes);
Result<std::vector<uint64_t>> decode_selected(Bytes bytes);
Result<feed::Targets> decode_targets(Bytes bytes);

}  // namespace forebay::prep
