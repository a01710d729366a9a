// Tables of labels: CSV (RFC 4180), TSV and JSON lines. The file is in memory as a whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "io/origin.h"

namespace forebay::store {

using base::Result;
using base::Status;

struct Table {
  // A cell without a value is empty in CSV, and null or absent in JSON.
  using Row = std::vector<std::optional<std::string>>;

  std::vector<std::string> columns;
  std::vector<Row> rows;  // each has a cell for each column
  bool is_json = false;   // JSON lines, in which a cell may be the text of a list or an object
  base::Sha256 hash{};    // of the file

  std::optional<size_t> column(std::string_view name) const;
};

// Reads a file named .csv, .tsv, .jsonl or .ndjson. The first line of CSV names the columns; in
// JSON lines, values other than texts become their JSON. Errors: kUnsupported (another suffix),
// kInvalid (malformed; the message names the line), kTooBig, those of reading.
Result<Table> read_table(const io::Origin& origin, const std::string& path);

}  // namespace forebay::store
