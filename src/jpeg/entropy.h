// Entropy decoding of many streams side by side: T.81 F.2.2, for baseline and extended Huffman
// images of 8 bits. A stream is a restart segment or a part of one (segment_splitter.h); one
// alone is bound by latency, since each code's place depends on the one before.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "io/large_buffer.h"
#include "jpeg/lookup.h"

namespace forebay::jpeg {

// T.81 F.2.2.3: codes by length, for those that no lookup has.
struct CanonicalTable {
  std::array<int32_t, 18> code_end{};  // by length: the codes below it are not longer; left-aligned
  std::array<int32_t, 17> first{};     // by length: index of its first symbol - its first code
  std::array<uint8_t, 256> values{};
};
CanonicalTable canonical_table(const HuffmanTable& table);

// Bytes that must be readable behind a stream's data, whatever they are.
inline constexpr size_t kStreamPadding = 16;
// Coefficients that may be written behind a slice's last block.
inline constexpr size_t kSlicePadding = 64;
// Blocks of a slice, at most, and the numbers of its coefficients with the padding.
inline constexpr uint32_t kSliceBlocksMax = 24;
inline constexpr size_t kSliceStride = size_t{kSliceBlocksMax} * 64 + kSlicePadding;

// The tables of a stream's blocks. Components share one of two pairs of tables.
struct StreamTables {
  enum Kind : uint8_t { kDc, kAcChained, kAcSingle };
  // Lookups in the arena by pair * 4 + kind.
  std::array<uint8_t, 8> slots{};
  // Bit b: the pair of a slice's block b.
  uint32_t pairs = 0;
  std::array<const CanonicalTable*, 4> canonical{};  // by pair * 2 + (0 DC, 1 AC)
  // The lookup at each position of the longest slice, and the idle one behind its end: where it
  // begins in the arena, plus 1 where a block begins; a shorter slice's positions are the last
  // ones. By complete().
  std::array<uint32_t, size_t{kSliceBlocksMax} * 64 + kSlicePadding> marked_lookups{};

  // Fills marked_lookups; `blocks`: of the longest slice.
  void complete(uint32_t blocks);
  const uint32_t* marked_lookups_from_end() const {
    return marked_lookups.data() + size_t{kSliceBlocksMax} * 64;
  }

  static constexpr uint32_t kMarkBits = 5;
  static_assert(kMarkBits <= kLookupBits);  // below where lookups begin
  static constexpr size_t first_entry(uint32_t marked) { return marked >> kMarkBits << kMarkBits; }
  // Of marked lookups' sum.
  static constexpr uint32_t block_count(uint32_t sum) { return sum % (1 << kMarkBits); }
  static_assert(kSliceBlocksMax < 1 << kMarkBits);
};

struct Stream {
  const uint8_t* data = nullptr;  // no byte stuffing
  uint64_t bits = 0;              // its length
  uint64_t bit = 0;               // where it stands; moves behind the slice
  const StreamTables* tables = nullptr;
  // The slice that is decoded now: `blocks` blocks, a whole number of MCUs, in zigzag order, with
  // DC differences. It and kSlicePadding behind it must be zero before, and what is behind it is
  // afterwards. All slices lie in one buffer.
  int16_t* out = nullptr;
  uint32_t blocks = 0;
  // Afterwards: a code that is none, a run beyond its block, or more bits than there are. What is
  // in `out` and behind it then means nothing.
  bool bad = false;
  // Afterwards, of a walk: the sum of each component's DC differences.
  std::array<int16_t, 3> dc{};
};

// A machine that runs one runs those before it.
enum class EntropyKernel : uint8_t { kPortable, kAvx2, kAvx512 };
// The fastest that this machine runs, with many streams; of those that Highway may use.
EntropyKernel best_entropy_kernel();

// The lookup tables of one thread. The first slots hold what every image needs.
class LookupArena {
 public:
  static constexpr uint32_t kIdleSlot = 0;    // consumes nothing
  static constexpr uint32_t kValueSlots = 1;  // and on: kValueSlots - 1 + size
  static constexpr uint32_t kFirstFree = 12;
  // Those of a table begin at a multiple of kTableLookups.
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

// Where the kernels take their work from.
class StreamSource {
 public:
  // The next stream, whose slice is to be decoded: `done`, whose slice is decoded (null at first),
  // with its next slice, or another one. Null when there is none; the kernel may still ask for
  // others. A stream stays where it is until it comes back as `done`. Long ones first is faster.
  virtual Stream* next(Stream* done) = 0;

 protected:
  ~StreamSource() = default;
};
// Streams that a kernel works on at the same time.
constexpr size_t streams_at_once(EntropyKernel kernel) {
  return kernel == EntropyKernel::kAvx512 ? 32 : kernel == EntropyKernel::kAvx2 ? 16 : 6;
}
inline constexpr size_t kStreamsMax = 32;
static_assert(streams_at_once(EntropyKernel::kAvx512) <= kStreamsMax &&
              streams_at_once(EntropyKernel::kAvx2) <= kStreamsMax);

// Which kernel decodes: always the same one, or the fastest for the number of streams, as idle
// lanes cost as much as busy ones.
class KernelChoice {
 public:
  explicit KernelChoice(std::optional<EntropyKernel> always)
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

// What is known of the streams beforehand makes them take less time.
struct StreamsAhead {
  size_t count = 0;  // at the same time, about
  // Its slots are those of all streams; null where they differ.
  const StreamTables* tables = nullptr;
  // Not empty: a walk. Streams are decoded for Stream::dc and where they end; what is then in their
  // slices means nothing, and need not be zero before. The component of each block of an MCU, 0 of
  // the first. Needs `tables`.
  std::span<const uint8_t> walked = {};
};

// Decodes what `source` gives, until it gives nothing more. `coefficients`: the buffer that all
// slices lie in, each at a multiple of 64 of its numbers, of which there are less than 2^31; the
// first kSlicePadding are no slice's. Until it returns, the data of every stream stay readable and
// no slice is given to another stream.
void decode_slices(const KernelChoice& choice, const StreamsAhead& ahead, const LookupArena& arena,
                   int16_t* coefficients, StreamSource& source);

// The kernels; decode_slices() chooses.
void decode_slices_portable(const StreamsAhead& ahead, const Entry* arena, StreamSource& source);
void decode_slices_avx2(const StreamsAhead& ahead, const Entry* arena, int16_t* coefficients,
                        StreamSource& source);
// `slots`: StreamTables' of all streams, null where they differ; `walked`: as StreamsAhead's, of
// `mcu_blocks`. Bare pointers, since entropy_avx512.cc may use no inline functions.
void decode_slices_avx512(const uint8_t* slots, const uint8_t* walked, size_t mcu_blocks,
                          const Entry* arena, int16_t* coefficients, StreamSource& source);

// One symbol at `bit` of `stream`, whose position in the slice is `position`, for kernels that meet
// kSlowCode. Returns the new position, or -1 for no such code; moves *bit.
int32_t decode_slow(const Stream& stream, uint32_t position, uint64_t* bit);

// Lookups that what peek_bits() gives is enough for.
inline constexpr int kLookupsPerRefill = 5;
static_assert(kLookupsPerRefill * kLookupBits <= 57 && kStreamPadding >= sizeof(uint64_t));

// The 57 or more bits from `bit` on, the first one on top.
inline uint64_t peek_bits(const Stream& stream, uint64_t bit) {
  const uint64_t byte = std::min(bit, stream.bits) >> 3;
  return __builtin_bswap64(base::load_le<uint64_t>(stream.data + byte)) << (bit & 7);
}

}  // namespace forebay::jpeg
