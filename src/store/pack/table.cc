#include "store/pack/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/limits.h"
#include "base/utf8.h"
#include "io/ascii.h"

namespace forebay::store {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Reads CSV record by record.
class CsvReader {
 public:
  CsvReader(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {}

  bool at_end() const { return at_ >= text_.size(); }
  uint64_t line() const { return line_; }

  // Returns the fields of the next record. An empty line is a record of one empty field.
  Result<std::vector<std::string>> next() {
    std::vector<std::string> fields;
    for (;;) {
      ASSIGN_OR_RETURN(fields.emplace_back(), next_field());
      if (at_end()) return fields;
      if (text_[at_] == delimiter_) {
        ++at_;
        continue;
      }
      if (text_[at_] == '\r') ++at_;
      if (!at_end() && text_[at_] == '\n') ++at_;
      ++line_;
      return fields;
    }
  }

 private:
  Result<std::string> next_field() {
    std::string out;
    if (at_end() || text_[at_] != '"') {
      const size_t end = std::min(text_.find_first_of(ends_, at_), text_.size());
      out = text_.substr(at_, end - at_);
      at_ = end;
      return out;
    }
    const uint64_t begins = line_;
    for (++at_;; ++at_) {
      if (at_end()) return fail(Code::kInvalid, "line {}: a quote that does not end", begins);
      const char c = text_[at_];
      const bool is_quote = c == '"';
      if (is_quote && (at_ + 1 >= text_.size() || text_[at_ + 1] != '"')) break;
      if (is_quote) ++at_;
      if (c == '\n') ++line_;
      out += c;
    }
    ++at_;
    if (at_end() || ends_.find(text_[at_]) != std::string::npos) return out;
    return fail(Code::kInvalid, "line {}: text after the end of a quote", line_);
  }

  const std::string_view text_;
  const char delimiter_;
  const std::string ends_ = {delimiter_, '\r', '\n'};
  size_t at_ = 0;
  uint64_t line_ = 1;
};

Status read_csv(std::string_view text, char delimiter, Table* out) {
  CsvReader reader(text, delimiter);
  ASSIGN_OR_RETURN(out->columns, reader.next());
  const std::unordered_set<std::string_view> names(out->columns.begin(), out->columns.end());
  if (names.size() < out->columns.size()) {
    return fail(Code::kInvalid, "line 1 must name the columns, each once");
  }
  while (!reader.at_end()) {
    const uint64_t line = reader.line();
    ASSIGN_OR_RETURN(const std::vector<std::string> fields, reader.next());
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() != out->columns.size()) {
      return fail(Code::kInvalid, "line {} has {}, but line 1 names {}", line,
                  base::counted(fields.size(), "field"),
                  base::counted(out->columns.size(), "column"));
    }
    Table::Row& row = out->rows.emplace_back();
    for (const std::string& field : fields) {
      row.push_back(field.empty() ? std::nullopt : std::optional(field));
    }
  }
  return {};
}

std::optional<std::string> cell_of(const json& value) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status read_json_lines(std::string_view text, Table* out) {
  std::unordered_map<std::string, size_t> places;
  uint64_t line = 0;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view one = text.substr(begin, end - begin);
    begin = end + 1;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    bool is_too_deep = false;  // dump() calls itself for each list in a list
    const auto limit = [&](int depth, json::parse_event_t, const json&) {
      is_too_deep |= depth > base::kAnnotationDepthMax;
      return !is_too_deep;
    };
    const json row = json::parse(one, limit, false);
    if (is_too_deep) {
      return fail(Code::kTooBig, "line {} has more than {} nested lists or objects", line + 1,
                  base::kAnnotationDepthMax);
    }
    if (!row.is_object()) {
      return fail(Code::kInvalid, "line {} is no JSON object like {{…}}", line + 1);
    }
    Table::Row& cells = out->rows.emplace_back();
    for (const auto& [name, value] : row.items()) {
      const auto [place, is_new] = places.try_emplace(name, out->columns.size());
      if (is_new) out->columns.push_back(name);
      cells.resize(std::max(cells.size(), place->second + 1));
      cells[place->second] = cell_of(value);
    }
  }
  for (Table::Row& row : out->rows) row.resize(out->columns.size());
  return {};
}

}  // namespace

std::optional<size_t> Table::column(std::string_view name) const {
  const auto at = std::ranges::find(columns, name);
  return at == columns.end() ? std::nullopt
                             : std::optional(static_cast<size_t>(at - columns.begin()));
}

Result<Table> read_table(const io::Origin& origin, const std::string& path) {
  const auto read = [&]() -> Result<Table> {
    const std::string lower = io::lower(path);
    const bool is_json = lower.ends_with(".jsonl") || lower.ends_with(".ndjson");
    const bool is_tabs = lower.ends_with(".tsv");
    if (!is_json && !is_tabs && !lower.ends_with(".csv")) {
      return fail(Code::kUnsupported, "a table is a file named .csv, .tsv, .jsonl or .ndjson");
    }
    ASSIGN_OR_RETURN(const auto data, origin.read_whole(path, base::kAnnotationsBytesMax));
    std::string_view text = base::as_text(data);
    if (!base::is_utf8(text)) return fail(Code::kInvalid, "it is not UTF-8; convert it");
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    Table out;
    out.is_json = is_json;
    out.hash = base::sha256(data);
    RETURN_IF_ERROR(is_json ? read_json_lines(text, &out)
                            : read_csv(text, is_tabs ? '\t' : ',', &out));
    if (out.rows.empty()) return fail(Code::kInvalid, "it has no rows");
    return out;
  };
  auto table = read();
  if (!table && !table.error().message().starts_with(path)) {
    return tl::unexpected(table.error().at(path));
  }
  return table;
}

}  // namespace forebay::store
