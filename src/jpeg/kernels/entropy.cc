#include "jpeg/kernels/entropy.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstring>

namespace forebay::jpeg {
namespace {

constexpr uint32_t kPositions = 64;  // in a block

// Finds a code bit by bit (T.81 figure F.16). Returns -1 for an invalid code.
int32_t slow_symbol(const CanonicalTable& table, uint64_t buffer, uint32_t* length) {
  const auto top = static_cast<int32_t>(buffer >> 48);
  for (*length = 1; *length <= 16; ++*length) {
    if (top >= table.code_end[*length]) continue;
    const int32_t index = table.first[*length] + (top >> (16 - *length));
    return table.values[static_cast<size_t>(index)];
  }
  return -1;
}

}  // namespace

CanonicalTable canonical_table(const HuffmanTable& table) {
  CanonicalTable out;
  out.values = table.values;
  int32_t code = 0;
  int32_t at = 0;
  for (uint32_t length = 1; length <= 16; ++length) {
    out.first[length] = at - code;
    at += table.bits[length - 1];
    code += table.bits[length - 1];
    out.code_end[length] = code << (16 - length);
    code <<= 1;
  }
  return out;
}

void StreamTables::complete(uint32_t blocks) {
  uint32_t* to = marked_lookups.data() + size_t{kSliceBlocks - blocks} * kPositions;
  const auto begin_of = [](uint32_t slot) { return slot << kLookupBits; };
  for (uint32_t block = 0; block < blocks; ++block, to += kPositions) {
    const uint8_t* const of_pair = slots.data() + (pairs >> block & 1) * 4;
    to[0] = begin_of(of_pair[kDc]) | 1;
    std::fill(to + 1, to + kSingleFrom, begin_of(of_pair[kAcChained]));
    std::fill(to + kSingleFrom, to + kPositions, begin_of(of_pair[kAcSingle]));
  }
  std::fill_n(to, kSlicePadding, begin_of(LookupArena::kIdleSlot));
}

LookupArena::LookupArena() : memory_(kSlots * kLookupEntries * sizeof(Entry)) {
  std::ranges::fill(slot(kIdleSlot), Entry{0});
  for (uint32_t size = 1; size <= kLookupBits; ++size) {
    build_value_lookup(size, slot(kValueSlots - 1 + size));
  }
}

int32_t decode_slow(const Stream& stream, uint32_t position, uint64_t* bit) {
  const uint32_t k = position % kPositions;
  const uint32_t pair = stream.tables->pairs >> (position / kPositions) & 1;
  const CanonicalTable& table = *stream.tables->canonical[pair * 2 + (k == 0 ? 0 : 1)];
  const uint64_t buffer = peek_bits(stream, *bit);
  uint32_t length = 0;
  const int32_t symbol = slow_symbol(table, buffer, &length);
  if (symbol < 0 || !is_legal_symbol(k > 0, symbol)) return -1;
  *bit += length;
  if (k > 0 && symbol == 0) return static_cast<int32_t>(position - k + kPositions);
  const uint32_t run = k == 0 ? 0 : static_cast<uint32_t>(symbol) >> 4;
  const uint32_t size = k == 0 ? static_cast<uint32_t>(symbol) : static_cast<uint32_t>(symbol) & 15;
  if (k + run >= kPositions) return -1;
  const auto bits = size == 0 ? 0 : static_cast<uint32_t>(buffer << length >> (64 - size));
  stream.out[position + run] = static_cast<int16_t>(size == 0 ? 0 : extend(bits, size));
  *bit += size;
  return static_cast<int32_t>(position + run + 1);
}

EntropyKernel best_entropy_kernel() {
#ifdef FOREBAY_X86_KERNELS
  // Highway's AVX3 stands for F, BW, DQ and VL. If Highway may not use it, neither does this code.
  const bool all = (hwy::SupportedTargets() & HWY_AVX3) != 0 &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vbmi") &&
                   __builtin_cpu_supports("avx512vbmi2");
  if (all) return EntropyKernel::kAvx512;
  if ((hwy::SupportedTargets() & HWY_AVX2) != 0) return EntropyKernel::kAvx2;
#endif
  return EntropyKernel::kPortable;
}

void decode_slices(const KernelSelection& choice, const NextStreams& ahead,
                   const LookupArena& arena, [[maybe_unused]] int16_t* coefficients,
                   StreamSource& source) {
  FOREBAY_CHECK(ahead.walked.empty() || (ahead.tables != nullptr && ahead.walked[0] == 0));
  const EntropyKernel kernel = choice.for_streams(ahead.count);
#ifdef FOREBAY_X86_KERNELS
  if (kernel == EntropyKernel::kAvx512) {
    const uint8_t* const slots = ahead.tables == nullptr ? nullptr : ahead.tables->slots.data();
    decode_slices_avx512(slots, ahead.walked.data(), ahead.walked.size(), arena.entries(),
                         coefficients, source);
    return;
  }
  if (kernel == EntropyKernel::kAvx2) {
    decode_slices_avx2(ahead, arena.entries(), coefficients, source);
    return;
  }
#endif
  FOREBAY_CHECK(kernel == EntropyKernel::kPortable);
  decode_slices_portable(ahead, arena.entries(), source);
}

}  // namespace forebay::jpeg
