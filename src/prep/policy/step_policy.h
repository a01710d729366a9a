// What all policies share: who was asked for what and how long it takes, the order in which the
// consumer gets what is here, and what happens to steps that are late or lost. A policy says which
// steps prep servers are asked for, and which step is the consumer's next.
#pragma once

#include <optional>
#include <vector>

#include "prep/policy/policy.h"
#include "prep/policy/rates.h"
#include "prep/policy/step_table.h"

namespace forebay::prep {

class StepPolicy : public Policy {
 public:
  explicit StepPolicy(const PolicyOptions& options);

  std::vector<PolicyAction> step(const PolicyEvent& event) final;
  int64_t wake_ns() const final { return wake_ns_; }
  StepNumber position() const final { return table_.position(); }
  std::vector<StepNumber> over() const final { return table_.over(); }
  PolicyShare host() const final;
  PolicyShare server(uint32_t number) const final;

 protected:
  struct Server {
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

  // The host could begin a step that nobody has or that a prep server has. Returns false if it
  // shall leave it out.
  virtual bool host_shall_make(StepNumber step) = 0;
  // The step that the consumer gets now; it is here.
  virtual std::optional<StepNumber> next_to_give() = 0;
  // The step of a prep server that decides how long the consumer waits next, and from when on.
  struct Needed {
    StepNumber step = 0;
    double from_ns = 0;
  };
  virtual std::optional<Needed> waits_for() = 0;
  // The consumer waits, and can get nothing before this lost step.
  virtual bool is_needed_now(StepNumber lost) = 0;
  // Which of the lost steps is needed first.
  virtual StepNumber first_needed(const std::set<StepNumber>& lost) const;
  // Asks the prep servers for what they can do now.
  virtual void plan() = 0;
  // A prep server came or went.
  virtual void on_servers_changed() {}

  uint64_t epoch() const { return table_.epoch_of(table_.position()); }  // the consumer's
  // Whether steps of the consumer's epoch will come that the host begins in its turn.
  bool has_host_part() const;
  // When it has not and the consumer waits: the prep servers' step that will come last.
  std::optional<Needed> last_of_servers() const;

  // Asks a server to prepare a step and to send it or to keep it, or to send one that it keeps.
  void ask(uint32_t server, StepNumber step, bool is_sent);
  void send(StepNumber step);
  // Nobody shall make the step any more. The host comes to it, or it is lost.
  void take_back(StepNumber step);
  // The host leaves out a step that a prep server will be asked for.
  void promise(StepNumber step) { table_.change(step).state = StepState::kPromised; }
  // A promise that will not be kept.
  void break_promise(StepNumber step) { table_.release(step); }

  bool may_ask(uint32_t server) const;
  bool has_room_here(uint32_t server) const;
  bool is_server_up() const;
  bool may_rescue_ahead() const { return rescues_ < 2; }

  // Expectations. Infinite where too little is known.
  double host_step_ns() const;
  double server_step_ns(uint32_t server) const;
  double transfer_ns(uint32_t server) const;
  // When the server began to send what it sends now.
  double sending_since_ns(uint32_t server) const;
  double transfer_most_ns(uint32_t server) const;
  double rescue_ns() const;
  double host_free_ns() const;                   // when it has finished what it has begun
  double server_free_ns(uint32_t server) const;  // the same
  double arrival_ns(StepNumber step) const;      // of a step that a server has or the host makes
  double consumer_ns() const;                    // when the consumer asks next
  double consumer_step_ns() const { return consumer_step_.ns(); }
  // Until when it costs nothing that the consumer waits for a prep server's step: the host works at
  // later steps meanwhile, and the consumer catches up when they are there.
  double waits_free_until_ns() const;
  // Whether the consumer is better off if the host makes this step of a server, which it could
  // begin now. Without it the consumer would come to the step at `need_ns`.
  bool is_too_late(StepNumber step, double need_ns) const;

  const PolicyOptions& options() const { return options_; }
  const StepTable& table() const { return table_; }
  const std::vector<Server>& servers() const { return servers_; }
  const std::vector<StepNumber>& host_queue() const { return host_queue_; }
  double now() const { return now_ns_; }
  bool is_waiting() const { return is_waiting_; }
  bool is_host_short() const { return is_host_short_; }
  // A step that prep servers may be asked for.
  bool is_free(StepNumber step) const { return step < options_.end && table_.is_free(step); }

 private:
  void on(const PolicyEvent& event);
  void on_host_asks(StepNumber step);
  void on_host_made(StepNumber step);
  void on_rescued(StepNumber step);
  void on_server_state(uint32_t server, bool is_up);
  void on_kept(uint32_t server, StepNumber step);
  bool on_came(uint32_t server, StepNumber step);
  void on_gave(uint32_t server, StepNumber step);
  void on_checked(uint32_t server, StepNumber step);
  void on_failed(uint32_t server, StepNumber step);
  void on_consumer_asks();

  void give();
  void take_back_late();
  void rescue_lost();
  void rescue(StepNumber step);
  std::optional<uint32_t> sooner_server(StepNumber step) const;
  double queue_ns(uint32_t server, size_t place) const;
  void detach(StepNumber step);
  void see_queue(Server& server);
  void set_held(Server& server, uint32_t held);
  void rest(Server& server);
  void finish(uint32_t server, StepNumber step);
  void act(PolicyAction::Kind kind, StepNumber step, uint32_t server = 0);
  double next_wake_ns();

  PolicyOptions options_;
  StepTable table_;
  std::vector<Server> servers_;
  uint32_t held_ = 0;                  // of all servers together
  uint32_t empty_ = 0;                 // servers that are up and hold nothing
  std::vector<PolicyAction> actions_;  // of the present event
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

}  // namespace forebay::prep
