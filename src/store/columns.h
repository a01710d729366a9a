// The values of all samples in the chunk indexes, as columns.
#pragma once

#include "store/dataset.h"

namespace forebay::store {

// The values of one scalar field, one for each sample.
struct Column {
  std::string name;
  FieldKind kind = FieldKind::kText;
  std::vector<int64_t> numbers = {};                   // kClass; -1 for a sample without a class
  std::vector<std::optional<std::string>> texts = {};  // kJson, kText
};

struct Columns {
  std::vector<uint32_t> width;  // of the image, in pixels; 0 if unknown
  std::vector<uint32_t> height;
  std::vector<std::string> source_path;  // the image's path in the source
  std::vector<Column> fields;
};

// Reads every chunk's index, and no image. Errors: those of Dataset::read_chunk_index().
Result<Columns> read_columns(const Dataset& dataset);

// Reads the texts of one field of kind kJson or kText, one for each sample; a sample without this
// field gets none. Errors: those of Dataset::read_chunk_index().
Result<std::vector<std::optional<std::string>>> read_texts(const Dataset& dataset,
                                                           std::string_view field);

}  // namespace forebay::store
