#include "store/check/inspect.h"

#include <algorithm>
#include <charconv>

#include "image/codec/decode.h"
#include "jpeg/format/header.h"
#include "store/format/tar.h"
#include "store/in_place_dataset.h"
#include "store/pack/report.h"
#include "store/stored_snapshot.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

std::string_view kind_name(FieldKind kind) {
  switch (kind) {
    case FieldKind::kImage:
      return "image";
    case FieldKind::kBytes:
      return "bytes";
    case FieldKind::kClass:
      return "class";
    case FieldKind::kJson:
      return "json";
    case FieldKind::kText:
      return "text";
  }
  return "?";
}

std::string class_name(const Schema& schema, int64_t label) {
  if (label < 0) return {};
  const auto number = static_cast<size_t>(label);
  return number < schema.classes.size() ? schema.classes[number] : std::to_string(label);
}

struct FoundSample {
  uint32_t chunk = 0;
  IndexedSample sample;
};

Result<FoundSample> find_sample(const Dataset& dataset, const std::string& key) {
  ASSIGN_OR_RETURN(const auto number, dataset.find(key));
  if (!number) return fail(Code::kNotFound, "{}: no sample \"{}\"", dataset.path(), key);
  const uint32_t chunk = dataset.chunk_of(*number);
  ASSIGN_OR_RETURN(ChunkIndex index, dataset.read_chunk_index(chunk));
  const uint64_t at = *number - dataset.chunk(chunk).first_sample;
  if (at >= index.samples.size()) {
    return fail(Code::kCorrupt, "{}: its index lacks sample {}", dataset.chunk_label(chunk), at);
  }
  return FoundSample{chunk, std::move(index.samples[at])};
}

// Finds a chunk by the first digits of its hash or by its number.
std::optional<uint32_t> find_chunk(const Dataset& dataset, const std::string& name) {
  constexpr size_t kDigitsMin = 6;
  if (name.size() >= kDigitsMin && !dataset.in_place()) {
    for (uint32_t i = 0; i < dataset.chunk_count(); ++i) {
      if (base::to_hex(dataset.chunk(i).id).starts_with(name)) return i;
    }
  }
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && number < dataset.chunk_count() ? std::optional(number) : std::nullopt;
}

std::string describe_file(const Schema& schema, const StoredFile& file) {
  std::string out = fmt::format(
      "  .{} (field \"{}\"): {} bytes from byte {} of the chunk, CRC32C {:08x}\n", file.suffix,
      schema.fields[file.field].name, file.length, file.offset, file.crc32c);
  if (file.width > 0) {
    out += fmt::format("    {} x {} pixels", file.width, file.height);
    if (file.subsampling != jpeg::Subsampling::kUnknown) {
      out += fmt::format(", JPEG {}", jpeg::subsampling_name(file.subsampling));
    }
    out += "\n";
  }
  if (file.restart) {
    const auto& segments = file.restart->segments;
    uint64_t total = 0;
    for (const auto& segment : segments) total += segment.length;
    out += fmt::format("    rewritten: {} bytes of header, {} of {} bytes on average\n",
                       file.restart->header_bytes, base::counted(segments.size(), "segment"),
                       total / segments.size());
  } else if (schema.fields[file.field].kind == FieldKind::kImage) {
    out += "    kept as it was in the source\n";
  }
  return out;
}

std::string describe_sample(const Dataset& dataset, const FoundSample& found) {
  const Schema& schema = dataset.schema();
  std::string out =
      fmt::format("sample \"{}\"\n  source: {}\n  chunk {}: {}\n", found.sample.key,
                  found.sample.source_path, found.chunk, dataset.chunk_label(found.chunk));
  for (const ScalarValue& scalar : found.sample.scalars) {
    const std::string& name = schema.fields[scalar.field].name;
    if (const auto* number = std::get_if<int64_t>(&scalar.value)) {
      out += fmt::format("  {}: {} {}\n", name, *number,
                         schema.classes.empty() ? "" : class_name(schema, *number));
    } else {
      out += fmt::format("  {}: {}\n", name, std::get<std::string>(scalar.value));
    }
  }
  for (const StoredFile& file : found.sample.files) out += describe_file(schema, file);
  return out;
}

Result<std::string> describe_chunk(const Dataset& dataset, uint32_t number) {
  const ChunkInfo& info = dataset.chunk(number);
  ASSIGN_OR_RETURN(const ChunkIndex index, dataset.read_chunk_index(number));
  uint64_t rewritten = 0;
  uint64_t image_bytes = 0;
  for (const IndexedSample& sample : index.samples) {
    for (const StoredFile& file : sample.files) {
      rewritten += file.restart ? 1 : 0;
      image_bytes += file.length;
    }
  }
  std::string out = fmt::format(
      "chunk {}: {}\n  {} bytes: {} of samples' files, {} of index, the rest tar\n"
      "  samples {} to {}, {}\n",
      number, dataset.chunk_label(number), info.bytes, image_bytes, info.index_bytes,
      info.first_sample, info.first_sample + info.samples - 1,
      base::counted(rewritten, "rewritten JPEG"));
  if (!index.samples.empty()) {
    out += fmt::format("  keys \"{}\" to \"{}\"\n", index.samples.front().key,
                       index.samples.back().key);
  }
  return out;
}

// The part of a JPEG that was read for a crop.
struct RegionRead {
  ByteVector jpeg;  // a whole JPEG, grey where nothing was read
  std::vector<jpeg::SegmentRange> segments;
  uint64_t bytes = 0;
  size_t reads = 0;
};

Result<RegionRead> read_region(const io::ReadableFile& chunk, const StoredFile& file,
                               const base::Rect& crop) {
  const jpeg::RestartIndex& restart = *file.restart;
  ByteVector header_bytes(restart.header_bytes);
  RETURN_IF_ERROR(chunk.read(file.offset, header_bytes));
  ASSIGN_OR_RETURN(jpeg::RegionPlan plan, jpeg::plan_region(restart, header_bytes, crop));
  RegionRead out;
  out.segments = std::move(plan.segments);
  out.bytes = header_bytes.size();
  out.reads = 1;
  std::vector<ByteVector> parts;
  for (const jpeg::ByteRange& range : plan.places) {
    RETURN_IF_ERROR(chunk.read(file.offset + range.offset, parts.emplace_back(range.length)));
    out.bytes += range.length;
    ++out.reads;
  }
  const std::vector<Bytes> views(parts.begin(), parts.end());
  ASSIGN_OR_RETURN(out.jpeg, jpeg::compose_region(restart, header_bytes, out.segments, views));
  return out;
}

std::string describe_region(const RegionRead& read, const StoredFile& file) {
  uint64_t count = 0;
  for (const auto& range : read.segments) count += range.end - range.begin;
  std::string out =
      fmt::format("  {} of {}:", count, base::counted(file.restart->segments.size(), "segment"));
  constexpr size_t kShown = 12;
  for (size_t i = 0; i < read.segments.size() && i < kShown; ++i) {
    out += fmt::format(" {}-{}", read.segments[i].begin, read.segments[i].end - 1);
  }
  if (read.segments.size() > kShown) {
    out += fmt::format(" … ({} runs in all)", read.segments.size());
  }
  return out +
         fmt::format("\n  {} bytes in {} (header {}), {:.1f} % of the file's {}\n", read.bytes,
                     base::counted(read.reads, "read"), file.restart->header_bytes,
                     100.0 * static_cast<double>(read.bytes) / static_cast<double>(file.length),
                     file.length);
}

// Data in place has no chunk indexes. Its descriptions come from the dataset in memory and from the
// images themselves.

Status list_in_place(const Dataset& dataset, const std::function<void(const SampleLine&)>& each) {
  for (uint64_t i = 0; i < dataset.sample_count(); ++i) {
    const Location location = dataset.location(i);
    SampleLine line;
    ASSIGN_OR_RETURN(line.key, dataset.key(i));
    line.chunk = location.chunk;
    line.label = location.label;
    line.class_name = class_name(dataset.schema(), line.label);
    line.bytes = location.length;
    each(line);
  }
  return {};
}

std::string describe_chunk_in_place(const Dataset& dataset, uint32_t number) {
  const ChunkInfo& info = dataset.chunk(number);
  return fmt::format("chunk {}: {}\n  bytes {} to {}, used in place\n  samples {} to {}\n", number,
                     dataset.chunk_label(number), info.offset, info.offset + info.bytes,
                     info.first_sample, info.first_sample + info.samples - 1);
}

struct ImageInPlace {
  image::Size size;
  std::string text;
};

Result<ImageInPlace> describe_image(const Dataset& dataset, uint64_t sample) {
  const Location location = dataset.location(sample);
  ASSIGN_OR_RETURN(const std::string key, dataset.key(sample));
  const std::string path = dataset.chunk_label(location.chunk);
  ImageInPlace out;
  out.text = fmt::format("sample \"{}\"\n  {}: {} bytes from byte {}, used in place\n", key, path,
                         location.length, location.offset);
  if (location.label >= 0) {
    out.text += fmt::format(
        "  class: {} {}\n", location.label,
        dataset.schema().classes.empty() ? "" : class_name(dataset.schema(), location.label));
  }
  if (location.crc32c) out.text += fmt::format("  CRC32C {:08x}\n", *location.crc32c);
  ByteVector file;
  RETURN_IF_ERROR(dataset.read_file(location, &file).at(path));
  const auto header = image::read_header(file);
  if (!header) return tl::unexpected(header.error().at(path));
  out.size = header->size;
  out.text += fmt::format("  {}, {} x {} pixels\n", image::format_name(header->format),
                          out.size.width, out.size.height);
  return out;
}

Result<std::string> describe_item_in_place(const Dataset& dataset, const std::string& name) {
  ASSIGN_OR_RETURN(const auto sample, dataset.find(name));
  if (sample) {
    ASSIGN_OR_RETURN(const ImageInPlace found, describe_image(dataset, *sample));
    return found.text;
  }
  if (const auto chunk = find_chunk(dataset, name)) return describe_chunk_in_place(dataset, *chunk);
  return fail(Code::kNotFound, "{}: \"{}\" is neither a key nor a chunk; forebay ls lists the keys",
              dataset.path(), name);
}

// Says whether pack made images smaller; empty if it did not, or if there is no report.
Result<std::string> describe_resized(const io::Origin& origin, const std::string& dataset) {
  ASSIGN_OR_RETURN(const StoredSnapshot snapshot, read_snapshot(origin, dataset));
  const auto read = read_report(origin, dataset, snapshot.id);
  if (!read && io::is_unanswered(read.error().code())) return tl::unexpected(read.error());
  if (!read) return fmt::format("  its report cannot be read: {}\n", read.error().message());
  const auto& report = *read;
  if (!report || !report->identity.resize) return std::string();
  return fmt::format("  made smaller and encoded again (lossy): {}, by {}\n",
                     base::counted(report->stats.resized, "image"),
                     resize_text(report->identity.resize));
}

Status check_inside(const base::Rect& crop, const image::Size& size) {
  if (crop.inside(size.width, size.height)) return {};
  return fail(Code::kInvalid, "the crop {},{},{},{} is not inside the image of {} x {} pixels",
              crop.x, crop.y, crop.width, crop.height, size.width, size.height);
}

std::string describe_rect(const base::Rect& crop) {
  return fmt::format("crop {} x {} at {},{}\n", crop.width, crop.height, crop.x, crop.y);
}

Result<std::string> describe_crop_in_place(const Dataset& dataset, const std::string& key,
                                           const base::Rect& crop) {
  ASSIGN_OR_RETURN(const auto sample, dataset.find(key));
  if (!sample) return fail(Code::kNotFound, "{}: no sample \"{}\"", dataset.path(), key);
  ASSIGN_OR_RETURN(const ImageInPlace found, describe_image(dataset, *sample));
  RETURN_IF_ERROR(check_inside(crop, found.size));
  return found.text + describe_rect(crop) +
         fmt::format("  the file is used as it is: the crop needs all of its {} bytes\n",
                     dataset.location(*sample).length);
}

}  // namespace

Status list_samples(const io::Origin& origin, const std::string& path,
                    const std::function<void(const SampleLine&)>& each) {
  ASSIGN_OR_RETURN(const auto dataset, open_dataset(origin, path));
  if (dataset->in_place()) return list_in_place(*dataset, each);
  for (uint32_t chunk = 0; chunk < dataset->chunk_count(); ++chunk) {
    ASSIGN_OR_RETURN(const ChunkIndex index, dataset->read_chunk_index(chunk));
    for (const IndexedSample& sample : index.samples) {
      SampleLine line;
      line.key = sample.key;
      line.chunk = chunk;
      line.label = class_of(index.schema, sample);
      line.class_name = class_name(index.schema, line.label);
      if (const StoredFile* image = image_file(index.schema, sample)) {
        line.bytes = image->length;
        line.width = image->width;
        line.height = image->height;
      }
      each(line);
    }
  }
  return {};
}

Result<std::string> describe_dataset(const io::Origin& origin, const std::string& path) {
  ASSIGN_OR_RETURN(const auto dataset, open_dataset(origin, path));
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < dataset->chunk_count(); ++i) bytes += dataset->chunk(i).bytes;
  const Schema& schema = dataset->schema();
  std::string out = fmt::format("dataset {}{}\n  {} in {}, {}\n  fingerprint {}\n", path,
                                dataset->in_place() ? ", in place" : "",
                                base::counted(dataset->sample_count(), "sample"),
                                base::counted(dataset->chunk_count(), "chunk"),
                                base::human_bytes(bytes), base::to_hex(dataset->fingerprint()));
  for (const std::string& note : dataset->notes()) out += fmt::format("  note: {}\n", note);
  for (const Field& field : schema.fields) {
    out += fmt::format("  field \"{}\": {}\n", field.name, kind_name(field.kind));
  }
  if (!dataset->in_place()) {
    ASSIGN_OR_RETURN(const std::string resized, describe_resized(origin, path));
    out += resized;
  }
  if (!schema.classes.empty()) {
    out += fmt::format("  {}: {} … {}\n", base::counted(schema.classes.size(), "class"),
                       schema.classes.front(), schema.classes.back());
  }
  return out;
}

Result<std::string> describe_item(const io::Origin& origin, const std::string& path,
                                  const std::string& name) {
  ASSIGN_OR_RETURN(const auto dataset, open_dataset(origin, path));
  if (dataset->in_place()) return describe_item_in_place(*dataset, name);
  const auto found = find_sample(*dataset, name);
  if (found) return describe_sample(*dataset, *found);
  if (found.error().code() != Code::kNotFound) return tl::unexpected(found.error());
  if (const auto chunk = find_chunk(*dataset, name)) return describe_chunk(*dataset, *chunk);
  return fail(Code::kNotFound, "{}: \"{}\" is neither a key nor a chunk; forebay ls lists the keys",
              path, name);
}

Result<std::string> describe_crop(const io::Origin& origin, const std::string& path,
                                  const std::string& key, const base::Rect& crop) {
  ASSIGN_OR_RETURN(const auto dataset, open_dataset(origin, path));
  if (dataset->in_place()) return describe_crop_in_place(*dataset, key, crop);
  ASSIGN_OR_RETURN(const FoundSample found, find_sample(*dataset, key));
  const StoredFile* file = image_file(dataset->schema(), found.sample);
  if (file == nullptr) return fail(Code::kNotFound, "{}: \"{}\" has no image", path, key);
  RETURN_IF_ERROR(check_inside(crop, {file->width, file->height}));
  std::string out = describe_sample(*dataset, found) + describe_rect(crop);
  if (!file->restart) {
    return out + fmt::format("  the file was kept as it was: the crop needs all of its {} bytes\n",
                             file->length);
  }
  ASSIGN_OR_RETURN(const auto chunk, dataset->open_chunk(found.chunk));
  ASSIGN_OR_RETURN(const RegionRead part, read_region(*chunk, *file, crop));
  out += describe_region(part, *file);
  image::ImageDecoder decoder;
  base::Pixels region;
  base::Pixels full;
  RETURN_IF_ERROR(decoder.decode(part.jpeg, crop, &region));
  ByteVector whole(file->length);
  RETURN_IF_ERROR(chunk->read(file->offset, whole));
  RETURN_IF_ERROR(decoder.decode(whole, std::nullopt, &full));
  full.crop(crop);
  if (region.rgb != full.rgb) {
    return fail(Code::kCorrupt, "{}: \"{}\": the crop's pixels differ from those of a full decode",
                chunk->path(), key);
  }
  return out + "  decoded from these bytes alone; the pixels equal a full decode's\n";
}

}  // namespace forebay::store
