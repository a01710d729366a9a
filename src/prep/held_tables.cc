#include "prep/held_tables.h"

#include <algorithm>

#include "base/checksum.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;

std::list<HeldTables::Held>::iterator HeldTables::to_front(const std::string& name) {
  const auto found = std::ranges::find(tables_, name, &Held::name);
  if (found == tables_.end()) return found;
  tables_.splice(tables_.begin(), tables_, found);
  return tables_.begin();
}

Status HeldTables::put(const TablePiece& piece, Bytes bytes) {
  if (piece.bytes > bytes_max_) {
    return fail(Code::kNoMemory, "prep: a table of {} is too large here; raise --memory-bytes",
                base::human_bytes(piece.bytes));
  }
  MutexLock lock(mutex_);
  auto found = to_front(piece.table);
  if (found == tables_.end()) {
    while (piece.bytes > bytes_max_ - bytes_) {
      bytes_ -= tables_.back().bytes;
      tables_.pop_back();
    }
    tables_.push_front({piece.table, piece.bytes, std::make_shared<ByteVector>()});
    bytes_ += piece.bytes;
    found = tables_.begin();
  }
  ByteVector& filled = *found->filled;
  const bool fits = piece.bytes == found->bytes && piece.offset <= filled.size() &&
                    base::in_bounds(piece.offset, bytes.size(), piece.bytes);
  if (!fits) {
    return fail(Code::kInvalid, "prep: {} bytes at byte {} of a table do not follow what is here",
                bytes.size(), piece.offset);
  }
  if (piece.offset + bytes.size() <= filled.size()) return {};
  const Bytes rest = bytes.subspan(filled.size() - piece.offset);
  filled.insert(filled.end(), rest.begin(), rest.end());
  if (filled.size() < piece.bytes || base::to_hex(base::sha256(filled)) == piece.table) return {};
  bytes_ -= found->bytes;
  tables_.erase(found);
  return fail(Code::kInvalid, "prep: a table's bytes are not those that its name says");
}

std::shared_ptr<const ByteVector> HeldTables::find(const std::string& name) {
  MutexLock lock(mutex_);
  const auto found = to_front(name);
  if (found == tables_.end() || found->filled->size() < found->bytes) return nullptr;
  return found->filled;
}

}  // namespace forebay::prep
