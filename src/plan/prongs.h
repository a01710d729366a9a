// Decides which steps of an epoch this process prepares itself and which ones near sides prepare:
// other machines that read and decode near the storage (docs/decisions/0020-two-ends.md). Plain
// logic without threads, sockets and clocks, so that a simulator can drive it; prep/ connects it to
// the world.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace forebay::plan {

// Steps are numbered through all epochs: epoch * steps_each + the step in its epoch.
using StepNumber = uint64_t;

enum class ProngPolicy : uint8_t {
  // Each near side prepares single steps that lie far enough ahead of the consumer, so that
  // they are there when their turn comes. The steps are consumed in the epoch's order.
  kInterleave,
  // Moving Towards Each Other (DDLP, Wei and others): the near sides prepare a fixed number of
  // steps
  // from the epoch's end towards its beginning. The consumer gets the host's steps first, and then
  // theirs in the order in which they were made.
  kMte,
  // Weighted Round Robin (the same work): the near sides prepare steps from the epoch's end until
  // they meet the host. The consumer gets a near side's step whenever one is there.
  kWrr,
};

struct ProngOptions {
  ProngPolicy policy = ProngPolicy::kInterleave;
  // Whether steps of an epoch are consumed as they are ready. kMte and kWrr need it.
  bool any_order = false;
  uint64_t steps_each = 1;      // steps of an epoch
  StepNumber end = UINT64_MAX;  // nothing is known of steps from here on; the end of an epoch
  StepNumber first = 0;         // where the consumer begins; those before it are over
  // Steps from `first` on that are over already, because their order was another one. Ascending.
  std::vector<StepNumber> over = {};
  uint32_t sides = 1;  // near sides, numbered from 0; all are down at first
  // How many of the near sides' steps may be on their way to this process or wait here, because
  // they take its memory. At least 2 for each side; in a fixed order, a side that is k times faster
  // than the host needs 2 + k. A step that was lost may come on top.
  uint32_t here_max = 4;
  uint32_t kept_max = 1;  // how many finished steps a near side may keep, at least 1 (kMte)
  // What the host, and each near side, took for a step before; 0 or missing: it is not known.
  double host_step_ns = 0;
  std::vector<double> side_steps_ns = {};
};

struct ProngEvent {
  enum class Kind : uint8_t {
    kHostAsks,      // the host could begin `step`; it asks for each step from `first` on once, in
                    // ascending order
    kHostMade,      // the host has prepared `step`; in the order in which it began them
    kRescued,       // the host has prepared `step` out of turn
    kSideUp,        // `side` answers (again); it has nothing in work and keeps nothing, and can
                    // keep `keeps` finished steps
    kSideDown,      // `side` does not answer: all that it was asked for is lost
    kSideKeeps,     // `side` has prepared `step`, and keeps it (kMake)
    kSideGave,      // the step of `side` is here (kFetch)
    kSideChecked,   // the same, but the host prepares it too and compares: kRescued will follow
    kSideFailed,    // `side` cannot prepare `step`; it may still prepare others
    kConsumerAsks,  // the consumer waits for a step
    kTick,          // the time of wake_ns() has come
  };
  Kind kind = Kind::kTick;
  int64_t now_ns = 0;  // of any clock that never goes back
  StepNumber step = 0;
  uint32_t side = 0;
  uint32_t keeps = UINT32_MAX;
  // Goes with kConsumerAsks. The consumer was slower at its own work because others had the
  // processors, and the host's steps are among these. kInterleave then has near sides make whatever
  // they can make in time.
  bool is_host_short = false;
};

struct ProngAction {
  enum class Kind : uint8_t {
    kHostMakes,  // answers kHostAsks: the host begins `step`
    kHostSkips,  // answers kHostAsks: the host leaves `step` out
    kMake,       // `side` shall prepare `step` and keep it
    kFetch,      // `side` shall send `step`, and prepare it first where it has not been told to
    kForget,     // `side` need not prepare `step` any more, nor keep or send it
    kRescue,     // the host prepares `step` out of turn, because its side is late or gone
    kGive,       // answers kConsumerAsks, perhaps later: the consumer gets `step`
  };
  Kind kind = Kind::kGive;
  StepNumber step = 0;
  uint32_t side = 0;
};

// What one side did, for reports.
struct ProngShare {
  uint64_t steps = 0;    // given to the consumer
  double step_ns = 0;    // how long it takes for a step at the moment; 0: not known
  StepNumber front = 0;  // the step that it was asked for last
  uint64_t late = 0;     // steps that were taken back from it because they were late
};

// One thread at a time may use it. Each step() tells it what happened and gives what is to be done,
// in this order. Whatever the events, each step is given exactly once, and none before all steps of
// the epochs before its own. An event about a step that the machine does not wait for any more (it
// was rescued, forgotten, or its side was down meanwhile) changes nothing.
class Prongs {
 public:
  virtual ~Prongs() = default;
  static std::unique_ptr<Prongs> make(const ProngOptions& options);

  virtual std::vector<ProngAction> step(const ProngEvent& event) = 0;
  // When a kTick is wanted; INT64_MAX: not at all.
  virtual int64_t wake_ns() const = 0;

  // All steps below this were given.
  virtual StepNumber position() const = 0;
  // Steps from position() on that were given. Ascending.
  virtual std::vector<StepNumber> over() const = 0;
  virtual ProngShare host() const = 0;
  virtual ProngShare side(uint32_t number) const = 0;
};

}  // namespace forebay::plan
