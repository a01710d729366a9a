#include "store/check/verify_chunk.h"

#include "base/limits.h"
#include "io/blocking_file.h"
#include "jpeg/format/restart_index.h"
#include "store/format/tar.h"
#include "store/second_read.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

// Returns the content of a scalar's tar member.
std::string member_text(const ScalarValue& scalar) {
  if (const auto* number = std::get_if<int64_t>(&scalar.value)) return std::to_string(*number);
  return std::get<std::string>(scalar.value);
}

}  // namespace

Result<ChunkVerifier::Outcome> ChunkVerifier::check(const std::string& path, const base::Sha256& id,
                                                    int64_t number) {
  path_ = path;
  number_ = number;
  out_ = {};
  const Status status = with_second_read(origin_.is_remote(path), [&]() -> Status {
    RETURN_IF_ERROR(read(path));
    const base::Sha256 found = base::sha256(data_);
    if (found == id) return {};
    return fail(Code::kCorrupt, "its SHA-256 is {}, not its name", base::to_hex(found));
  });
  if (io::is_unanswered(status.code())) return tl::unexpected(status);
  if (!status.ok()) add({}, -1, status.message());
  if (!status.ok() && status.code() != Code::kCorrupt) return std::move(out_);
  // A wrong hash does not tell where the damage is, so all other checks still follow.
  out_.bytes = data_.size();
  check_tar();
  if (out_.index) {
    for (const IndexedSample& sample : out_.index->samples) {
      for (const StoredFile& stored : sample.files) check_file(sample, stored);
    }
  }
  return std::move(out_);
}

Status ChunkVerifier::read(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, origin_.open(path));
  const uint64_t size = file->identity().size;
  if (size > base::kChunkBytesMax) {
    return fail(Code::kTooBig, "{} bytes, above the limit of a chunk", size);
  }
  data_.resize(size);
  return file->read(0, data_);
}

void ChunkVerifier::add(std::string sample, int64_t offset, std::string what) {
  out_.damages.push_back({path_, number_, std::move(sample), offset, std::move(what)});
}

// Checks that the tar has the index and then exactly the files of the samples, in order and with
// pack's layout, and that all other members are scalars with the index's values.
void ChunkVerifier::check_tar() {
  ExpectedFiles expected;
  SamplesByKey samples;
  // The tar is read from memory, because reading its headers from a remote origin would take
  // thousands of requests.
  const io::LoadedFile file(path_, data_);
  TarReader reader(file);
  uint64_t at = 0;
  for (bool first = true;; first = false) {
    const auto next = reader.next();
    if (!next) {
      add({}, static_cast<int64_t>(at), "tar: " + next.error().message());
      break;
    }
    if (!*next) break;
    const TarMember& member = **next;
    const Bytes content = Bytes(data_).subspan(member.offset, member.size);
    if (member.type != TarType::kFile || member.offset != at + tar_header_bytes(member.name)) {
      add({}, static_cast<int64_t>(at),
          "tar: a member \"" + member.name + "\" that pack never writes");
    }
    at += tar_member_bytes(member.name, member.size);
    if (!first) {
      check_member(member, content, samples, &expected);
    } else if (!read_index(member, content, &samples, &expected)) {
      return;
    }
  }
  for (const auto& [offset, wanted] : expected) {
    add({}, static_cast<int64_t>(offset), "tar: no member \"" + wanted.first + "\" here");
  }
  if (expected.empty() && (!reader.has_end_mark() || at + kTarEndBytes != data_.size())) {
    add({}, static_cast<int64_t>(at), "tar: its end is not as pack writes it");
  }
}

bool ChunkVerifier::read_index(const TarMember& member, Bytes content, SamplesByKey* samples,
                               ExpectedFiles* expected) {
  if (member.name != kChunkIndexName) {
    add({}, 0, "tar: the first member is not the index");
    return false;
  }
  auto index = decode_chunk_index(content, data_.size());
  if (!index) {
    add({}, static_cast<int64_t>(member.offset), index.error().message());
    return false;
  }
  out_.index = std::move(*index);
  for (const IndexedSample& sample : out_.index->samples) {
    samples->emplace(sample.key, &sample);
    for (const StoredFile& stored : sample.files) {
      (*expected)[stored.offset] = {sample.key + "." + stored.suffix, stored.length};
    }
  }
  return true;
}

void ChunkVerifier::check_member(const TarMember& member, Bytes content,
                                 const SamplesByKey& samples, ExpectedFiles* expected) {
  const auto found = expected->find(member.offset);
  if (found == expected->end()) {
    return check_scalar_member(samples, member.name, member.offset, content);
  }
  if (found->second != std::pair(member.name, member.size)) {
    add({}, static_cast<int64_t>(member.offset),
        fmt::format("tar: a member \"{}\" of {} bytes where the index has \"{}\" of {}",
                    member.name, member.size, found->second.first, found->second.second));
  }
  expected->erase(found);
}

void ChunkVerifier::check_scalar_member(const SamplesByKey& samples, const std::string& name,
                                        uint64_t offset, Bytes content) {
  const size_t base = name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1;
  const std::string key = name.substr(0, name.find('.', base));
  const auto sample = samples.find(key);
  if (sample != samples.end()) {
    for (const ScalarValue& scalar : sample->second->scalars) {
      if (member_text(scalar) == base::as_text(content)) return;
    }
  }
  add(key, static_cast<int64_t>(offset),
      "tar: a member \"" + name + "\" that is neither a file nor a value of the index");
}

void ChunkVerifier::check_file(const IndexedSample& sample, const StoredFile& file) {
  // decode_chunk_index() checked that the file lies inside the chunk.
  const Bytes bytes = Bytes(data_).subspan(file.offset, file.length);
  const uint32_t crc = base::crc32c(bytes);
  if (crc != file.crc32c) {
    add(sample.key, static_cast<int64_t>(file.offset),
        fmt::format(".{}: CRC32C {:08x}, the index has {:08x}", file.suffix, crc, file.crc32c));
  }
  if (file.restart) check_restart(sample, file, bytes);
  const bool image = out_.index->schema.fields[file.field].kind == FieldKind::kImage;
  if (pixels_ && image && crc == file.crc32c) check_pixels(sample, file, bytes);
}

void ChunkVerifier::check_restart(const IndexedSample& sample, const StoredFile& file,
                                  Bytes bytes) {
  const jpeg::RestartIndex& restart = *file.restart;
  const auto complain = [&](uint64_t at, std::string what) {
    add(sample.key, static_cast<int64_t>(file.offset + at), "." + file.suffix + ": " + what);
  };
  if (restart.file_bytes() != bytes.size()) {
    return complain(0, "its segments do not add up to its length");
  }
  const Bytes header_bytes = bytes.first(restart.header_bytes);
  if (base::crc32c(header_bytes) != restart.header_crc32c) {
    complain(0, "the header's CRC32C does not match");
  } else if (const auto header = jpeg::parse_header(bytes); !header) {
    complain(0, header.error().message());
  } else if (header->width != file.width || header->height != file.height ||
             header->subsampling() != file.subsampling ||
             header->header_bytes != restart.header_bytes ||
             header->segment_count() != restart.segments.size()) {
    complain(0, "the header's size, sampling or number of segments differs from the index");
  }
  uint64_t at = restart.header_bytes;
  for (size_t i = 0; i < restart.segments.size(); ++i) {
    const jpeg::SegmentEntry& segment = restart.segments[i];
    const auto check = static_cast<uint16_t>(base::crc32c(bytes.subspan(at, segment.length)));
    if (check != segment.check) complain(at, fmt::format("segment {} is damaged", i));
    at += segment.length;
    const bool last = i + 1 == restart.segments.size();
    const uint8_t marker = last ? 0xd9 : static_cast<uint8_t>(0xd0 + i % 8);
    if (bytes[at] != 0xff || bytes[at + 1] != marker) {
      complain(at, fmt::format("no marker after segment {}", i));
    }
    at += 2;
  }
}

void ChunkVerifier::check_pixels(const IndexedSample& sample, const StoredFile& file, Bytes bytes) {
  base::Pixels full;
  const Status status = decoder_.decode(bytes, std::nullopt, &full);
  ++out_.images_decoded;
  const auto at = static_cast<int64_t>(file.offset);
  if (!status.ok()) {
    add(sample.key, at, "." + file.suffix + ": " + status.message());
  } else if (full.width != file.width || full.height != file.height) {
    add(sample.key, at,
        fmt::format(".{}: {} x {} pixels, the index has {} x {}", file.suffix, full.width,
                    full.height, file.width, file.height));
  } else if (file.restart) {
    check_region(sample, file, bytes, std::move(full));
  }
}

// Compares the middle of the image, decoded from its own segments, with the full decode.
void ChunkVerifier::check_region(const IndexedSample& sample, const StoredFile& file, Bytes bytes,
                                 base::Pixels full) {
  const base::Rect crop{full.width / 4, full.height / 4, (full.width + 1) / 2,
                        (full.height + 1) / 2};
  const auto decode = [&]() -> Result<base::Pixels> {
    ASSIGN_OR_RETURN(const ByteVector part, jpeg::extract_region(*file.restart, bytes, crop));
    base::Pixels region;
    RETURN_IF_ERROR(decoder_.decode(part, crop, &region));
    return region;
  };
  const auto region = decode();
  full.crop(crop);
  if (region && region->rgb == full.rgb) return;
  add(sample.key, static_cast<int64_t>(file.offset),
      "." + file.suffix + ": its middle, decoded by itself, " +
          (region ? "has other pixels than the whole image"
                  : "fails: " + region.error().message()));
}

}  // namespace forebay::store
