// Decides which steps of an epoch the host prepares itself and which ones its prep servers prepare.
// A prep server is another machine, best one near the storage, that prepares some of the steps
// (docs/decisions/0020-prep-servers.md). Plain logic without threads, sockets and clocks, so that a
// simulator can drive it; prep/host connects it to the world.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace forebay::prep {

// Steps are numbered through all epochs: epoch * steps_each + the step in its epoch.
using StepNumber = uint64_t;

enum class PolicyKind : uint8_t {
  // Each prep server prepares single steps, far enough ahead of the consumer to be ready when their
  // turn comes. Steps are consumed in the epoch's order.
  kInterleave,
  // Moving Towards Each Other (DDLP, Wei and others): the prep servers prepare a fixed number of
  // steps, from the epoch's end towards its beginning. The consumer gets the host's steps first,
  // and then the prep servers' steps in the order in which they were prepared.
  kMte,
  // Weighted Round Robin (also DDLP): the prep servers prepare steps from the epoch's end until
  // they meet the host. The consumer gets a prep server's step whenever one is ready.
  kWrr,
};

struct PolicyOptions {
  PolicyKind policy = PolicyKind::kInterleave;
  // Whether steps of an epoch may be consumed in any order. kMte and kWrr need it.
  bool any_order = false;
  uint64_t steps_each = 1;      // steps of an epoch
  StepNumber end = UINT64_MAX;  // the end of the last epoch whose steps are known
  StepNumber first = 0;         // where the consumer begins; all earlier steps were consumed
  // Steps from `first` on that were consumed before their turn, ascending.
  std::vector<StepNumber> over = {};
  uint32_t servers = 1;  // prep servers, numbered from 0; all are down at first
  // How many of the prep servers' steps may be on their way to this process or wait in its memory.
  // At least 2 for each server; in a fixed order, a server that is k times faster than the host
  // needs 2 + k. A lost step, or the step that the consumer waits for, may come on top.
  uint32_t here_max = 4;
  uint32_t kept_max = 1;  // how many finished steps a prep server may keep, at least 1 (kMte)
  // How long the host and each prep server took for a step so far; 0 or missing: not known.
  double host_step_ns = 0;
  std::vector<double> server_steps_ns = {};
};

struct PolicyEvent {
  enum class Kind : uint8_t {
    kHostAsks,       // the host could begin `step`; it asks once for each step from `first` on, in
                     // ascending order
    kHostMade,       // the host has prepared `step`; it finishes steps in the order of beginning
    kRescued,        // the host has prepared `step` out of turn
    kServerUp,       // `server` answers (again); it has no work, keeps no steps, and can keep
                     // `keeps` finished steps
    kServerDown,     // `server` does not answer: all steps that it was asked for are lost
    kServerKeeps,    // `server` has prepared `step`, and keeps it (kMake)
    kServerGave,     // `step` has arrived from `server` (kFetch)
    kServerChecked,  // like kServerGave, but the host prepares the step too, to compare both:
                     // kRescued will follow
    kServerFailed,   // `server` cannot prepare `step`; it may still prepare others
    kConsumerAsks,   // the consumer waits for a step
    kTick,           // it is wake_ns()
  };
  Kind kind = Kind::kTick;
  int64_t now_ns = 0;  // of any clock that never goes back
  StepNumber step = 0;
  uint32_t server = 0;
  uint32_t keeps = UINT32_MAX;
  // For kConsumerAsks: the consumer's own work was slowed down because other threads, such as those
  // that prepare the host's steps, occupied the processors. kInterleave then lets prep servers
  // prepare every step that they can have ready in time.
  bool is_host_short = false;
};

struct PolicyAction {
  enum class Kind : uint8_t {
    kHostMakes,  // answers kHostAsks: the host begins `step`
    kHostSkips,  // answers kHostAsks: the host leaves `step` out
    kMake,       // `server` shall prepare `step` and keep it
    kFetch,      // `server` shall send `step`, and prepare it first unless kMake did so
    kForget,     // `server` need no longer prepare, keep or send `step`
    kRescue,     // the host prepares `step` out of turn, because its server is late or gone
    kGive,       // answers kConsumerAsks, perhaps later: the consumer gets `step`
  };
  Kind kind = Kind::kGive;
  StepNumber step = 0;
  uint32_t server = 0;
};

// What the host or one server did, for reports.
struct PolicyShare {
  uint64_t steps = 0;    // given to the consumer
  double step_ns = 0;    // how long it takes for a step at the moment; 0: not known
  StepNumber front = 0;  // the step that the host began, or the server was asked for, last
  uint64_t late = 0;     // steps that were taken back from a server because they were late
};

// One thread at a time may use it. step() takes an event and returns the actions that follow, in
// the order in which they must be performed. Whatever the events, each step is given exactly once,
// and only after all steps of earlier epochs. An event about a step that the policy no longer waits
// for (it was rescued or forgotten, or its server was down meanwhile) changes nothing.
class Policy {
 public:
  virtual ~Policy() = default;
  static std::unique_ptr<Policy> make(const PolicyOptions& options);

  virtual std::vector<PolicyAction> step(const PolicyEvent& event) = 0;
  // When the policy wants a kTick; INT64_MAX: never.
  virtual int64_t wake_ns() const = 0;

  // All steps before this one were given.
  virtual StepNumber position() const = 0;
  // Steps after position() that were given, ascending.
  virtual std::vector<StepNumber> over() const = 0;
  virtual PolicyShare host() const = 0;
  virtual PolicyShare server(uint32_t number) const = 0;
};

}  // namespace forebay::prep
