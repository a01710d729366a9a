// The content of one transfer to a GPU: the needed parts of the JPEGs of some samples, or their
// pixels when the host decoded them, and the description of each sample for the kernels.
#pragma once

#include <vector>

#include "image/gpu/device_gpu.h"
#include "image/prepare.h"
#include "image/transform/resize_weights.h"
#include "jpeg/plan_gpu.h"

namespace forebay::image::gpu {

// Keeps its buffers between rounds. Used by one thread at a time.
class Round {
 public:
  Round(Interpolation interpolation, const TensorOptions& options,
        const std::array<float, 3>& erased, Damaged damaged);

  // Forgets all samples.
  void begin();

  // Sizes in bytes: memory that is sent, and memory for intermediate results on the GPU.
  struct MemoryBytes {
    uint64_t sent = 0;
    uint64_t work = 0;
  };
  // Prepares adding a JPEG. Returns the most memory that the round then needs, or nothing if the
  // host should decode the JPEG (jpeg/plan_gpu.h).
  std::optional<MemoryBytes> lay_out(const Encoded& source, const Draw& drawn);
  std::optional<MemoryBytes> lay_out(const jpeg::gpu::ResidentJpeg& stored, const Draw& drawn);
  // Adds the JPEG of the last call to lay_out(). `bits` is the beginning of the memory of the
  // round, with the returned room. Returns false, and adds nothing, when the JPEG is malformed.
  bool add(const Encoded& source, const Draw& drawn, uint8_t* bits, uint8_t* out);
  void add(const jpeg::gpu::ResidentJpeg& stored, const Draw& drawn, uint8_t* out);

  // The number of bytes that the host makes for a sample.
  static uint64_t made_bytes(const Draw& drawn) {
    return uint64_t{drawn.size.width} * drawn.size.height * 3;
  }
  // Reserves room for the bytes of a sample that the host makes, after all JPEGs. Returns their
  // offset from the beginning of the round's memory.
  uint64_t take_made(const Draw& drawn);
  // Adds the sample whose bytes the host wrote at the offset `at`.
  void add_made(const Draw& drawn, uint64_t at, uint8_t* out);
  // Adds a sample of zeros; only after all JPEGs.
  void add_zeros(Size size, uint8_t* out);

  size_t samples() const { return samples_.size(); }
  size_t regions() const { return plan_.regions().size(); }
  // The room that everything added so far needs.
  MemoryBytes room() const;
  // Writes the description for the kernels after the JPEGs and the host's bytes. `memory` has the
  // room of room(); its sent part begins at the beginning of the round.
  KernelArguments write(const Queue::Memory& memory);

 private:
  struct Places;
  Places places() const;
  uint64_t made_begin() const;
  MemoryBytes room_with_next(const Draw& drawn, uint64_t bits_bytes) const;
  void add_decoded(const Draw& drawn, uint8_t* out);
  Sample make_sample(const Draw& drawn, uint8_t* out);
  Axis add_axis(const AxisSpec& spec);
  uint64_t add_shown(uint32_t count, bool flip, int64_t begin, uint32_t side, uint32_t first,
                     BorderKind kind);
  void add_erased(const Draw& drawn, Sample* sample);
  void count_items(KernelArguments* arguments) const;

  const Interpolation interpolation_;
  const Layout layout_;
  const size_t number_bytes_;
  const TensorWriter writer_;
  const std::array<uint32_t, 3 * 256> values_;  // what each byte becomes, by channel
  const std::array<uint32_t, 3> erased_;        // what an erased pixel becomes

  jpeg::gpu::Plan plan_;
  std::vector<Sample> samples_;
  std::vector<int32_t> numbers_;
  std::vector<int16_t> weights_;
  base::ByteVector patches_;
  uint64_t made_bytes_ = 0;
  uint64_t between_bytes_ = 0;
  image::Axis axis_;
};

}  // namespace forebay::image::gpu
