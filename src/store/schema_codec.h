// A schema's bytes, which chunk indexes and snapshots share. Grammar: docs/format.md, "schema".
#pragma once

#include "base/bytes.h"
#include "store/schema.h"

namespace forebay::store {

void encode_schema(const Schema& schema, base::ByteWriter* out);
// Errors: kCorrupt (cut off, unknown kind, a name twice), kTooBig.
base::Result<Schema> decode_schema(base::ByteReader* in);
// The same rules for a schema that is about to be stored.
base::Status check_schema(const Schema& schema);

}  // namespace forebay::store
