#include "store/format/listing.h"

#include <fmt/format.h>

#include "base/limits.h"

namespace forebay::store {
namespace {

void encode_sample(const SourceSample& sample, base::ByteWriter* to) {
  to->sized(sample.key);
  to->sized(sample.source_path);
  to->number(sample.label);
  to->number(sample.modified_ns);
  to->number(static_cast<uint32_t>(sample.files.size()));
  for (const SourceFile& file : sample.files) {
    to->sized(file.suffix);
    to->number(file.field);
    to->number(file.shard);
    to->number(file.offset);
    to->number(file.length);
  }
}

SourceSample decode_sample(base::ByteReader* from) {
  SourceSample sample;
  sample.key = from->sized(base::kKeyBytesMax);
  sample.source_path = from->sized(1u << 16);
  sample.label = from->number<int64_t>();
  sample.modified_ns = from->number<int64_t>();
  const auto files = from->number<uint32_t>();
  for (uint32_t i = 0; i < files && i < base::kFieldsMax && from->ok(); ++i) {
    SourceFile& file = sample.files.emplace_back();
    file.suffix = from->sized(base::kFieldNameBytesMax);
    file.field = from->number<uint16_t>();
    file.shard = from->number<uint32_t>();
    file.offset = from->number<uint64_t>();
    file.length = from->number<uint64_t>();
  }
  return sample;
}

}  // namespace

base::ByteVector encode_listing(const Listing& listing) {
  base::ByteVector out;
  base::ByteWriter to(&out);
  to.sized("forebay listing 0");
  to.number(static_cast<uint8_t>(listing.kind));
  to.number(static_cast<uint32_t>(listing.schema.fields.size()));
  for (const Field& field : listing.schema.fields) {
    to.sized(field.name);
    to.number(static_cast<uint8_t>(field.kind));
  }
  to.number(static_cast<uint32_t>(listing.schema.classes.size()));
  for (const std::string& name : listing.schema.classes) to.sized(name);
  to.number(static_cast<uint32_t>(listing.shards.size()));
  for (const SourceShard& shard : listing.shards) {
    to.number(shard.bytes);
    to.number(shard.modified_ns);
  }
  to.number(static_cast<uint64_t>(listing.samples.size()));
  for (const SourceSample& sample : listing.samples) encode_sample(sample, &to);
  if (listing.labels) to.bytes(*listing.labels);
  return out;
}

std::string first_difference(Bytes stored, const Listing& listing) {
  base::ByteReader from(stored);
  from.sized(64);
  from.number<uint8_t>();
  for (auto fields = from.number<uint32_t>(); fields > 0 && from.ok(); --fields) {
    from.sized(base::kFieldNameBytesMax);
    from.number<uint8_t>();
  }
  for (auto classes = from.number<uint32_t>(); classes > 0 && from.ok(); --classes) {
    from.sized(1u << 16);
  }
  for (auto shards = from.number<uint32_t>(); shards > 0 && from.ok(); --shards) {
    from.bytes(16);
  }
  const auto count = from.number<uint64_t>();
  for (uint64_t i = 0; i < count && i < listing.samples.size() && from.ok(); ++i) {
    const SourceSample then = decode_sample(&from);
    const SourceSample& now = listing.samples[i];
    if (then == now) continue;
    if (then.source_path != now.source_path) {
      return fmt::format("it had {}, and now has {} in its place", then.source_path,
                         now.source_path);
    }
    return fmt::format("{} has another size, time of change or label", now.source_path);
  }
  if (count != listing.samples.size()) {
    return fmt::format("it had {} samples and has {} now", count, listing.samples.size());
  }
  return "its classes, fields or shards are different";
}

bool leads_out(std::string_view name) {
  if (name.starts_with('/')) return true;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace forebay::store
