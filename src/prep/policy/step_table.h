// Who has each step, and in which state. Knows nothing of rates and policies; makes sure that no
// step is given twice.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "prep/policy/policy.h"

namespace forebay::prep {

// How far a step is on its way to the consumer.
enum class StepState : uint8_t {
  kNobody,    // nobody has been asked for it
  kPromised,  // the host has left it out, and a prep server will be asked for it
  kHost,      // the host has begun it
  kServer,    // a prep server was asked to prepare it
  kKept,      // a prep server has prepared it, and keeps it
  kSent,      // a prep server has kept it, and was asked to send it
  kRescue,    // the host prepares it out of turn: its server has lost it, or it is compared
  kHere,      // it waits for the consumer
  kGiven,
};

enum class Maker : uint8_t { kHost, kServer, kRescue };

struct Entry {
  StepState state = StepState::kNobody;
  Maker maker = Maker::kHost;  // who has or had the step last; not used at kNobody
  uint32_t server = 0;         // for Maker::kServer
  bool is_sent = false;        // at kServer: whether the server shall send it once it is prepared
  bool is_for_host = false;    // no prep server may be asked for it (again)
  double asked_ns = 0;         // when its maker was asked for it
  double due_ns = 0;           // when it was then expected to be ready
};

class StepTable {
 public:
  StepTable(StepNumber first, const std::vector<StepNumber>& over, uint64_t steps_each);

  const Entry& at(StepNumber step) const;
  Entry& change(StepNumber step) { return entries_[step]; }
  bool is_given(StepNumber step) const;
  // The step has arrived, and waits for the consumer.
  void arrive(StepNumber step);
  // The consumer gets the step, which must be here.
  void give(StepNumber step);
  // Nobody makes the step any longer. If the host has left it out, it is lost.
  void release(StepNumber step);

  // The host has asked for all steps before this one.
  StepNumber host_next() const { return host_next_; }
  bool is_passed(StepNumber step) const { return step < host_next_; }
  void pass() { ++host_next_; }
  // Steps that the host has left out and nobody makes.
  const std::set<StepNumber>& lost() const { return lost_; }
  void mark_found(StepNumber step) { lost_.erase(step); }
  // Whether a prep server may be asked for the step.
  bool is_free(StepNumber step) const;

  // Steps that wait for the consumer.
  const std::set<StepNumber>& here() const { return here_; }
  StepNumber position() const { return position_; }
  std::vector<StepNumber> over() const;
  // All steps from position() on whose state ever changed, in ascending order.
  const std::map<StepNumber, Entry>& entries() const { return entries_; }

  uint64_t epoch_of(StepNumber step) const { return step / steps_each_; }
  StepNumber begin_of(uint64_t epoch) const { return epoch * steps_each_; }
  StepNumber end_of(uint64_t epoch) const { return (epoch + 1) * steps_each_; }

 private:
  void advance();

  uint64_t steps_each_;
  StepNumber position_;
  StepNumber host_next_;
  std::map<StepNumber, Entry> entries_;
  std::set<StepNumber> lost_;
  std::set<StepNumber> here_;
};

}  // namespace forebay::prep
