// The policy kInterleave: a prep server gets single steps that lie as far ahead of the consumer as
// it needs to be in time. A plan of the next steps is made anew after each event, so that wrong
// expectations correct themselves.
#pragma once

#include <optional>
#include <vector>

#include "prep/policy/step_policy.h"

namespace forebay::prep {

class Interleave final : public StepPolicy {
 public:
  explicit Interleave(const PolicyOptions& options) : StepPolicy(options) {}

 private:
  // A server in the plan.
  struct Planned {
    double free_ns = 0;
    double step_ns = 0;
    double margin_ns = 0;
    bool may_ask = false;

    double ready_ns() const { return free_ns + step_ns; }
    double surely_ns() const { return free_ns + step_ns + margin_ns; }
  };
  // Where the plan is: what comes before `step` is planned.
  struct Course {
    StepNumber step = 0;
    double host_ns = 0;             // when the host has made its steps before it
    double consumer_ns = 0;         // when the consumer asks for it
    std::optional<double> open_ns;  // the same for the first step that nobody has
    std::vector<Planned> servers;
    // The servers that are up, with the time of surely_ns(): a heap, of which the soonest is first.
    std::vector<std::pair<double, uint32_t>> soonest;
    // What the consumer needs until then, a server that may be asked could be asked for; nothing
    // where none may be asked.
    std::optional<double> asking_ns;
  };

  bool host_shall_make(StepNumber step) override;
  std::optional<StepNumber> next_to_give() override;
  std::optional<Needed> waits_for() override;
  bool is_needed_now(StepNumber lost) override;
  void on_servers_changed() override;
  void plan() override;

  Planned planned(uint32_t server) const;
  Course begin() const;
  bool goes_on(const Course& course) const;
  bool have_servers_in_time(StepNumber step) const;
  double plan_open_step(Course& course);
  double plan_server(Course& course, uint32_t number);
  static void see_asking(Course& course);
  bool may_fetch(uint32_t server) const;
};

}  // namespace forebay::prep
