// Operations in which all processes of a job take part: the sum of numbers, and bytes that all get.
// All processes begin the same operations in the same order. A process that has ended takes part in
// the sums that others begin until all have ended, so a step more or less breaks nothing.
//
// A sum costs each process as many bytes as a ring's: it sends each peer the part that this peer
// sums up, and gets the other parts' sums back. All processes get the same bits, because each part
// is summed in one place, in the order of ranks. A piece of a part is summed and sent back as soon
// as it has arrived from all, so that the links do not wait between the two.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "io/mesh.h"
#include "train/sync/sum_in_pieces.h"

namespace forebay::train {

using base::Bytes;
using base::Result;
using base::Status;

// One thread at a time calls it, except for missing(). Errors of all operations: kUnavailable if a
// process is gone; kTimedOut at the deadline, on the clock of monotonic_ns(); kCancelled after
// Mesh::stop(); kInvalid if another process makes another operation; kTooBig if it gives more bytes
// than base::kGatheredBytesMax. After an error, no further operation makes sense.
class Sums {
 public:
  // Nothing else uses the channel. All processes make and use Sums for it in the same order. `look`
  // is called about once a second while an operation waits (io::Mesh::Look).
  Sums(io::Mesh& mesh, io::Mesh::Channel channel, io::Mesh::Look look = {});

  // Replaces the numbers by their sums over all processes. If `left_out` is given, in all
  // processes, numbers and sums are rounded to send them as int8 (SumInPieces::begin).
  Status add(std::span<float> numbers, int64_t deadline_ns, std::span<float> left_out = {});
  // Returns what each process passes as `own`, by rank. None may have said its end.
  Result<std::vector<base::ByteVector>> gather(Bytes own, int64_t deadline_ns);
  // Tells all processes that this one begins no further operation.
  Status say_end();
  // After say_end(): waits until another process begins a sum, in which this process must take
  // part; returns false when all processes have ended.
  Result<bool> wait_for_more();

  // The processes that have not begun the present operation; if all have, those that have not
  // summed up their parts. After say_end(), those that have not ended.
  std::vector<uint32_t> missing() const EXCLUDES(mutex_);

 private:
  enum class Kind : uint32_t { kSum = 1, kBytes, kEnd, kRoundedSum };
  struct Header {
    Kind kind = Kind::kSum;
    uint32_t sender = 0;
    uint64_t number = 0;  // of the operation
    uint64_t bytes = 0;   // of all numbers of a sum, or that follow
  };
  // What a peer has said about the present operation.
  struct Peer {
    Header header;
    bool has_summed = false;  // its part of the present sum has come back
    bool has_begun = false;   // `header` is that of the present operation
    bool has_ended = false;
  };

  Header own_header(Kind kind, uint64_t bytes) const;
  void begin() EXCLUDES(mutex_);
  void finish() EXCLUDES(mutex_);
  base::MutableBytes header_room(uint32_t peer);
  // Handles the header that has arrived; returns whether it begins an operation.
  Result<bool> took_header(uint32_t peer);
  // Receives the header of `kind`, and then into the memory that `rest` returns, until it returns
  // none.
  io::Mesh::Receiving receiving(uint32_t peer, Kind kind,
                                std::function<Result<base::MutableBytes>()> rest);

  io::Mesh& mesh_;
  const io::Mesh::Channel channel_;
  const io::Mesh::Look look_;
  uint64_t number_ = 0;
  SumInPieces sum_;  // the present one
  mutable base::Mutex mutex_;
  std::vector<Peer> peers_;  // guarded by mutex_ for missing(), written by the calling thread alone
  bool is_busy_ GUARDED_BY(mutex_) = false;
  bool is_ending_ GUARDED_BY(mutex_) = false;
};

}  // namespace forebay::train
