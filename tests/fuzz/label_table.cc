// deps: forebay_store forebay_io_testing
// Reads any bytes as a table of labels: the first byte says whether they are CSV, TSV or JSON
// lines. The result is an error, or a table whose rows fit its columns; and a table that is written
// again in the plainest form is the same table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "io/testing/memory.h"
#include "store/pack/table.h"

namespace {

using namespace forebay;
using base::Code;
using store::Table;

base::Result<Table> read(const std::string& suffix, base::Bytes file) {
  io::MemoryFileSystem files;
  const std::string path = "labels" + suffix;
  FOREBAY_CHECK(files.put(path, file).ok());
  return store::read_table(files, path);
}

void check(const Table& table) {
  FOREBAY_CHECK(!table.rows.empty());
  const std::set<std::string> names(table.columns.begin(), table.columns.end());
  FOREBAY_CHECK(names.size() == table.columns.size());
  for (const Table::Row& row : table.rows) FOREBAY_CHECK(row.size() == table.columns.size());
}

std::string quoted(const std::string& field) {
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string written_as_csv(const Table& table, char delimiter) {
  std::string text;
  const auto add_line = [&](const auto& fields, const auto& text_of) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) text += delimiter;
      text += quoted(text_of(fields[i]));
    }
    text += '\n';
  };
  add_line(table.columns, [](const std::string& name) { return name; });
  for (const Table::Row& row : table.rows) {
    add_line(row, [](const std::optional<std::string>& cell) { return cell.value_or(""); });
  }
  return text;
}

std::string written_as_json_lines(const Table& table) {
  std::string text;
  for (const Table::Row& row : table.rows) {
    nlohmann::json object = nlohmann::json::object();
    for (size_t i = 0; i < row.size(); ++i) {
      object[table.columns[i]] = row[i] ? nlohmann::json(*row[i]) : nlohmann::json();
    }
    text += object.dump() + "\n";
  }
  return text;
}

// Columns of JSON lines may come in another order.
void check_same(const Table& table, const Table& again) {
  FOREBAY_CHECK(again.rows.size() == table.rows.size());
  FOREBAY_CHECK(again.columns.size() == table.columns.size());
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto there = again.column(table.columns[i]);
    FOREBAY_CHECK(there && (table.is_json || *there == i));
    for (size_t row = 0; row < table.rows.size(); ++row) {
      FOREBAY_CHECK(again.rows[row][*there] == table.rows[row][i]);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr std::array<const char*, 3> kSuffixes = {".csv", ".tsv", ".jsonl"};
  const size_t kind = data[0] % kSuffixes.size();
  const auto table = read(kSuffixes[kind], base::Bytes(data, size).subspan(1));
  if (!table) {
    const Code code = table.error().code();
    FOREBAY_CHECK(code == Code::kInvalid || code == Code::kTooBig);
    FOREBAY_CHECK(table.error().message().starts_with("labels."));
    return 0;
  }
  check(*table);
  const std::string text = table->is_json ? written_as_json_lines(*table)
                                          : written_as_csv(*table, kind == 1 ? '\t' : ',');
  const auto again = read(kSuffixes[kind], base::as_bytes(text));
  FOREBAY_CHECK(again.has_value());
  check_same(*table, *again);
  return 0;
}
