#include "store/columns.h"

namespace forebay::store {
namespace {

// Appends one sample to all columns.
void add(const Schema& schema, IndexedSample&& sample, Columns* out) {
  const StoredFile* const image = image_file(schema, sample);
  out->width.push_back(image == nullptr ? 0 : image->width);
  out->height.push_back(image == nullptr ? 0 : image->height);
  out->source_path.push_back(std::move(sample.source_path));
  for (Column& column : out->fields) {
    column.kind == FieldKind::kClass ? void(column.numbers.push_back(-1))
                                     : void(column.texts.emplace_back());
  }
  for (ScalarValue& value : sample.scalars) {
    const std::string& name = schema.fields.at(value.field).name;
    for (Column& column : out->fields) {
      if (column.name != name) continue;
      if (auto* const number = std::get_if<int64_t>(&value.value)) {
        if (column.kind == FieldKind::kClass) column.numbers.back() = *number;
      } else if (column.kind != FieldKind::kClass) {
        column.texts.back() = std::move(std::get<std::string>(value.value));
      }
    }
  }
}

}  // namespace

Result<Columns> read_columns(const Dataset& dataset) {
  Columns columns;
  for (const Field& field : dataset.schema().fields) {
    if (is_scalar(field.kind)) columns.fields.push_back({.name = field.name, .kind = field.kind});
  }
  for (uint32_t chunk = 0; chunk < dataset.chunk_count(); ++chunk) {
    ASSIGN_OR_RETURN(ChunkIndex index, dataset.read_chunk_index(chunk));
    for (IndexedSample& sample : index.samples) add(index.schema, std::move(sample), &columns);
  }
  return columns;
}

}  // namespace forebay::store
