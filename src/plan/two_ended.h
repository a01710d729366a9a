// The policies kMte and kWrr of DDLP (Wei and others, 2024): the host prepares an epoch from its
// beginning, and the near sides from its end.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "plan/engine.h"

namespace forebay::plan {

class TwoEnded final : public Engine {
 public:
  explicit TwoEnded(const ProngOptions& options) : Engine(options) {}

 private:
  // The near sides' part of one epoch.
  struct Tail {
    StepNumber begin = 0;    // near sides are asked for no step below this one
    StepNumber next = 0;     // they were asked for everything from here on that they shall make
    StepNumber drained = 0;  // everything from here on was given
    bool is_fixed = false;   // kMte: begin is decided, until sides come or go, or the epoch begins
  };

  bool host_shall_make(StepNumber step) override;
  std::optional<StepNumber> next_to_give() override;
  std::optional<Needed> waits_for() override;
  bool is_needed_now(StepNumber lost) override;
  StepNumber first_needed(const std::set<StepNumber>& lost) const override;
  void plan() override;
  void on_sides_changed() override;

  bool is_mte() const { return options().policy == ProngPolicy::kMte; }
  Tail& tail(uint64_t number);
  std::optional<StepNumber> next_of(uint64_t number);
  bool ask_next(uint32_t side);
  bool may_ask_for_more(uint32_t side) const;
  bool delays_end(uint32_t side, StepNumber step, const Tail& tail) const;
  double others_ready_ns(uint32_t side, bool with_host, StepNumber steps) const;

  void fix(uint64_t number);
  double drain_step_ns() const;
  double sides_step_ns() const;
  double sides_begun_steps() const;
  std::optional<StepNumber> next_of_tail();
  void send_ahead();
  bool is_behind(const Tail& tail) const;
  void give_up_promises();
  void give_up_kept();

  std::map<uint64_t, Tail> tails_;
  uint64_t refixed_epoch_ = 0;  // whose tail was fixed anew when it began
};

}  // namespace forebay::plan
