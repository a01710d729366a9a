#include "feed/chunk_indexes.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "store/format/tar.h"

namespace forebay::feed {

using base::Bytes;
using base::Code;
using base::MutexLock;

namespace {

// Nothing in an index is trusted: an image is left out when its parts would not make its file.
bool has_parts(const store::StoredFile& file) {
  if (!file.restart || file.restart->segments.size() < 2) return false;
  const auto is_side = [](uint32_t side) { return side > 0 && side <= base::kImageSideMax; };
  return is_side(file.width) && is_side(file.height) && file.length <= base::kImageBytesMax &&
         file.restart->header_bytes > 0 && file.restart->file_bytes() == file.length &&
         std::ranges::none_of(file.restart->segments, [](const jpeg::SegmentEntry& segment) {
           return segment.length == 0;
         });
}

}  // namespace

IndexedChunk::IndexedChunk(const store::ChunkIndex& index) {
  for (const store::IndexedSample& sample : index.samples) {
    const store::StoredFile* file = store::image_file(index.schema, sample);
    if (file == nullptr || !has_parts(*file)) continue;
    images_.push_back({.offset = file->offset,
                       .length = file->length,
                       .width = file->width,
                       .height = file->height,
                       .subsampling = file->subsampling,
                       .restart = *file->restart});
    bytes_ += sizeof(IndexedImage) + sizeof(base::ByteVector) + file->restart->header_bytes +
              file->restart->segments.size() * sizeof(jpeg::SegmentEntry);
  }
  std::ranges::sort(images_, {}, &IndexedImage::offset);
  MutexLock lock(mutex_);
  headers_.resize(images_.size());
}

const IndexedImage* IndexedChunk::image(uint64_t offset, uint64_t length) const {
  const auto found = std::ranges::lower_bound(images_, offset, {}, &IndexedImage::offset);
  const bool fits = found != images_.end() && found->offset == offset && found->length == length;
  return fits ? &*found : nullptr;
}

Bytes IndexedChunk::header(const IndexedImage& image) const {
  MutexLock lock(mutex_);
  return headers_[number(image)];
}

void IndexedChunk::keep_header(const IndexedImage& image, Bytes header) {
  MutexLock lock(mutex_);
  base::ByteVector& kept = headers_[number(image)];
  if (kept.empty()) kept.assign(header.begin(), header.end());
}

std::shared_ptr<IndexedChunk> ChunkIndexes::find(const base::Sha256& id) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  found->second.used = ++uses_;
  return found->second.chunk;
}

std::shared_ptr<IndexedChunk> ChunkIndexes::get(uint32_t chunk, const io::ReadOptions& options) {
  const base::Sha256& id = dataset_.chunk(chunk).id;
  if (id == base::Sha256{}) return nullptr;  // data in place
  MutexLock lock(mutex_);
  for (;;) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) break;
    found->second.used = ++uses_;
    if (!found->second.reading) return found->second.chunk;
    read_.wait(mutex_);
  }
  entries_[id] = {.chunk = nullptr, .reading = true, .used = ++uses_};
  mutex_.unlock();
  bool again = true;
  const std::shared_ptr<IndexedChunk> indexed = read(chunk, options, &again);
  mutex_.lock();
  read_.notify_all();
  if (again) {
    entries_.erase(id);
  } else {
    Entry& entry = entries_[id];
    entry.chunk = indexed;
    entry.reading = false;
    bytes_ += indexed == nullptr ? 0 : indexed->bytes();
    drop_oldest();
  }
  return indexed;
}

// Sets `again` to whether a later attempt may find an index. A damaged index will not get better;
// whoever reads its samples finds out whether they are damaged too.
std::shared_ptr<IndexedChunk> ChunkIndexes::read(uint32_t chunk, const io::ReadOptions& options,
                                                 bool* again) {
  try {
    const auto index = dataset_.read_stored_index(chunk, options);
    const Code code = index ? Code::kOk : index.error().code();
    *again = code != Code::kOk && code != Code::kUnsupported && code != Code::kCorrupt;
    if (code != Code::kUnsupported) ++reads_;
    if (!index) return nullptr;
    bytes_read_ += store::kTarBlockBytes + dataset_.chunk(chunk).index_bytes;
    return std::make_shared<IndexedChunk>(*index);
  } catch (const std::bad_alloc&) {
    *again = true;
    return nullptr;
  }
}

void ChunkIndexes::drop_oldest() {
  while (bytes_ > bytes_max_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->second.chunk == nullptr) continue;
      if (oldest == entries_.end() || entry->second.used < oldest->second.used) oldest = entry;
    }
    bytes_ -= oldest->second.chunk->bytes();
    entries_.erase(oldest);
  }
}

}  // namespace forebay::feed
