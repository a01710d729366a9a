#include "store/columns.h"

#include "io/share_work.h"

namespace forebay::store {
namespace {

// Appends one sample to all columns. `column_of`: the column of each scalar field, by field number.
void add(const Schema& schema, const std::vector<size_t>& column_of, IndexedSample&& sample,
         Columns* out) {
  const StoredFile* const image = image_file(schema, sample);
  out->width.push_back(image == nullptr ? 0 : image->width);
  out->height.push_back(image == nullptr ? 0 : image->height);
  out->source_path.push_back(std::move(sample.source_path));
  for (Column& column : out->fields) {
    if (column.kind == FieldKind::kClass) {
      column.numbers.push_back(-1);
    } else {
      column.texts.emplace_back();
    }
  }
  for (ScalarValue& value : sample.scalars) {
    Column& column = out->fields[column_of[value.field]];
    if (auto* const number = std::get_if<int64_t>(&value.value)) {
      column.numbers.back() = *number;
    } else {
      column.texts.back() = std::move(std::get<std::string>(value.value));
    }
  }
}

}  // namespace

Result<Columns> read_columns(const Dataset& dataset) {
  Columns columns;
  std::vector<size_t> column_of;
  for (const Field& field : dataset.schema().fields) {
    column_of.push_back(columns.fields.size());
    if (is_scalar(field.kind)) columns.fields.push_back({.name = field.name, .kind = field.kind});
  }
  for (uint32_t chunk = 0; chunk < dataset.chunk_count(); ++chunk) {
    ASSIGN_OR_RETURN(ChunkIndex index, dataset.read_chunk_index(chunk));
    for (IndexedSample& sample : index.samples) {
      add(index.schema, column_of, std::move(sample), &columns);
    }
  }
  return columns;
}

Result<std::vector<std::optional<std::string>>> read_texts(const Dataset& dataset,
                                                           std::string_view field) {
  constexpr size_t kIndexesAtOnce = 16;
  std::vector<std::optional<std::string>> texts(dataset.sample_count());
  const auto read = [&](uint64_t number, uint64_t, size_t) -> Status {
    const auto chunk = static_cast<uint32_t>(number);
    ASSIGN_OR_RETURN(ChunkIndex index, dataset.read_chunk_index(chunk));
    uint64_t at = dataset.chunk(chunk).first_sample;
    for (IndexedSample& sample : index.samples) {
      for (ScalarValue& value : sample.scalars) {
        auto* const text = std::get_if<std::string>(&value.value);
        const bool is_it = index.schema.fields[value.field].name == field;
        if (is_it && text != nullptr) texts[at] = std::move(*text);
      }
      ++at;
    }
    return {};
  };
  const bool is_remote = dataset.chunk_count() > 0 && dataset.is_remote(0);
  RETURN_IF_ERROR(io::share_work(dataset.chunk_count(), 1, is_remote ? kIndexesAtOnce : 1, read));
  return texts;
}

}  // namespace forebay::store
