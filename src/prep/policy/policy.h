// Decides which steps of an epoch this process prepares itself and which ones prep servers prepare:
// other machines that read and decode near the storage (docs/decisions/0020-prep-servers.md). Plain
// logic without threads, sockets and clocks, so that a simulator can drive it; prep/ connects it to
// the world.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace forebay::prep {

// Steps are numbered through all epochs: epoch * steps_each + the step in its epoch.
using StepNumber = uint64_t;

enum class PolicyKind : uint8_t {
  // Each prep server prepares single steps that lie far enough ahead of the consumer, so that
  // they are there when their turn comes. The steps are consumed in the epoch's order.
  kInterleave,
  // Moving Towards Each Other (DDLP, Wei and others): the prep servers prepare a fixed number of
  // steps
  // from the epoch's end towards its beginning. The consumer gets the host's steps first, and then
  // theirs in the order in which they were made.
  kMte,
  // Weighted Round Robin (the same work): the prep servers prepare steps from the epoch's end until
  // they meet the host. The consumer gets a prep server's step whenever one is there.
  kWrr,
};

struct PolicyOptions {
  PolicyKind policy = PolicyKind::kInterleave;
  // Whether steps of an epoch are consumed as they are ready. kMte and kWrr need it.
  bool any_order = false;
  uint64_t steps_each = 1;      // steps of an epoch
  StepNumber end = UINT64_MAX;  // nothing is known of steps from here on; the end of an epoch
  StepNumber first = 0;         // where the consumer begins; those before it are over
  // Steps from `first` on that are over already, because their order was another one. Ascending.
  std::vector<StepNumber> over = {};
  uint32_t servers = 1;  // prep servers, numbered from 0; all are down at first
  // How many of the prep servers' steps may be on their way to this process or wait here, because
  // they take its memory. At least 2 for each server; in a fixed order, a server that is k times
  // faster than the host needs 2 + k. A step that was lost may come on top.
  uint32_t here_max = 4;
  uint32_t kept_max = 1;  // how many finished steps a prep server may keep, at least 1 (kMte)
  // What the host, and each prep server, took for a step before; 0 or missing: it is not known.
  double host_step_ns = 0;
  std::vector<double> server_steps_ns = {};
};

struct PolicyEvent {
  enum class Kind : uint8_t {
    kHostAsks,       // the host could begin `step`; it asks for each step from `first` on once, in
                     // ascending order
    kHostMade,       // the host has prepared `step`; in the order in which it began them
    kRescued,        // the host has prepared `step` out of turn
    kServerUp,       // `server` answers (again); it has nothing in work and keeps nothing, and can
                     // keep `keeps` finished steps
    kServerDown,     // `server` does not answer: all that it was asked for is lost
    kServerKeeps,    // `server` has prepared `step`, and keeps it (kMake)
    kServerGave,     // the step of `server` is here (kFetch)
    kServerChecked,  // the same, but the host prepares it too and compares: kRescued will follow
    kServerFailed,   // `server` cannot prepare `step`; it may still prepare others
    kConsumerAsks,   // the consumer waits for a step
    kTick,           // the time of wake_ns() has come
  };
  Kind kind = Kind::kTick;
  int64_t now_ns = 0;  // of any clock that never goes back
  StepNumber step = 0;
  uint32_t server = 0;
  uint32_t keeps = UINT32_MAX;
  // Goes with kConsumerAsks. The consumer was slower at its own work because others had the
  // processors, and the host's steps are among these. kInterleave then has prep servers make
  // whatever they can make in time.
  bool is_host_short = false;
};

struct PolicyAction {
  enum class Kind : uint8_t {
    kHostMakes,  // answers kHostAsks: the host begins `step`
    kHostSkips,  // answers kHostAsks: the host leaves `step` out
    kMake,       // `server` shall prepare `step` and keep it
    kFetch,      // `server` shall send `step`, and prepare it first where it has not been told to
    kForget,     // `server` need not prepare `step` any more, nor keep or send it
    kRescue,     // the host prepares `step` out of turn, because its server is late or gone
    kGive,       // answers kConsumerAsks, perhaps later: the consumer gets `step`
  };
  Kind kind = Kind::kGive;
  StepNumber step = 0;
  uint32_t server = 0;
};

// What one server did, for reports.
struct PolicyShare {
  uint64_t steps = 0;    // given to the consumer
  double step_ns = 0;    // how long it takes for a step at the moment; 0: not known
  StepNumber front = 0;  // the step that it was asked for last
  uint64_t late = 0;     // steps that were taken back from it because they were late
};

// One thread at a time may use it. Each step() tells it what happened and gives what is to be done,
// in this order. Whatever the events, each step is given exactly once, and none before all steps of
// the epochs before its own. An event about a step that the machine does not wait for any more (it
// was rescued, forgotten, or its server was down meanwhile) changes nothing.
class Policy {
 public:
  virtual ~Policy() = default;
  static std::unique_ptr<Policy> make(const PolicyOptions& options);

  virtual std::vector<PolicyAction> step(const PolicyEvent& event) = 0;
  // When a kTick is wanted; INT64_MAX: not at all.
  virtual int64_t wake_ns() const = 0;

  // All steps below this were given.
  virtual StepNumber position() const = 0;
  // Steps from position() on that were given. Ascending.
  virtual std::vector<StepNumber> over() const = 0;
  virtual PolicyShare host() const = 0;
  virtual PolicyShare server(uint32_t number) const = 0;
};

}  // namespace forebay::prep
