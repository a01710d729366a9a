// Entropy decoding of many streams side by side: T.81 F.2.2, for baseline and extended Huffman
// images of 8 bits. A stream is a restart segment or a piece of one (segment_splitter.h). A single
// stream is bound by latency, because the position of each code depends on the code before. The
// kernels are in entropy_portable.cc, entropy_avx2.cc and entropy_avx512.cc; entropy.cc chooses
// between them.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "io/large_buffer.h"
#include "jpeg/kernels/lookup.h"

namespace forebay::jpeg {

// Codes by length (T.81 F.2.2.3), for codes that no lookup table contains.
struct CanonicalTable {
  std::array<int32_t, 18> code_end{};  // by length: codes below this are not longer; left-aligned
  std::array<int32_t, 17> first{};     // by length: index of the first symbol - the first code
  std::array<uint8_t, 256> values{};
};
CanonicalTable canonical_table(const HuffmanTable& table);

// Bytes that must be readable after the data of a stream; their values do not matter.
inline constexpr size_t kStreamPadding = 16;
// Coefficients that may be written after the last block of a slice.
inline constexpr size_t kSlicePadding = 64;
// The most blocks of a slice, and the number of its coefficients including padding.
inline constexpr uint32_t kSliceBlocks = 24;
inline constexpr size_t kSliceStride = size_t{kSliceBlocks} * 64 + kSlicePadding;

// The tables for the blocks of a stream. Components share one of two pairs of tables.
struct StreamTables {
  enum Kind : uint8_t { kDc, kAcChained, kAcSingle };
  // Slots of the lookups in the arena, by pair * 4 + kind.
  std::array<uint8_t, 8> slots{};
  // Bit b is the pair of the slice's block b.
  uint32_t pairs = 0;
  std::array<const CanonicalTable*, 4> canonical{};  // by pair * 2 + (0 DC, 1 AC)
  // The lookup for each position of the longest slice, and the idle lookup after its end. Each
  // entry is the beginning of the lookup in the arena, plus 1 where a block begins. A shorter slice
  // uses the last positions. Filled by complete().
  std::array<uint32_t, size_t{kSliceBlocks} * 64 + kSlicePadding> marked_lookups{};

  // Fills marked_lookups. `blocks` is the number of blocks of the longest slice.
  void complete(uint32_t blocks);
  const uint32_t* marked_lookups_from_end() const {
    return marked_lookups.data() + size_t{kSliceBlocks} * 64;
  }

  static constexpr uint32_t kMarkBits = 5;
  static_assert(kMarkBits <= kLookupBits);  // marks fit below the beginnings of lookups
  static constexpr size_t first_entry(uint32_t marked) { return marked >> kMarkBits << kMarkBits; }
  // The number of blocks that began, from the sum of marked lookups.
  static constexpr uint32_t block_count(uint32_t sum) { return sum % (1 << kMarkBits); }
  static_assert(kSliceBlocks < 1 << kMarkBits);
};

struct Stream {
  const uint8_t* data = nullptr;  // without byte stuffing
  uint64_t bits = 0;              // the length of the data
  uint64_t bit = 0;               // the current position; moves past the slice
  const StreamTables* tables = nullptr;
  // The slice that is being decoded: `blocks` blocks, a whole number of MCUs, in zigzag order, with
  // DC differences. The slice and the kSlicePadding coefficients after it must be zero before; the
  // padding is zero afterwards. All slices lie in one buffer.
  int16_t* out = nullptr;
  uint32_t blocks = 0;
  // Set by decoding: the data held an invalid code, a run that leaves its block, or too few bits.
  // Coefficients in `out` and after it are then meaningless.
  bool bad = false;
  // Set by a walk: the sum of DC differences of each component.
  std::array<int16_t, 3> dc{};
};

// Kernels in ascending order: a machine that runs one also runs the ones before it.
enum class EntropyKernel : uint8_t { kPortable, kAvx2, kAvx512 };
// Returns the fastest kernel for many streams that this machine runs, among those that Highway may
// use.
EntropyKernel best_entropy_kernel();

// The lookup tables of one thread. The first slots hold lookups that every image needs.
class LookupArena {
 public:
  static constexpr uint32_t kIdleSlot = 0;  // consumes nothing
  static constexpr uint32_t kValueSlots =
      1;  // the lookup for `size` bits is at kValueSlots - 1 + size
  static constexpr uint32_t kFirstFree = 12;
  // Lookups of a table begin at a multiple of kTableLookups.
  static constexpr uint32_t kSlots = 180;

  LookupArena();
  const Entry* entries() const { return reinterpret_cast<const Entry*>(memory_.data()); }
  TableLookups of_table(uint32_t first_slot) {
    return TableLookups(reinterpret_cast<Entry*>(memory_.data()) + first_slot * kLookupEntries,
                        kTableLookups * kLookupEntries);
  }

 private:
  Lookup slot(uint32_t number) { return of_table(number).first<kLookupEntries>(); }

  io::LargeBuffer memory_;
};

// Where the kernels get their work.
class StreamSource {
 public:
  // Returns the next stream with a slice to decode: `done`, whose slice was decoded (null at
  // first), with its next slice, or another stream. Returns null when there is none; the kernel may
  // still ask again for other lanes. A stream stays at its address until it comes back as `done`.
  // Starting with long streams is faster.
  virtual Stream* next(Stream* done) = 0;

 protected:
  ~StreamSource() = default;
};
// The number of streams that a kernel works on at the same time.
constexpr size_t streams_at_once(EntropyKernel kernel) {
  return kernel == EntropyKernel::kAvx512 ? 32 : kernel == EntropyKernel::kAvx2 ? 16 : 6;
}
inline constexpr size_t kStreamSlots = 32;
static_assert(streams_at_once(EntropyKernel::kAvx512) <= kStreamSlots &&
              streams_at_once(EntropyKernel::kAvx2) <= kStreamSlots);

// Decides which kernel decodes: always the same one, or the fastest for the number of streams,
// because idle lanes cost as much as busy ones.
class KernelSelection {
 public:
  explicit KernelSelection(std::optional<EntropyKernel> always)
      : many_(always.value_or(best_entropy_kernel())),
        few_(always.value_or(std::min(many_, EntropyKernel::kAvx2))),
        two_(always.value_or(EntropyKernel::kPortable)) {}

  EntropyKernel for_many() const { return many_; }
  EntropyKernel for_streams(size_t count) const {
    return count <= 2 ? two_ : count <= streams_at_once(few_) ? few_ : many_;
  }

 private:
  EntropyKernel many_;
  EntropyKernel few_;
  EntropyKernel two_;
};

// Facts about the streams that make decoding faster when they are known in advance.
struct NextStreams {
  size_t count = 0;  // streams at the same time, approximately
  // Tables with the same slots as those of all streams; null when streams differ.
  const StreamTables* tables = nullptr;
  // When not empty, decoding is a walk: only Stream::dc and the end positions are wanted. Slices
  // then hold nothing meaningful afterwards and need not be zero before. Holds the component of
  // each block of an MCU, where 0 is the first. Needs `tables`.
  std::span<const uint8_t> walked = {};
};

// Decodes streams until `source` returns no more. All slices lie in the buffer `coefficients`, at
// multiples of 64 coefficients; it has fewer than 2^31 of them, and the first kSlicePadding belong
// to no slice. While this runs, the data of every stream must stay readable, and no slice may be
// given to another stream.
void decode_slices(const KernelSelection& choice, const NextStreams& ahead,
                   const LookupArena& arena, int16_t* coefficients, StreamSource& source);

// The kernels, between which decode_slices() chooses.
void decode_slices_portable(const NextStreams& ahead, const Entry* arena, StreamSource& source);
void decode_slices_avx2(const NextStreams& ahead, const Entry* arena, int16_t* coefficients,
                        StreamSource& source);
// `slots` are StreamTables::slots of all streams, or null when streams differ. `walked` is
// NextStreams::walked with `mcu_blocks` entries. Takes bare pointers, because entropy_avx512.cc
// may not use inline functions.
void decode_slices_avx512(const uint8_t* slots, const uint8_t* walked, size_t mcu_blocks,
                          const Entry* arena, int16_t* coefficients, StreamSource& source);

// Decodes one symbol at `bit` of `stream` for kernels that meet kSlowCode. `position` is the
// position in the slice. Returns the new position and moves *bit, or returns -1 for an invalid
// code.
int32_t decode_slow(const Stream& stream, uint32_t position, uint64_t* bit);

// The number of lookups that the result of one peek_bits() is enough for.
inline constexpr int kLookupsPerRefill = 5;
static_assert(kLookupsPerRefill * kLookupBits <= 57 && kStreamPadding >= sizeof(uint64_t));

// Returns at least 57 bits from `bit` on; the first is the highest bit.
inline uint64_t peek_bits(const Stream& stream, uint64_t bit) {
  const uint64_t byte = std::min(bit, stream.bits) >> 3;
  return __builtin_bswap64(base::load_le<uint64_t>(stream.data + byte)) << (bit & 7);
}

}  // namespace forebay::jpeg
