// Tables of numbers that a job or an epoch needs beside its text: which samples of a dataset are
// selected, weights, lists of samples, and what moves with the images. They are sent as bytes, once
// each. Pure codec.
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
  std::string name;  // the SHA-256 of its bytes, in hexadecimal digits
  std::shared_ptr<const ByteVector> bytes;
};

Table table_of(const feed::SampleWeights& weights);
Table table_of(const feed::SampleList& list);
// Numbers of samples, which a selection has.
Table table_of(std::span<const uint64_t> selected);
inline Table table_of(const std::vector<uint64_t>& selected) {
  return table_of(std::span<const uint64_t>(selected));
}
// Without the maps of labels, which are a dataset of their own.
Table table_of(const feed::Targets& targets);

// Read bytes of which nothing is known. Errors: kInvalid, when table_of() cannot have written them.
Result<feed::SampleWeights> decode_weights(Bytes bytes);
Result<feed::SampleList> decode_list(Bytes bytes);
Result<std::vector<uint64_t>> decode_selected(Bytes bytes);
Result<feed::Targets> decode_targets(Bytes bytes);

}  // namespace forebay::prep
