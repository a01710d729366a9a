// What is sent to a GPU at once: some samples' JPEGs, as far as they are needed, or their bytes
// where the host made them, and what the kernels are told of each.
#pragma once

#include <vector>

#include "image/gpu.h"
#include "image/prepare.h"
#include "image/resize_weights.h"
#include "jpeg/plan_gpu.h"

namespace forebay::image::gpu {

// Keeps its buffers between rounds. One thread at a time.
class Round {
 public:
  Round(Interpolation interpolation, const TensorOptions& options,
        const std::array<float, 3>& erased, Damaged damaged);

  // Forgets all samples.
  void begin();

  // Bytes of the memory that is sent and of the GPU's own.
  struct Room {
    uint64_t sent = 0;
    uint64_t work = 0;
  };
  // What the round needs with a JPEG's sample besides, at most; nothing where a GPU is no good for
  // it (jpeg/plan_gpu.h).
  std::optional<Room> lay_out(const Encoded& source, const Draw& drawn);
  std::optional<Room> lay_out(const jpeg::gpu::Stored& stored, const Draw& drawn);
  // The one that lay_out() was asked about, last. `bits`: memory of the round's beginning, with
  // that room. False, and nothing is added, where it is malformed.
  bool add(const Encoded& source, const Draw& drawn, uint8_t* bits, uint8_t* out);
  void add(const jpeg::gpu::Stored& stored, const Draw& drawn, uint8_t* out);

  // That the host makes of a sample.
  static uint64_t made_bytes(const Draw& drawn) {
    return uint64_t{drawn.size.width} * drawn.size.height * 3;
  }
  // Behind all JPEGs, for the bytes of a sample that the host makes: where they go, in the memory
  // of the round's beginning.
  uint64_t take_made(const Draw& drawn);
  // The sample of the bytes there.
  void add_made(const Draw& drawn, uint64_t at, uint8_t* out);
  // Behind all JPEGs: zeros in place of a sample.
  void add_zeros(Size size, uint8_t* out);

  size_t samples() const { return samples_.size(); }
  size_t regions() const { return plan_.regions().size(); }
  // What is needed of all that was added.
  Room room() const;
  // Writes what the kernels are told behind the bits and the samples' bytes. `memory`: with that
  // room, of what is sent the round's beginning.
  Run write(const Queue::Memory& memory);

 private:
  struct Places;
  Places places() const;
  uint64_t made_begin() const;
  Room room_with_next(const Draw& drawn, uint64_t bits_bytes) const;
  void add_decoded(const Draw& drawn, uint8_t* out);
  Sample make_sample(const Draw& drawn, uint8_t* out);
  Axis add_axis(const AxisSpec& spec);
  uint64_t add_shown(uint32_t count, bool flip, int64_t begin, uint32_t side, uint32_t first,
                     BorderKind kind);
  void add_erased(const Draw& drawn, Sample* sample);
  void count_items(Run* run) const;

  const Interpolation interpolation_;
  const Layout layout_;
  const size_t number_bytes_;
  const TensorWriter writer_;
  const std::array<uint32_t, 3 * 256> values_;  // what each byte becomes
  const std::array<uint32_t, 3> erased_;        // what an erased pixel is

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
