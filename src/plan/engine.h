// What all policies share: who was asked for what and how long it takes, the order in which the
// consumer gets what is here, and what happens to steps that are late or lost. A policy says which
// steps near sides are asked for, and which step is the consumer's next.
#pragma once

#include <optional>
#include <vector>

#include "plan/ledger.h"
#include "plan/prongs.h"
#include "plan/rates.h"

namespace forebay::plan {

class Engine : public Prongs {
 public:
  explicit Engine(const ProngOptions& options);

  std::vector<ProngAction> step(const ProngEvent& event) final;
  int64_t wake_ns() const final { return wake_ns_; }
  StepNumber position() const final { return ledger_.position(); }
  std::vector<StepNumber> over() const final { return ledger_.over(); }
  ProngShare host() const final;
  ProngShare side(uint32_t number) const final;

 protected:
  struct Side {
    bool is_up = false;
    uint32_t kept_max = 1;
    std::vector<StepNumber> queue;    // asked for and not prepared, in the order of asking
    std::vector<StepNumber> sending;  // kept, and on their way
    uint32_t kept = 0;                // prepared and not asked to be sent
    uint32_t here = 0;                // waiting for the consumer, or being compared
    uint32_t held = 0;                // take room here, because they are here or will be sent
    double begun_ns = 0;              // when it began the first step of its queue
    PeriodOfMaker period;
    PeriodOfMaker transfer;  // of steps that it kept
    double late_ns = 0;      // by how much its steps come later than expected, on average
    uint32_t failures = 0;   // in a row
    double rest_until_ns = 0;
    uint64_t steps = 0;
    uint64_t late = 0;
    StepNumber front = 0;
  };

  // The host could begin a step that nobody has or that a near side has. Returns false if it shall
  // leave it out.
  virtual bool host_shall_make(StepNumber step) = 0;
  // The step that the consumer gets now; it is here.
  virtual std::optional<StepNumber> next_to_give() = 0;
  // The step of a near side that decides how long the consumer waits next, and from when on.
  struct Needed {
    StepNumber step = 0;
    double from_ns = 0;
  };
  virtual std::optional<Needed> waits_for() = 0;
  // The consumer waits, and can get nothing before this lost step.
  virtual bool is_needed_now(StepNumber lost) = 0;
  // Which of the lost steps is needed first.
  virtual StepNumber first_needed(const std::set<StepNumber>& lost) const;
  // Asks the near sides for what they can do now.
  virtual void plan() = 0;
  // A near side came or went.
  virtual void on_sides_changed() {}

  uint64_t epoch() const { return ledger_.epoch_of(ledger_.position()); }  // the consumer's
  // Whether steps of the consumer's epoch will come that the host begins in its turn.
  bool has_host_part() const;
  // When it has not and the consumer waits: the near sides' step that will come last.
  std::optional<Needed> last_of_sides() const;

  // Asks a side to prepare a step and to send it or to keep it, or to send one that it keeps.
  void ask(uint32_t side, StepNumber step, bool is_sent);
  void send(StepNumber step);
  // Nobody shall make the step any more. The host comes to it, or it is lost.
  void take_back(StepNumber step);
  // The host leaves out a step that a near side will be asked for.
  void promise(StepNumber step) { ledger_.change(step).place = Place::kPromised; }
  // A promise that will not be kept.
  void break_promise(StepNumber step) { ledger_.release(step); }

  bool may_ask(uint32_t side) const;
  bool has_room_here(uint32_t side) const;
  bool is_side_up() const;
  bool may_rescue_ahead() const { return rescues_ < 2; }

  // Expectations. Infinite where too little is known.
  double host_step_ns() const;
  double side_step_ns(uint32_t side) const;
  double transfer_ns(uint32_t side) const;
  // When the side began to send what it sends now.
  double sending_since_ns(uint32_t side) const;
  double transfer_most_ns(uint32_t side) const;
  double rescue_ns() const;
  double host_free_ns() const;               // when it has finished what it has begun
  double side_free_ns(uint32_t side) const;  // the same
  double arrival_ns(StepNumber step) const;  // of a step that a side has or the host makes
  double consumer_ns() const;                // when the consumer asks next
  double consumer_step_ns() const { return consumer_step_.ns(); }
  // Until when it costs nothing that the consumer waits for a near side's step: the host works at
  // later steps meanwhile, and the consumer catches up when they are there.
  double waits_free_until_ns() const;
  // Whether the consumer is better off if the host makes this step of a side, which it could begin
  // now. Without it the consumer would come to the step at `need_ns`.
  bool is_too_late(StepNumber step, double need_ns) const;

  const ProngOptions& options() const { return options_; }
  const Ledger& ledger() const { return ledger_; }
  const std::vector<Side>& sides() const { return sides_; }
  const std::vector<StepNumber>& host_queue() const { return host_queue_; }
  double now() const { return now_ns_; }
  bool is_waiting() const { return is_waiting_; }
  bool is_host_short() const { return is_host_short_; }
  // A step that near sides may be asked for.
  bool is_free(StepNumber step) const { return step < options_.end && ledger_.is_free(step); }

 private:
  void on(const ProngEvent& event);
  void on_host_asks(StepNumber step);
  void on_host_made(StepNumber step);
  void on_rescued(StepNumber step);
  void on_side_state(uint32_t side, bool is_up);
  void on_kept(uint32_t side, StepNumber step);
  bool on_came(uint32_t side, StepNumber step);
  void on_gave(uint32_t side, StepNumber step);
  void on_checked(uint32_t side, StepNumber step);
  void on_failed(uint32_t side, StepNumber step);
  void on_consumer_asks();

  void give();
  void take_back_late();
  void rescue_lost();
  void rescue(StepNumber step);
  std::optional<uint32_t> sooner_side(StepNumber step) const;
  double queue_ns(uint32_t side, size_t place) const;
  void detach(StepNumber step);
  void see_queue(Side& side);
  void set_held(Side& side, uint32_t held);
  void rest(Side& side);
  void finish(uint32_t side, StepNumber step);
  void act(ProngAction::Kind kind, StepNumber step, uint32_t side = 0);
  double next_wake_ns();

  ProngOptions options_;
  Ledger ledger_;
  std::vector<Side> sides_;
  uint32_t held_ = 0;                 // of all sides together
  uint32_t empty_ = 0;                // sides that are up and hold nothing
  std::vector<ProngAction> actions_;  // of the present event
  double now_ns_ = 0;
  int64_t wake_ns_ = INT64_MAX;

  PeriodOfMaker host_period_;
  std::vector<StepNumber> host_queue_;  // begun and not made
  uint64_t host_steps_ = 0;             // given
  StepNumber host_front_ = 0;
  std::vector<StepNumber> rescuing_;
  uint32_t rescues_ = 0;      // begun, and not given yet
  double rescue_end_ns_ = 0;  // when the host last worked at one

  Period consumer_step_;
  bool is_waiting_ = false;
  bool is_host_short_ = false;
  std::optional<double> given_ns_;  // when the consumer got a step last
};

}  // namespace forebay::plan
