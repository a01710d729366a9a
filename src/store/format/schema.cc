#include "store/format/schema.h"

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "store/format/schema_codec.h"

namespace forebay::store {

using base::Code;
using base::fail;

void encode_schema(const Schema& schema, base::ByteWriter* out) {
  out->number(static_cast<uint32_t>(schema.fields.size()));
  for (const Field& field : schema.fields) {
    out->number(static_cast<uint8_t>(field.kind));
    out->sized(field.name);
  }
  out->number(static_cast<uint32_t>(schema.classes.size()));
  for (const std::string& name : schema.classes) out->sized(name);
}

base::Status check_schema(const Schema& schema) {
  if (schema.fields.size() > base::kFieldsMax || schema.classes.size() > base::kClassesMax) {
    return fail(Code::kTooBig, "schema: {} fields and {} classes; at most {} and {}",
                schema.fields.size(), schema.classes.size(), base::kFieldsMax, base::kClassesMax);
  }
  std::set<std::string_view> names;
  for (const Field& field : schema.fields) {
    const auto kind = static_cast<int>(field.kind);
    if (kind < static_cast<int>(FieldKind::kImage) || kind > static_cast<int>(FieldKind::kText)) {
      return fail(Code::kCorrupt, "schema: field \"{}\" is of the unknown kind {}", field.name,
                  kind);
    }
    if (field.name.empty() || field.name.size() > base::kFieldNameBytesMax ||
        !names.insert(field.name).second) {
      return fail(Code::kCorrupt, "schema: the field name \"{}\" is empty, too long or used twice",
                  field.name.substr(0, base::kFieldNameBytesMax));
    }
  }
  for (const std::string& name : schema.classes) {
    if (name.size() > base::kClassNameBytesMax) {
      return fail(Code::kTooBig, "schema: the class name \"{}…\" has {} bytes, more than {}",
                  name.substr(0, 32), name.size(), base::kClassNameBytesMax);
    }
  }
  return {};
}

base::Result<Schema> decode_schema(base::ByteReader* in) {
  Schema schema;
  // The reader checks each length first: a name that is too long is never copied.
  const auto fields = in->number<uint32_t>();
  for (uint32_t i = 0; i < std::min<size_t>(fields, base::kFieldsMax + 1) && in->ok(); ++i) {
    const auto kind = static_cast<FieldKind>(in->number<uint8_t>());
    schema.fields.push_back({std::string(in->sized(base::kFieldNameBytesMax)), kind});
  }
  const auto classes = in->number<uint32_t>();
  for (uint32_t i = 0; i < std::min<size_t>(classes, base::kClassesMax + 1) && in->ok(); ++i) {
    schema.classes.emplace_back(in->sized(base::kClassNameBytesMax));
  }
  if (!in->ok()) return fail(Code::kCorrupt, "schema: cut off, or a name is too long");
  RETURN_IF_ERROR(check_schema(schema));
  return schema;
}

}  // namespace forebay::store
