#include "prep/server/held_tables.h"

#include <algorithm>

#include "base/checksum.h"
#include "io/machine.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr size_t kTablesMost = 1000;

}  // namespace

std::list<HeldTables::Held>::iterator HeldTables::to_front(const std::string& name) {
  const auto found = std::ranges::find(tables_, name, &Held::name);
  if (found == tables_.end()) return found;
  tables_.splice(tables_.begin(), tables_, found);
  return tables_.begin();
}

void HeldTables::drop(std::list<Held>::iterator table) {
  bytes_ -= table->bytes;
  tables_.erase(table);
}

Status HeldTables::put(const TablePiece& piece, Bytes bytes) {
  if (!base::sha256_from_hex(piece.table) || bytes.empty() ||
      !base::in_bounds(piece.offset, bytes.size(), piece.bytes)) {
    return fail(Code::kInvalid, "prep: this is no valid piece of a table");
  }
  if (piece.bytes > bytes_max_) {
    return fail(Code::kNoMemory, "prep: a table of {} is too large here; raise --memory-bytes",
                base::human_bytes(piece.bytes));
  }
  MutexLock lock(mutex_);
  auto found = to_front(piece.table);
  if (found == tables_.end() && piece.offset == 0) {
    while (piece.bytes > bytes_max_ - bytes_ || tables_.size() == kTablesMost)
      drop(std::prev(tables_.end()));
    tables_.push_front({piece.table, piece.bytes, std::make_shared<ByteVector>()});
    bytes_ += piece.bytes;
    found = tables_.begin();
  }
  // The table's beginning may have been dropped to make room for other tables.
  const bool follows = found != tables_.end() && piece.bytes == found->bytes &&
                       piece.offset <= found->filled->size();
  if (!follows) {
    return fail(Code::kUnavailable, "prep: the bytes before byte {} of a table are missing",
                piece.offset);
  }
  found->put_ns = io::monotonic_ns();
  ByteVector& filled = *found->filled;
  if (piece.offset + bytes.size() <= filled.size()) return {};
  const Bytes rest = bytes.subspan(filled.size() - piece.offset);
  filled.insert(filled.end(), rest.begin(), rest.end());
  if (filled.size() < piece.bytes || base::to_hex(base::sha256(filled)) == piece.table) return {};
  drop(found);
  return fail(Code::kUnavailable, "prep: a table's name is not the SHA-256 of its bytes");
}

void HeldTables::drop_unfinished(int64_t before_ns) {
  MutexLock lock(mutex_);
  for (auto at = tables_.begin(); at != tables_.end();) {
    const auto table = at++;
    if (table->filled->size() < table->bytes && table->put_ns < before_ns) drop(table);
  }
}

std::shared_ptr<const ByteVector> HeldTables::find(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = to_front(name);
  if (found == tables_.end() || found->filled->size() < found->bytes) return nullptr;
  return found->filled;
}

}  // namespace forebay::prep
