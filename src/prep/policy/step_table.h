// Which step is where. Knows nothing of rates and policies; makes sure that no step is given twice.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "prep/policy/policy.h"

namespace forebay::prep {

// Where a step is on its way from nobody to the consumer.
enum class StepState : uint8_t {
  kNobody,    // nobody has been asked for it
  kPromised,  // the host has left it out, and a prep server will be asked for it
  kHost,      // the host has begun it
  kServer,    // a prep server was asked to prepare it
  kKept,      // a prep server has prepared it, and keeps it
  kSent,      // a prep server keeps it, and was asked to send it
  kRescue,    // the host prepares it out of turn: its server has lost it, or it is compared
  kHere,      // it waits for the consumer
  kGiven,
};

enum class Maker : uint8_t { kHost, kServer, kRescue };

struct Entry {
  StepState state = StepState::kNobody;
  Maker maker = Maker::kHost;  // who has or had it last; means nothing at kNobody
  uint32_t server = 0;         // for Maker::kServer
  bool is_sent = false;        // at kServer: whether it shall be sent when it is prepared
  bool is_for_host = false;    // a prep server could not prepare it
  double asked_ns = 0;         // when its maker was asked for it
  double due_ns = 0;           // when it was expected then
};

class StepTable {
 public:
  StepTable(StepNumber first, const std::vector<StepNumber>& over, uint64_t steps_each);

  const Entry& at(StepNumber step) const;
  Entry& change(StepNumber step) { return entries_[step]; }
  bool is_given(StepNumber step) const;
  // The step is here now.
  void arrive(StepNumber step);
  // The step is here and its turn has come.
  void give(StepNumber step);
  // Takes a step from whoever has it. If the host has left it out, it is lost.
  void release(StepNumber step);

  // Everything below was asked for by the host.
  StepNumber host_next() const { return host_next_; }
  bool is_passed(StepNumber step) const { return step < host_next_; }
  void pass() { ++host_next_; }
  // Steps that the host has left out and that nobody makes.
  const std::set<StepNumber>& lost() const { return lost_; }
  void mark_found(StepNumber step) { lost_.erase(step); }
  // A step that may be asked of a prep server.
  bool is_free(StepNumber step) const;

  // Steps that wait for the consumer.
  const std::set<StepNumber>& here() const { return here_; }
  StepNumber position() const { return position_; }
  std::vector<StepNumber> over() const;
  // Everything that was touched from position() on, in ascending order.
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
