#include "store/pack/chunk_builder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/utf8.h"
#include "image/codec/orientation_tag.h"
#include "image/codec/png.h"
#include "jpeg/rewrite/rewrite.h"
#include "store/format/tar.h"
#include "store/format/target_fields.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

// Whether an error is about a file's content, and not about the disk or memory.
bool is_about_content(Code code) {
  return code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kTooBig;
}

// In a listing, the first field is the sample's image, and the second is the class.
constexpr uint16_t kImageField = 0;
constexpr uint16_t kClassField = 1;

void describe_rewritten(jpeg::Rewritten& rewritten, StoredFile* stored) {
  stored->width = rewritten.header.width;
  stored->height = rewritten.header.height;
  stored->subsampling = rewritten.header.subsampling();
  stored->restart = std::move(rewritten.index);
}

}  // namespace

ChunkBuilder::ChunkBuilder(const Listing& listing, const PackIdentity& identity)
    : listing_(listing),
      tar_fields_(identity.tar_fields),
      keep_damaged_(identity.keep_damaged),
      has_masks_(identity.masks),
      has_classes_(std::ranges::any_of(listing.schema.fields, [](const Field& field) {
        return field.kind == FieldKind::kClass;
      })) {
  index_.schema = listing.schema;
  if (identity.resize) shrinker_.emplace(*identity.resize);
}

Result<std::optional<Remark>> ChunkBuilder::add(const SourceSample& sample, Contents contents) {
  Draft draft;
  draft.sample.key = sample.key;
  draft.sample.source_path = sample.source_path;
  Status status;
  for (size_t i = 0; i < sample.files.size(); ++i) {
    const SourceFile& file = sample.files[i];
    stats.source_bytes += file.length;
    if (!status.ok()) continue;
    status =
        contents[i] ? add_file(std::move(*contents[i]), sample, file, &draft) : contents[i].error();
    if (sample.files.size() > 1 && !status.ok()) status = status.at("." + file.suffix);
  }
  if (!status.ok() && !is_about_content(status.code())) return tl::unexpected(std::move(status));
  if (!status.ok()) {
    stats.refused.push_back({sample.source_path, status.message()});
    return stats.refused.back();
  }
  if (sample.label >= 0) {
    const std::string number = std::to_string(sample.label);
    draft.sample.scalars.push_back({kClassField, sample.label});
    if (tar_fields_) {
      draft.members.push_back({sample.key + ".cls", ByteVector(number.begin(), number.end()), -1});
    }
  }
  std::sort(draft.sample.scalars.begin(), draft.sample.scalars.end(),
            [](const ScalarValue& a, const ScalarValue& b) { return a.field < b.field; });
  if (has_classes_ && class_of(index_.schema, draft.sample) < 0) {
    ++draft.stats.without_class;
    draft.stats.first_without_class = sample.key;
  }
  index_.samples.push_back(std::move(draft.sample));
  members_.push_back(std::move(draft.members));
  stats.add(draft.stats);
  ++stats.samples;
  return std::nullopt;
}

Status ChunkBuilder::add_file(ByteVector data, const SourceSample& sample, const SourceFile& file,
                              Draft* draft) {
  const FieldKind kind = listing_.schema.fields[file.field].kind;
  if (kind == FieldKind::kImage) return add_image(std::move(data), sample, file, draft);
  if (is_scalar(kind)) return add_scalar(std::move(data), file, draft);
  StoredFile stored;
  stored.field = file.field;
  stored.suffix = file.suffix;
  add_stored(std::move(stored), std::move(data), draft);
  return {};
}

Status ChunkBuilder::add_image(ByteVector data, const SourceSample& sample, const SourceFile& file,
                               Draft* draft) {
  StoredFile stored;
  stored.field = file.field;
  stored.suffix = file.suffix;
  const image::Format format = image::sniff(data);
  if (format == image::Format::kUnknown) {
    return fail(Code::kUnsupported, "{}",
                data.empty() ? "an empty file" : "not a JPEG, PNG or WebP");
  }
  if (has_masks_ && listing_.schema.fields[file.field].name == kMaskFields[0]) {
    RETURN_IF_ERROR(keep_mask(data, &stored, draft));
    add_stored(std::move(stored), std::move(data), draft);
    return {};
  }
  std::string why_kept(image::format_name(format));
  if (shrinker_ && file.field == kImageField) {
    ASSIGN_OR_RETURN(const bool is_added, add_smaller(data, file, draft, &why_kept));
    if (is_added) return {};
  }
  if (format != image::Format::kJpeg) {
    RETURN_IF_ERROR(keep_image(data, why_kept, &stored, draft));
  } else if (auto rewritten = jpeg::rewrite(data)) {
    ++draft->stats.rewritten;
    draft->stats.jpeg_bytes_in += data.size();
    draft->stats.jpeg_bytes_out += rewritten->file.size();
    describe_rewritten(*rewritten, &stored);
    data = std::move(rewritten->file);
  } else {
    RETURN_IF_ERROR(keep_jpeg(data, rewritten.error(), sample, &stored, draft));
  }
  add_stored(std::move(stored), std::move(data), draft);
  return {};
}

// Adds the image as a smaller JPEG. Returns false for an image that is small enough or cannot be
// made smaller; the caller then stores or refuses it as without --resize.
Result<bool> ChunkBuilder::add_smaller(Bytes data, const SourceFile& file, Draft* draft,
                                       std::string* why_kept) {
  const auto smaller = shrinker_->shrink(data);
  if (smaller && !*smaller) return false;
  auto rewritten = smaller ? jpeg::rewrite(**smaller) : tl::unexpected(smaller.error());
  if (!rewritten) {
    const Status& error = rewritten.error();
    if (!is_about_content(error.code())) return tl::unexpected(error);
    if (error.code() == Code::kUnsupported) *why_kept = error.message();
    return false;
  }
  ++draft->stats.resized;
  draft->stats.resized_bytes_in += data.size();
  draft->stats.resized_bytes_out += rewritten->file.size();
  StoredFile stored;
  stored.field = file.field;
  // The listing prefers jpg and jpeg as the sample's image, so no other file has the new name.
  stored.suffix = file.suffix == "jpeg" ? "jpeg" : "jpg";
  describe_rewritten(*rewritten, &stored);
  add_stored(std::move(stored), std::move(rewritten->file), draft);
  return true;
}

// Checks that a mask has labels or colours that a palette turns into labels, and is as large as the
// sample's image, either as stored or as shown after applying its orientation. The image is the
// first file of the draft.
Status ChunkBuilder::keep_mask(Bytes data, StoredFile* stored, Draft* draft) {
  const bool has_colours = image::has_png_colours(data);
  const auto decode = has_colours ? image::decode_png_colours : image::decode_png_labels;
  RETURN_IF_ERROR(decode(data, &pixels_));
  const image::Size own{pixels_.width, pixels_.height};
  const image::Size of_image{draft->sample.files.front().width, draft->sample.files.front().height};
  const Bytes file = draft->members.front().data;
  const auto shown = [&] {
    return image::turned(of_image, image::read_orientation(image::sniff(file), file));
  };
  if (own != of_image && own != shown()) {
    return fail(Code::kCorrupt, "the mask has {} x {} pixels, but its image has {} x {}", own.width,
                own.height, of_image.width, of_image.height);
  }
  stored->width = pixels_.width;
  stored->height = pixels_.height;
  ++draft->stats.kept[has_colours ? "masks in colours: give Dataset a palette" : "masks"];
  return {};
}

// Stores an image unchanged. Decodes it first, so that every image in a dataset can be decoded.
Status ChunkBuilder::keep_image(Bytes data, const std::string& why, StoredFile* stored,
                                Draft* draft) {
  RETURN_IF_ERROR(decoder_.decode(data, std::nullopt, &pixels_));
  stored->width = pixels_.width;
  stored->height = pixels_.height;
  ++draft->stats.kept[why];
  return {};
}

// Stores a JPEG that could not be rewritten unchanged. The reasons begin with "JPEG: " and contain
// no numbers, because files are counted by reason.
Status ChunkBuilder::keep_jpeg(Bytes data, const Status& not_rewritten, const SourceSample& sample,
                               StoredFile* stored, Draft* draft) {
  if (!is_about_content(not_rewritten.code())) return not_rewritten;
  std::string why = not_rewritten.code() == Code::kUnsupported ? not_rewritten.message()
                                                               : "JPEG: its segments are malformed";
  Status status = decoder_.decode(data, std::nullopt, &pixels_);
  if (status.code() == Code::kCorrupt && keep_damaged_) {
    why = "JPEG: damaged";
    status = decoder_of_damaged_.decode(data, std::nullopt, &pixels_);
  }
  RETURN_IF_ERROR(status);
  stored->width = pixels_.width;
  stored->height = pixels_.height;
  ++draft->stats.kept[why];
  if (const auto header = jpeg::parse_header(data)) stored->subsampling = header->subsampling();
  draft->stats.kept_jpegs.push_back({sample.source_path, why});
  return {};
}

Status ChunkBuilder::add_scalar(ByteVector data, const SourceFile& file, Draft* draft) {
  ScalarValue scalar{.field = file.field, .value = {}};
  const FieldKind kind = listing_.schema.fields[file.field].kind;
  if (kind == FieldKind::kClass) {
    ASSIGN_OR_RETURN(scalar.value, parse_class(data));
    const std::string number = std::to_string(std::get<int64_t>(scalar.value));
    data.assign(number.begin(), number.end());
  } else {
    const std::string text(base::as_text(data));
    if (!base::is_utf8(text)) return fail(Code::kCorrupt, "not UTF-8");
    if (kind == FieldKind::kJson && !nlohmann::json::accept(text)) {
      return fail(Code::kCorrupt, "not JSON");
    }
    scalar.value = text;
  }
  draft->sample.scalars.push_back(std::move(scalar));
  if (file.shard == kNoShard && !tar_fields_) return {};
  // A shard's scalars stay members of the tar, where a WebDataset reader finds them.
  draft->members.push_back({draft->sample.key + "." + file.suffix, std::move(data), -1});
  return {};
}

// Adds a file. Sets its length and checksum.
void ChunkBuilder::add_stored(StoredFile stored, ByteVector data, Draft* draft) {
  stored.length = data.size();
  stored.crc32c = base::crc32c(data);
  const auto number = static_cast<int32_t>(draft->sample.files.size());
  draft->members.push_back({draft->sample.key + "." + stored.suffix, std::move(data), number});
  draft->sample.files.push_back(std::move(stored));
}

uint64_t ChunkBuilder::lay_out() {
  // The size of the index does not depend on the offsets, so its second encoding has the same size.
  const uint64_t index_bytes = encode_chunk_index(index_).size();
  uint64_t at = tar_member_bytes(kChunkIndexName, index_bytes);
  for (size_t s = 0; s < members_.size(); ++s) {
    for (const Member& member : members_[s]) {
      if (member.file >= 0) {
        index_.samples[s].files[static_cast<size_t>(member.file)].offset =
            at + tar_header_bytes(member.name);
      }
      at += tar_member_bytes(member.name, member.data.size());
    }
  }
  encoded_index_ = encode_chunk_index(index_);
  FOREBAY_CHECK(encoded_index_.size() == index_bytes);
  return at + kTarEndBytes;
}

Result<ChunkBuilder::Finished> ChunkBuilder::finish() {
  Finished chunk;
  chunk.bytes = lay_out();
  chunk.index_bytes = encoded_index_.size();
  if (chunk.bytes > base::kChunkBytesMax || chunk.index_bytes > base::kChunkIndexBytesMax) {
    return fail(Code::kTooBig, "a chunk of {}, the limit is {}; give a smaller --chunk-bytes",
                base::human_bytes(chunk.bytes), base::human_bytes(base::kChunkBytesMax));
  }
  // Each member's content, and its position in the frame.
  std::vector<std::pair<size_t, Bytes>> contents;
  const auto add = [&](std::string_view name, Bytes data) {
    append_tar_header(name, data.size(), &frame_);
    contents.emplace_back(frame_.size(), data);
    append_tar_padding(data.size(), &frame_);
  };
  add(kChunkIndexName, encoded_index_);
  for (const auto& members : members_) {
    for (const Member& member : members) add(member.name, member.data);
  }
  append_tar_end(&frame_);
  size_t begin = 0;
  for (const auto& [end, content] : contents) {
    chunk.pieces.push_back(Bytes(frame_).subspan(begin, end - begin));
    chunk.pieces.push_back(content);
    begin = end;
  }
  chunk.pieces.push_back(Bytes(frame_).subspan(begin));
  base::Sha256Stream hash;
  uint64_t bytes = 0;
  for (const Bytes piece : chunk.pieces) {
    hash.add(piece);
    bytes += piece.size();
  }
  FOREBAY_CHECK(bytes == chunk.bytes);
  chunk.id = hash.finish();
  return chunk;
}

}  // namespace forebay::store
