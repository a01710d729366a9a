#include "store/sample_columns.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/limits.h"
#include "store/kept.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;
using base::MutexLock;

namespace {

// A row has the samples of one block of a column of u32, so that whole blocks are read and checked.
constexpr uint32_t kRowSamples = kPartBlockBytes / sizeof(uint32_t);
constexpr std::array kColumns = {PartColumn::kOffset, PartColumn::kLength, PartColumn::kCrc32c,
                                 PartColumn::kLabel};

bool is_possible(const Location& location, const ChunkInfo& chunk) {
  return base::in_bounds(location.offset, location.length, chunk.bytes) &&
         location.length <= base::kFieldBytesMax && location.label >= -1;
}

}  // namespace

SampleColumns::SampleColumns(const Source& source)
    : source_(source),
      columns_(source.header.column(kFirstLazyColumn).offset -
               source.header.column(PartColumn::kOffset).offset),
      offset_(value(PartColumn::kOffset, 0)),
      length_(value(PartColumn::kLength, 0)),
      crc32c_(value(PartColumn::kCrc32c, 0)),
      label_(value(PartColumn::kLabel, 0)),
      is_wide_(source.header.offset_bytes == 8),
      known_(std::make_unique<std::atomic<bool>[]>(source.chunks.size())) {}

SampleColumns::Rows& SampleColumns::rows() {
  if (Rows* const there = rows_.find()) return *there;
  return rows_.keep(
      std::make_unique<Rows>((source_.header.samples + kRowSamples - 1) / kRowSamples));
}

uint64_t SampleColumns::value_bytes(PartColumn column) const {
  return column == PartColumn::kOffset ? source_.header.offset_bytes : sizeof(uint32_t);
}

uint8_t* SampleColumns::value(PartColumn column, uint64_t sample) {
  return columns_.data() + source_.header.column(column).offset -
         source_.header.column(PartColumn::kOffset).offset + sample * value_bytes(column);
}

uint32_t SampleColumns::end_of_row(uint32_t row) const {
  return static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{row + 1} * kRowSamples, source_.header.samples));
}

Status SampleColumns::read_all() {
  RETURN_IF_ERROR(source_.file.read(source_.header.column(PartColumn::kOffset).offset, columns_));
  for (const PartColumn column : kColumns) {
    const Bytes bytes(value(column, 0), source_.header.column(column).bytes);
    RETURN_IF_ERROR(check_blocks(source_.header, column, 0, bytes).at(source_.file.path()));
  }
  for (uint32_t i = 0; i < source_.chunks.size(); ++i) RETURN_IF_ERROR(check_chunk(i));
  knows_all_ = true;
  return {};
}

// Checks that the locations of a chunk's samples are possible.
Status SampleColumns::check_chunk(uint32_t chunk) const {
  const ChunkInfo& info = source_.chunks[chunk];
  const auto first = static_cast<uint32_t>(info.first_sample);
  for (uint32_t i = first; i < first + info.samples; ++i) {
    const Location found = location(i);
    if (is_possible(found, info)) continue;
    return fail(Code::kCorrupt,
                "{}: sample {} of {} bytes lies outside its chunk, is above the limit of {}, or "
                "has class {}",
                source_.file.path(), i, found.length, base::kFieldBytesMax, found.label);
  }
  return {};
}

void SampleColumns::learn(uint32_t chunk, std::span<const Location> locations) {
  const ChunkInfo& info = source_.chunks[chunk];
  const bool fits = locations.size() == info.samples &&
                    std::ranges::all_of(locations, [&](const Location& location) {
                      return location.crc32c && is_possible(location, info) &&
                             (is_wide_ || location.offset <= UINT32_MAX);
                    });
  if (!fits || knows(chunk)) return;
  MutexLock lock(rows().mutex);
  if (knows(chunk)) return;
  uint64_t sample = info.first_sample;
  for (const Location& location : locations) {
    if (is_wide_) {
      base::store_le(value(PartColumn::kOffset, sample), location.offset);
    } else {
      base::store_le(value(PartColumn::kOffset, sample), static_cast<uint32_t>(location.offset));
    }
    base::store_le(value(PartColumn::kLength, sample), location.length);
    base::store_le(value(PartColumn::kCrc32c, sample), *location.crc32c);
    base::store_le(value(PartColumn::kLabel, sample), location.label);
    ++sample;
  }
  known_[chunk].store(true, std::memory_order_release);
}

Status SampleColumns::load(std::span<const uint32_t> chunks, const io::ReadOptions& options) {
  if (std::ranges::all_of(chunks, [this](uint32_t chunk) { return knows(chunk); })) return {};
  ASSIGN_OR_RETURN(const std::vector<uint32_t> claimed, claim(rows_of(chunks), options));
  if (claimed.empty()) return {};
  const auto read = read_rows(claimed, options);
  return take(claimed, read, !io::check_wanted(source_.file.path(), options).ok());
}

// Returns the rows that hold samples of those chunks that are not loaded yet, in ascending order.
std::vector<uint32_t> SampleColumns::rows_of(std::span<const uint32_t> chunks) const {
  std::vector<uint32_t> wanted;
  for (const uint32_t chunk : chunks) {
    if (knows(chunk)) continue;
    const ChunkInfo& info = source_.chunks[chunk];
    const uint64_t last = (info.first_sample + info.samples - 1) / kRowSamples;
    for (uint64_t row = info.first_sample / kRowSamples; row <= last; ++row) {
      wanted.push_back(static_cast<uint32_t>(row));
    }
  }
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  return wanted;
}

// Returns the wanted rows that the caller must read; waits for rows that other threads are reading.
// If such a read fails, for another reason than its own thread's options, the caller fails with the
// same error.
Result<std::vector<uint32_t>> SampleColumns::claim(std::vector<uint32_t> wanted,
                                                   const io::ReadOptions& options) {
  Rows& shared = rows();
  const std::stop_callback wake(options.stop, [&shared] {
    MutexLock lock(shared.mutex);
    shared.loaded.notify_all();
  });
  MutexLock lock(shared.mutex);
  for (size_t i = 0; i < wanted.size();) {
    const Row& row = shared.rows[wanted[i]];
    if (!row.is_loading) {
      ++i;
      continue;
    }
    RETURN_IF_ERROR(io::check_wanted(source_.file.path(), options));
    const uint64_t failures = row.failures;
    if (options.deadline_ns) {
      shared.loaded.wait_until(shared.mutex, *options.deadline_ns);
    } else {
      shared.loaded.wait(shared.mutex);
    }
    if (row.failures != failures) return tl::unexpected(row.failure);
    i = 0;
  }
  std::erase_if(wanted,
                [&](uint32_t row) REQUIRES(shared.mutex) { return shared.rows[row].is_loaded; });
  for (const uint32_t row : wanted) shared.rows[row].is_loading = true;
  return wanted;
}

std::string SampleColumns::kept_name_of(uint32_t row) const {
  return kept_name(source_.id, fmt::format("rows-{}", row));
}

// `bytes`: RowBytes::bytes.
Status SampleColumns::check_row(uint32_t row, Bytes bytes) const {
  const uint64_t samples = end_of_row(row) - row * kRowSamples;
  for (const PartColumn column : kColumns) {
    const uint64_t length = samples * value_bytes(column);
    if (bytes.size() < length) return fail(Code::kCorrupt, "a row is too short");
    const uint64_t first = uint64_t{row} * kRowSamples * value_bytes(column);
    RETURN_IF_ERROR(check_blocks(source_.header, column, first, bytes.first(length)));
    bytes = bytes.subspan(length);
  }
  if (!bytes.empty()) return fail(Code::kCorrupt, "a row is too long");
  return {};
}

Result<std::vector<SampleColumns::RowBytes>> SampleColumns::read_rows(
    std::span<const uint32_t> rows, const io::ReadOptions& options) const {
  try {
    std::vector<RowBytes> out(rows.size());
    std::vector<RowBytes*> missing;
    for (size_t i = 0; i < rows.size(); ++i) {
      out[i].row = rows[i];
      auto found =
          source_.kept != nullptr ? source_.kept->get(kept_name_of(rows[i])) : std::nullopt;
      if (found && check_row(rows[i], *found).ok()) {
        out[i].bytes = std::move(*found);
      } else {
        missing.push_back(&out[i]);
      }
    }
    if (!missing.empty()) RETURN_IF_ERROR(read_missing(missing, options));
    return out;
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "{}: no memory to read its columns", source_.file.path());
  }
}

// Allocates the rows' memory, and returns the ranges of the file to read into it, in ascending
// order.
std::vector<io::Range> SampleColumns::ranges_of(std::span<RowBytes* const> rows) const {
  std::vector<uint64_t> filled(rows.size());
  std::vector<io::Range> ranges;
  for (RowBytes* row : rows) {
    const uint64_t samples = end_of_row(row->row) - row->row * kRowSamples;
    uint64_t bytes = 0;
    for (const PartColumn column : kColumns) bytes += samples * value_bytes(column);
    row->bytes.resize(bytes);
  }
  for (const PartColumn column : kColumns) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t first = uint64_t{rows[i]->row} * kRowSamples;
      const uint64_t length = (end_of_row(rows[i]->row) - first) * value_bytes(column);
      ranges.push_back(
          {.offset = source_.header.column(column).offset + first * value_bytes(column),
           .out = base::MutableBytes(rows[i]->bytes).subspan(filled[i], length)});
      filled[i] += length;
    }
  }
  return ranges;
}

Status SampleColumns::read_missing(std::span<RowBytes* const> rows,
                                   const io::ReadOptions& options) const {
  const std::vector<io::Range> ranges = ranges_of(rows);
  const Status status = with_second_read(true, [&]() -> Status {
    RETURN_IF_ERROR(io::read_ranges(source_.file, ranges, options));
    return check_rows(rows).at(source_.file.path());
  });
  RETURN_IF_ERROR(status);
  for (const RowBytes* row : rows) {
    if (source_.kept != nullptr) source_.kept->put(kept_name_of(row->row), row->bytes);
  }
  return {};
}

Status SampleColumns::check_rows(std::span<RowBytes* const> rows) const {
  for (const RowBytes* row : rows) RETURN_IF_ERROR(check_row(row->row, row->bytes));
  return {};
}

// Stores the rows that were claimed and read, or gives up the claim if the read failed. If the
// caller gave up because of its own options, another thread that waits for the rows reads them.
Status SampleColumns::take(std::span<const uint32_t> claimed,
                           const Result<std::vector<RowBytes>>& read, bool gave_up) {
  Rows& shared = rows();
  MutexLock lock(shared.mutex);
  for (const uint32_t number : claimed) {
    Row& row = shared.rows[number];
    row.is_loading = false;
    if (read || gave_up) continue;
    ++row.failures;
    row.failure = read.error();
  }
  shared.loaded.notify_all();
  RETURN_IF_ERROR(read);
  for (const RowBytes& row : *read) copy(row);
  return note_known(claimed, shared);
}

// Returns the chunks that have samples in a row: the first, and the one after the last.
std::pair<uint32_t, uint32_t> SampleColumns::chunks_in(uint32_t row) const {
  const auto& chunks = source_.chunks;
  const auto at = [&](uint64_t sample) {
    const auto after = std::ranges::upper_bound(chunks, sample, {}, &ChunkInfo::first_sample);
    return static_cast<uint32_t>(after - chunks.begin() - 1);
  };
  return {at(uint64_t{row} * kRowSamples), at(end_of_row(row) - 1) + 1};
}

// The caller holds the mutex. Other threads may be reading the values of chunks that are loaded, so
// these values are not written again.
void SampleColumns::copy(const RowBytes& row) {
  const uint32_t row_first = row.row * kRowSamples;
  const auto [begin, end] = chunks_in(row.row);
  for (uint32_t chunk = begin; chunk < end; ++chunk) {
    if (knows(chunk)) continue;
    const ChunkInfo& info = source_.chunks[chunk];
    const uint64_t first = std::max<uint64_t>(info.first_sample, row_first);
    const uint64_t last = std::min<uint64_t>(info.first_sample + info.samples, end_of_row(row.row));
    const uint8_t* from = row.bytes.data();
    for (const PartColumn column : kColumns) {
      const uint64_t each = value_bytes(column);
      std::memcpy(value(column, first), from + (first - row_first) * each, (last - first) * each);
      from += (end_of_row(row.row) - row_first) * each;
    }
  }
}

// Marks the chunks of these rows as loaded. Rows of chunks with impossible values are marked as not
// loaded, so that they are read again next time.
Status SampleColumns::note_known(std::span<const uint32_t> read, Rows& shared) {
  for (const uint32_t row : read) shared.rows[row].is_loaded = true;
  Status status;
  for (const uint32_t row : read) {
    const auto [begin, end] = chunks_in(row);
    for (uint32_t chunk = begin; chunk < end; ++chunk) {
      const ChunkInfo& info = source_.chunks[chunk];
      const uint64_t last = (info.first_sample + info.samples - 1) / kRowSamples;
      bool is_whole = true;
      for (uint64_t of = info.first_sample / kRowSamples; of <= last; ++of) {
        is_whole = is_whole && shared.rows[of].is_loaded;
      }
      if (knows(chunk) || !is_whole) continue;
      const Status checked = check_chunk(chunk);
      if (checked.ok()) {
        known_[chunk].store(true, std::memory_order_release);
      } else {
        shared.rows[row].is_loaded = false;
        if (status.ok()) status = checked;
      }
    }
  }
  return status;
}

}  // namespace forebay::store
