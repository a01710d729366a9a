#include "feed/read/chunk_indexes.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "store/format/tar.h"
#include "store/kept.h"

namespace forebay::feed {

using base::Bytes;
using base::Code;
using base::MutexLock;

namespace {

// Headers are written when one in this many of a chunk's headers is new: a group of samples may
// come and go in many slices, and each time all headers of the chunk are written.
constexpr size_t kNewShare = 4;

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
  if (!kept.empty()) return;
  kept.assign(header.begin(), header.end());
  ++known_;
  ++new_;
}

// Each header is its image's number (u32) and its bytes with their length before them.
base::ByteVector IndexedChunk::encode_headers() {
  base::ByteVector out;
  base::ByteWriter writer(&out);
  MutexLock lock(mutex_);
  for (size_t i = 0; i < headers_.size(); ++i) {
    if (headers_[i].empty()) continue;
    writer.number(static_cast<uint32_t>(i));
    writer.sized(base::as_text(headers_[i]));
  }
  new_ = 0;
  return out;
}

void IndexedChunk::add_headers(Bytes encoded) {
  base::ByteReader reader(encoded);
  MutexLock lock(mutex_);
  while (reader.remaining() > 0) {
    const auto image = reader.number<uint32_t>();
    const auto length = reader.number<uint32_t>();
    const Bytes header = reader.bytes(length);
    if (!reader.ok() || image >= images_.size()) return;
    const jpeg::RestartIndex& restart = images_[image].restart;
    const bool is_right =
        header.size() == restart.header_bytes && base::crc32c(header) == restart.header_crc32c;
    if (!is_right || !headers_[image].empty()) continue;
    headers_[image].assign(header.begin(), header.end());
    ++known_;
  }
}

bool IndexedChunk::has_new_headers() const {
  MutexLock lock(mutex_);
  return new_ > 0;
}

bool IndexedChunk::has_many_new_headers() const {
  MutexLock lock(mutex_);
  return new_ > 0 && (known_ == images_.size() || new_ >= images_.size() / kNewShare);
}

ChunkIndexes::~ChunkIndexes() {
  MutexLock lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry.chunk != nullptr && entry.chunk->has_new_headers()) {
      write_headers(entry.number, *entry.chunk);
    }
  }
}

bool ChunkIndexes::is_kept(uint32_t chunk) const {
  const io::KeptFiles* const kept = dataset_.kept(chunk);
  return kept != nullptr &&
         kept->has(store::kept_name(dataset_.chunk(chunk).id, store::kKeptIndex));
}

void ChunkIndexes::keep_headers(uint32_t number, IndexedChunk& chunk) const {
  if (chunk.has_many_new_headers()) write_headers(number, chunk);
}

// Headers that other processes have kept meanwhile must stay.
void ChunkIndexes::write_headers(uint32_t number, IndexedChunk& chunk) const {
  const io::KeptFiles* const kept = dataset_.kept(number);
  if (kept == nullptr) return;
  try {
    const std::string name = store::kept_name(dataset_.chunk(number).id, store::kKeptHeaders);
    if (const auto there = kept->get(name)) chunk.add_headers(*there);
    kept->put(name, chunk.encode_headers());
  } catch (const std::bad_alloc&) {
    // The headers will be read again.
  }
}

std::shared_ptr<IndexedChunk> ChunkIndexes::find(const base::Sha256& id) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  found->second.used = ++uses_;
  return found->second.chunk;
}

Result<std::shared_ptr<IndexedChunk>> ChunkIndexes::get(uint32_t chunk,
                                                        const io::ReadOptions& options) {
  const base::Sha256& id = dataset_.chunk(chunk).id;
  if (id == base::Sha256{}) return std::shared_ptr<IndexedChunk>();  // data in place
  MutexLock lock(mutex_);
  for (;;) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) break;
    found->second.used = ++uses_;
    if (!found->second.reading) return found->second.chunk;
    const uint64_t failures = failures_;
    read_.wait(mutex_);
    // If the other thread's read failed, another read would fail too, after the same time.
    if (failures_ != failures && failed_ == id && failure_.code() != Code::kCancelled) {
      return tl::unexpected(failure_);
    }
  }
  entries_[id] = {.chunk = nullptr, .number = chunk, .reading = true, .used = ++uses_};
  mutex_.unlock();
  const auto indexed = read(chunk, options);
  mutex_.lock();
  read_.notify_all();
  if (!indexed) {
    entries_.erase(id);
    ++failures_;
    failure_ = indexed.error();
    failed_ = id;
    return indexed;
  }
  Entry& entry = entries_[id];
  entry.chunk = *indexed;
  entry.reading = false;
  bytes_ += *indexed == nullptr ? 0 : (*indexed)->bytes();
  const std::vector<Entry> dropped = drop_oldest();
  mutex_.unlock();
  for (const Entry& one : dropped) {
    if (one.chunk->has_new_headers()) write_headers(one.number, *one.chunk);
  }
  mutex_.lock();
  return indexed;
}

// A damaged index, or one that claims to be larger than an index may be, counts as none: reading
// the samples shows whether they are damaged too.
Result<std::shared_ptr<IndexedChunk>> ChunkIndexes::read(uint32_t chunk,
                                                         const io::ReadOptions& options) {
  try {
    const bool was_kept = is_kept(chunk);
    const auto index = dataset_.read_stored_index(chunk, options);
    const Code code = index ? Code::kOk : index.error().code();
    if (code != Code::kUnsupported && !was_kept) ++reads_;
    if (code == Code::kUnsupported || code == Code::kCorrupt || code == Code::kTooBig) {
      return std::shared_ptr<IndexedChunk>();
    }
    if (!index) return tl::unexpected(index.error());
    if (!was_kept) bytes_read_ += store::kTarBlockBytes + dataset_.chunk(chunk).index_bytes;
    auto indexed = std::make_shared<IndexedChunk>(*index);
    if (const io::KeptFiles* const kept = dataset_.kept(chunk)) {
      const auto headers =
          kept->get(store::kept_name(dataset_.chunk(chunk).id, store::kKeptHeaders));
      if (headers) indexed->add_headers(*headers);
    }
    return indexed;
  } catch (const std::bad_alloc&) {
    return base::fail(Code::kNoMemory, "no memory for the index of {}",
                      dataset_.chunk_label(chunk));
  }
}

// Drops the least recently used indexes, until the others fit the limit.
std::vector<ChunkIndexes::Entry> ChunkIndexes::drop_oldest() {
  std::vector<Entry> dropped;
  while (bytes_ > bytes_max_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->second.chunk == nullptr) continue;
      if (oldest == entries_.end() || entry->second.used < oldest->second.used) oldest = entry;
    }
    bytes_ -= oldest->second.chunk->bytes();
    dropped.push_back(std::move(oldest->second));
    entries_.erase(oldest);
  }
  return dropped;
}

}  // namespace forebay::feed
