#include "train/run/classes.h"

#include <algorithm>

#include "image/codec/decode.h"

namespace forebay::train {

using base::Code;
using base::fail;

int64_t class_count(const store::Dataset& dataset) {
  auto classes = static_cast<int64_t>(dataset.schema().classes.size());
  for (uint64_t i = 0; i < dataset.sample_count(); ++i) {
    classes = std::max<int64_t>(classes, int64_t{dataset.location(i).label} + 1);
  }
  return classes;
}

Status check_same_classes(const store::Dataset& training, const store::Dataset& validation,
                          int64_t classes) {
  const int64_t count = class_count(validation);
  if (count == 0) {
    return fail(Code::kInvalid, "{}: no sample has a label, so there is nothing to validate",
                validation.path());
  }
  const auto& learned = training.schema().classes;
  const auto& measured = validation.schema().classes;
  if (count > classes) {
    return fail(Code::kInvalid, "{} has {} classes, but {} has only {}", validation.path(), count,
                training.path(), classes);
  }
  if (learned.empty() || measured.empty()) return {};  // The classes are numbers without names.
  for (size_t i = 0; i < std::max(learned.size(), measured.size()); ++i) {
    const std::string a = i < learned.size() ? learned[i] : "(none)";
    const std::string b = i < measured.size() ? measured[i] : "(none)";
    if (a == b) continue;
    return fail(Code::kInvalid,
                "class {} is \"{}\" in {} and \"{}\" in {}; pack both from folders with the same "
                "classes (an empty folder keeps a class's number)",
                i, a, training.path(), b, validation.path());
  }
  return {};
}

Result<uint32_t> first_image_side(const store::Dataset& dataset) {
  if (dataset.sample_count() == 0) {
    return fail(Code::kInvalid, "{}: no samples to learn from", dataset.path());
  }
  store::Location first = dataset.location(0);
  // Only the header is used here, so the checksum is not compared. The feed compares it later and
  // replaces a damaged image.
  first.crc32c.reset();
  base::ByteVector bytes;
  RETURN_IF_ERROR(dataset.read_file(first, &bytes).at(dataset.path()));
  ASSIGN_OR_RETURN(const image::Encoded source, image::read_header(bytes));
  return std::min(source.size.width, source.size.height);
}

}  // namespace forebay::train
