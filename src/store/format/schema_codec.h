// The encoding of a schema in chunk indexes and snapshots. Grammar: docs/format.md, "schema".
#pragma once

#include "base/bytes.h"
#include "store/format/schema.h"

namespace forebay::store {

void encode_schema(const Schema& schema, base::ByteWriter* out);
// Errors: kCorrupt (cut off, an unknown kind, a name that comes twice), kTooBig.
base::Result<Schema> decode_schema(base::ByteReader* in);
// Checks a schema before it is stored, by the rules of decode_schema().
base::Status check_schema(const Schema& schema);

}  // namespace forebay::store
