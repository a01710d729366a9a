#include "store/pack/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/limits.h"
#include "store/format/schema_codec.h"
#include "store/pack/table.h"
#include "store/source/image_names.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kOption = "--labels";
constexpr std::string_view kFileName = "file_name";
constexpr std::array<std::string_view, 2> kLabelColumns = {"label", "labels"};
// Columns that every dataset has, so that no kept column may have these names.
constexpr std::array<std::string_view, 11> kTaken = {"index", "key",    "label",       "bytes",
                                                     "width", "height", "source_path", "image",
                                                     "file",  "class",  "target"};
constexpr uint64_t kNone = UINT64_MAX;

// The numbers of the columns that are used.
struct Columns {
  size_t key = 0;
  std::optional<size_t> label = {};
  std::vector<size_t> keep = {};
};

Result<size_t> find_column(const Table& table, std::string_view name) {
  if (const auto found = table.column(name)) return *found;
  return fail(Code::kInvalid, "there is no column \"{}\"; there are {}", name,
              fmt::join(table.columns, ", "));
}

Result<Columns> choose(const Table& table, const LabelOptions& options) {
  Columns out;
  if (!options.key.empty()) {
    ASSIGN_OR_RETURN(out.key, find_column(table, options.key));
  } else {
    out.key = table.column(kFileName).value_or(0);
  }
  std::set<size_t> used = {out.key};
  for (const std::string& name : options.keep) {
    ASSIGN_OR_RETURN(const size_t column, find_column(table, name));
    if (!used.insert(column).second) {
      return fail(Code::kInvalid, "--labels-keep {}: the column is used already", name);
    }
    out.keep.push_back(column);
  }
  if (!options.column.empty()) {
    ASSIGN_OR_RETURN(out.label, find_column(table, options.column));
    return out;
  }
  for (const std::string_view name : kLabelColumns) {
    const auto found = table.column(name);
    if (!out.label && found && !used.contains(*found)) out.label = found;
  }
  for (size_t i = 0; i < table.columns.size() && used.size() + 1 == table.columns.size(); ++i) {
    if (!out.label && !used.contains(i)) out.label = i;
  }
  if (out.label || !out.keep.empty()) return out;
  return fail(Code::kInvalid,
              "it has the columns {}; name the one with the classes: --labels-column",
              fmt::join(table.columns, ", "));
}

// Returns for each sample the number of its row, or kNone.
Result<std::vector<uint64_t>> match(const Table& table, size_t key, Listing* listing) {
  const ImageNames names(names_of(*listing));
  std::vector<uint64_t> row_of(listing->samples.size(), kNone);
  std::vector<std::string> unused;
  for (uint64_t row = 0; row < table.rows.size(); ++row) {
    const std::string name = table.rows[row][key].value_or("");
    const ImageNames::Match found = names.find(name);
    if (found.fits_several) {
      return fail(Code::kInvalid, "\"{}\" fits several samples; give file names with their folders",
                  name);
    }
    if (!found.sample) {
      unused.push_back(name);
      continue;
    }
    if (row_of[*found.sample] != kNone) {
      return fail(Code::kInvalid, "{} has two rows, {} and {}", name, row_of[*found.sample], row);
    }
    row_of[*found.sample] = row;
  }
  const ImageNames::Match header = names.find(table.columns[key]);
  if (!table.is_json && header.sample && row_of[*header.sample] == kNone) {
    return fail(Code::kInvalid,
                "its first row must name the columns, but has the name of a sample, {}; put a row "
                "such as file_name,label before it",
                table.columns[key]);
  }
  if (unused.size() == table.rows.size()) {
    return fail(Code::kInvalid,
                "none of its {} names, such as \"{}\", is that of a sample, such as {} "
                "(--labels-key names the column with the file names)",
                unused.size(), unused[0], listing->samples[0].source_path);
  }
  if (!unused.empty()) {
    listing->remarks.push_back(
        {std::string(kOption), fmt::format("{} of its {} rows are not in the source, such as {}",
                                           unused.size(), table.rows.size(), unused[0])});
  }
  return row_of;
}

// Leaves out the samples without a row or a class, if that was asked for.
Status drop_missing(const Table& table, const Columns& columns, bool drops, Listing* listing,
                    std::vector<uint64_t>* row_of) {
  const auto has_label = [&](uint64_t row) {
    return row != kNone && (!columns.label || table.rows[row][*columns.label]);
  };
  std::vector<SourceSample> kept;
  std::vector<uint64_t> rows;
  std::string first_missing;
  for (uint64_t i = 0; i < row_of->size(); ++i) {
    if (has_label((*row_of)[i])) {
      rows.push_back((*row_of)[i]);
      kept.push_back(std::move(listing->samples[i]));
    } else if (first_missing.empty()) {
      first_missing = listing->samples[i].source_path;
    }
  }
  const std::string what =
      fmt::format("no label for {} of {}, such as {}", row_of->size() - rows.size(),
                  base::counted(row_of->size(), "sample"), first_missing);
  const bool is_complete = rows.size() == row_of->size();
  if (rows.empty()) return fail(Code::kInvalid, "{}", what);
  if (!is_complete && !drops) {
    return fail(Code::kInvalid, "{}; --labels-missing drop leaves these samples out", what);
  }
  if (!is_complete) listing->remarks.push_back({std::string(kOption), what + "; left out"});
  listing->samples = std::move(kept);
  *row_of = std::move(rows);
  return {};
}

// Returns the number that a text is. "007" is a name, and no number.
std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && std::to_string(value) == text ? std::optional(value) : std::nullopt;
}

bool is_number(const std::string& text) {
  const size_t digits = text.starts_with('-') ? 1 : 0;
  if (text.size() > digits + 1 && text[digits] == '0' && text[digits + 1] != '.') return false;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Removes blanks around the labels, and checks that each can be one class. Returns the different
// labels of all rows, so that parts of a source number their classes alike.
Result<std::set<std::string>> read_labels(size_t column, Table* table) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::set<std::string> out;
  for (Table::Row& row : table->rows) {
    std::optional<std::string>& cell = row[column];
    if (!cell) continue;
    const size_t begin = std::min(cell->find_first_not_of(kBlanks), cell->size());
    cell = cell->substr(begin, cell->find_last_not_of(kBlanks) + 1 - begin);
    if (cell->empty()) {
      cell.reset();
      continue;
    }
    if (table->is_json && (cell->front() == '[' || cell->front() == '{')) {
      return fail(Code::kInvalid,
                  "the column {} has {}, but a class is one text or whole number; "
                  "--labels-keep stores other values as texts",
                  table->columns[column], *cell);
    }
    out.insert(*cell);
  }
  const bool are_whole =
      std::ranges::all_of(out, [](const auto& t) { return whole_number(t).has_value(); });
  if (are_whole || !std::ranges::all_of(out, is_number)) return out;
  return fail(Code::kInvalid,
              "the column {} has numbers such as {}, but forebay packs classes; "
              "--labels-keep stores numbers as texts",
              table->columns[column], *out.begin());
}

// Makes "class" the second field, and has all files follow their fields.
void make_class_field(Listing* listing) {
  auto& fields = listing->schema.fields;
  if (fields.size() > 1 && fields[1].kind == FieldKind::kClass) return;
  fields.insert(fields.begin() + 1, {"class", FieldKind::kClass});
  for (SourceSample& sample : listing->samples) {
    for (SourceFile& file : sample.files) {
      if (file.field > 0) ++file.field;
    }
  }
}

// Gives the samples their classes; `names` has the different labels of the table.
Status set_classes(const Table& table, size_t column, const std::set<std::string>& names,
                   const std::vector<uint64_t>& row_of, Listing* listing) {
  const bool are_numbers =
      std::ranges::all_of(names, [](const auto& name) { return whole_number(name).has_value(); });
  if (names.size() > base::kClassesMax) {
    return fail(Code::kTooBig, "{} classes, the limit is {}", names.size(), base::kClassesMax);
  }
  auto& classes = listing->schema.classes;
  classes.clear();
  if (!are_numbers) classes.assign(names.begin(), names.end());
  make_class_field(listing);
  for (uint64_t i = 0; i < row_of.size(); ++i) {
    const std::string& text = *table.rows[row_of[i]][column];
    const int64_t label = are_numbers ? *whole_number(text)
                                      : std::ranges::lower_bound(classes, text) - classes.begin();
    if (label < 0 || label > INT32_MAX) {
      return fail(Code::kInvalid, "{}: {} is no class number from 0 to {}",
                  listing->samples[i].source_path, text, INT32_MAX);
    }
    listing->samples[i].label = label;
  }
  return check_schema(listing->schema);
}

Status add_texts(const Table& table, size_t column, const std::vector<uint64_t>& row_of,
                 Listing* listing) {
  const std::string& name = table.columns[column];
  const auto& fields = listing->schema.fields;
  const auto has_name = [&](const Field& field) { return field.name == name; };
  if (std::ranges::count(kTaken, name) > 0 || std::ranges::any_of(fields, has_name)) {
    return fail(Code::kExists, "--labels-keep {}: samples have a field or column of this name",
                name);
  }
  const auto number = static_cast<uint16_t>(fields.size());
  listing->schema.fields.push_back({name, FieldKind::kText});
  for (uint64_t i = 0; i < row_of.size(); ++i) {
    const auto& text = table.rows[row_of[i]][column];
    if (!text) continue;
    if (text->size() > base::kScalarBytesMax) {
      return fail(Code::kTooBig, "{}: the text in {} has {} bytes, the limit is {}",
                  listing->samples[i].source_path, name, text->size(), base::kScalarBytesMax);
    }
    listing->samples[i].files.push_back({.suffix = name,
                                         .field = number,
                                         .shard = kNoShard,
                                         .offset = listing->texts.size(),
                                         .length = text->size()});
    listing->texts.push_back(*text);
  }
  return check_schema(listing->schema);
}

bool has_class_files(const Listing& listing) {
  const auto is_class = [](const SourceFile& file) { return file.suffix == "cls"; };
  return std::ranges::any_of(listing.samples, [&](const SourceSample& sample) {
    return std::ranges::any_of(sample.files, is_class);
  });
}

}  // namespace

Status add_labels(const io::Origin& origin, const LabelOptions& options, Listing* listing) {
  const auto add = [&]() -> Status {
    ASSIGN_OR_RETURN(Table table, read_table(origin, options.file));
    listing->labels = table.hash;
    const auto apply = [&]() -> Status {
      ASSIGN_OR_RETURN(const Columns columns, choose(table, options));
      if (columns.label && has_class_files(*listing)) {
        return fail(Code::kExists,
                    "samples of the source have .cls files; leave out --labels to pack these, or "
                    "keep columns as texts with --labels-keep");
      }
      std::set<std::string> names;
      if (columns.label) {
        ASSIGN_OR_RETURN(names, read_labels(*columns.label, &table));
      }
      ASSIGN_OR_RETURN(auto row_of, match(table, columns.key, listing));
      RETURN_IF_ERROR(drop_missing(table, columns, options.drops_missing, listing, &row_of));
      if (columns.label) {
        RETURN_IF_ERROR(set_classes(table, *columns.label, names, row_of, listing));
      }
      for (const size_t column : columns.keep) {
        RETURN_IF_ERROR(add_texts(table, column, row_of, listing));
      }
      return {};
    };
    return apply().at(options.file);
  };
  return add().at(kOption);
}

}  // namespace forebay::store
