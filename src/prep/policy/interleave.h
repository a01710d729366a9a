// The policy kInterleave: prep servers are asked for single steps, each just far enough ahead of
// the consumer to be ready in time. The next steps are planned anew after each event, so that wrong
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
  // What the plan expects of a server.
  struct Planned {
    double free_ns = 0;
    double step_ns = 0;
    double margin_ns = 0;
    bool may_ask = false;

    double ready_ns() const { return free_ns + step_ns; }
    double surely_ns() const { return free_ns + step_ns + margin_ns; }
  };
  // A plan in progress: all steps before `step` are planned.
  struct Course {
    StepNumber step = 0;
    double host_ns = 0;             // when the host has made its earlier steps
    double consumer_ns = 0;         // when the consumer asks for `step`
    std::optional<double> open_ns;  // when it asks for the first step that nobody makes yet
    std::vector<Planned> servers;
    // surely_ns() and number of each server that is up: a heap, with the soonest server first.
    std::vector<std::pair<double, uint32_t>> soonest;
    // Servers could be asked now for steps that the consumer needs until this time. Unset: no
    // server may be asked.
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
