// DDLP's policies kMte and kWrr (Wei and others, 2024): the host prepares an epoch from its
// beginning, and the prep servers from its end.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "prep/policy/step_policy.h"

namespace forebay::prep {

class TailPolicy final : public StepPolicy {
 public:
  explicit TailPolicy(const PolicyOptions& options) : StepPolicy(options) {}

 private:
  // The prep servers' part of one epoch.
  struct Tail {
    StepNumber begin = 0;    // prep servers are asked for no step before this one
    StepNumber next = 0;     // they were asked for all of their steps from here on
    StepNumber drained = 0;  // all steps from here on were given
    bool is_fixed = false;  // kMte: begin is decided, until servers come or go, or the epoch begins
  };

  bool host_shall_make(StepNumber step) override;
  std::optional<StepNumber> next_to_give() override;
  std::optional<Needed> waits_for() override;
  bool is_needed_now(StepNumber lost) override;
  StepNumber first_needed(const std::set<StepNumber>& lost) const override;
  void plan() override;
  void on_servers_changed() override;

  bool is_mte() const { return options().policy == PolicyKind::kMte; }
  Tail& tail(uint64_t number);
  std::optional<StepNumber> next_of(uint64_t number);
  bool ask_next(uint32_t server);
  bool may_ask_for_more(uint32_t server) const;
  bool delays_end(uint32_t server, StepNumber step, const Tail& tail) const;
  double others_ready_ns(uint32_t server, bool with_host, StepNumber steps) const;

  void fix(uint64_t number);
  double drain_step_ns() const;
  double servers_step_ns() const;
  double servers_begun_steps() const;
  std::optional<StepNumber> next_of_tail();
  void send_ahead();
  bool is_behind(const Tail& tail) const;
  void give_up_promises();
  void give_up_kept();

  std::map<uint64_t, Tail> tails_;
  uint64_t refixed_epoch_ = 0;  // the last epoch whose tail was fixed anew when it began
};

}  // namespace forebay::prep
