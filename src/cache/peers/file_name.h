// How the members of a job name a file to each other: by its path at the origin and its identity.
#pragma once

#include "base/checksum.h"
#include "io/origin.h"

namespace forebay::cache {

struct FileName {
  std::string path;  // as the origin knows it, such as "s3://bucket/set/chunks/….tar"
  io::Identity identity;
  bool operator==(const FileName&) const = default;
};

// The target of a request for the file. Equal names have equal targets, and different names have
// different targets.
std::string encode_target(const FileName& name);
// Errors: kInvalid for everything that encode_target() does not return.
base::Result<FileName> decode_target(const std::string& target);

}  // namespace forebay::cache
