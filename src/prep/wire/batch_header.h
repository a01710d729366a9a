// The first bytes of a batch; batch_bytes.h has the grammar.
#pragma once

#include "prep/wire/batch_bytes.h"

namespace forebay::prep {

inline constexpr uint64_t kBatchMagic = 0x3148'4354'4142'4246;  // "FBBATCH1"
inline constexpr uint32_t kBatchFormat = 1;
inline constexpr size_t kTensorAlignment = 64;

// What a batch holds besides its columns.
enum Holds : uint32_t { kHoldsWhole = 1, kHoldsFiles = 2, kHoldsTargets = 4 };

struct BatchHeader {
  uint64_t magic = kBatchMagic;
  uint64_t job = 0;  // job_mark()
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t front_bytes = 0;
  uint64_t tensor_bytes = 0;
  uint32_t format = kBatchFormat;
  uint32_t samples = 0;
  uint32_t holds = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t bad = 0;
  uint32_t tensor_crc32c = 0;
  uint32_t front_crc32c = 0;  // the last field, because it covers all others
};
static_assert(sizeof(BatchHeader) == 80 && std::has_unique_object_representations_v<BatchHeader>);

// Identifies a job and its list, whose name may be empty: the first 16 hexadecimal digits of both
// names, as numbers, combined by XOR.
uint64_t job_mark(std::string_view job_name, std::string_view list);
// The CRC-32C of the bytes before the tensor, except the header's own front_crc32c. `head` begins
// with the header.
uint32_t front_crc32c(Bytes head, std::span<const Bytes> rest);

// The size of an image, or of masks, whose bytes come later.
struct OwnSizeEntry {
  uint32_t width = 0;
  uint32_t height = 0;
  uint64_t bytes = 0;
};
static_assert(std::has_unique_object_representations_v<OwnSizeEntry>);

}  // namespace forebay::prep
