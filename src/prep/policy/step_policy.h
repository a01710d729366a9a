// What all policies share: who was asked for which steps, how long a step takes, and what happens
// to steps that are late or lost. A policy derived from it decides which steps prep
// servers are asked for, and which step the consumer gets next.
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
    std::vector<StepNumber> queue;    // asked for and not prepared yet, in the order of asking
    std::vector<StepNumber> sending;  // were kept, and are on their way
    uint32_t kept = 0;                // steps prepared and kept, and not asked for yet
    uint32_t here = 0;                // its steps that wait for the consumer or are being compared
    uint32_t held = 0;                // its steps that take memory here, now or once they arrive
    double begun_ns = 0;              // when it began the first step of its queue
    PeriodOfMaker period;
    PeriodOfMaker transfer;  // of kept steps
    double late_ns = 0;      // by how much its steps come later than expected, on average
    uint32_t failures = 0;   // in a row
    double rest_until_ns = 0;
    uint64_t steps = 0;
    uint64_t late = 0;
    StepNumber front = 0;
  };

  // Whether the host, which could begin the step now, shall make it; if not, it leaves the step
  // out. Nobody has the step, or a prep server has it.
  virtual bool host_shall_make(StepNumber step) = 0;
  // The step that the consumer gets now, one of those that are here.
  virtual std::optional<StepNumber> next_to_give() = 0;
  // The prep server's step that decides how long the consumer waits next, and when that wait
  // begins.
  struct Needed {
    StepNumber step = 0;
    double from_ns = 0;
  };
  virtual std::optional<Needed> waits_for() = 0;
  // Whether the waiting consumer can get no other step before this lost one.
  virtual bool is_needed_now(StepNumber lost) = 0;
  // The lost step that is needed first.
  virtual StepNumber first_needed(const std::set<StepNumber>& lost) const;
  // Asks the prep servers for the steps that they should begin now.
  virtual void plan() = 0;
  // A prep server came or went.
  virtual void on_servers_changed() {}

  uint64_t epoch() const { return table_.epoch_of(table_.position()); }  // the consumer's
  // Whether the host still has steps of the consumer's epoch to begin or to finish in turn.
  bool has_host_part() const;
  // If it has none and the consumer waits: the prep servers' step that will come last.
  std::optional<Needed> last_of_servers() const;

  // Asks a server to prepare a step, and then to send it or to keep it.
  void ask(uint32_t server, StepNumber step, bool is_sent);
  // Asks a server to send a step that it keeps.
  void send(StepNumber step);
  // Tells a server to forget a step. The host makes the step in turn; if its turn is over, the step
  // is lost.
  void take_back(StepNumber step);
  // The host leaves out the step, and a prep server will be asked for it.
  void promise(StepNumber step) { table_.change(step).state = StepState::kPromised; }
  // No prep server will be asked for a promised step after all.
  void break_promise(StepNumber step) { table_.release(step); }

  bool may_ask(uint32_t server) const;
  bool has_room_here(uint32_t server) const;
  bool is_server_up() const;
  bool may_rescue_ahead() const { return rescues_ < 2; }

  // Expectations. Infinite if too little is known.
  double host_step_ns() const;
  double server_step_ns(uint32_t server) const;
  double transfer_ns(uint32_t server) const;
  // When the server began to send the step that it is sending.
  double sending_since_ns(uint32_t server) const;
  double transfer_most_ns(uint32_t server) const;
  double rescue_ns() const;
  double host_free_ns() const;                   // when the host has made all steps it has begun
  double server_free_ns(uint32_t server) const;  // when the server has made all of its queue
  double arrival_ns(StepNumber step) const;      // of a step that a server or the host is making
  double consumer_ns() const;                    // when the consumer asks next
  double consumer_step_ns() const { return consumer_step_.ns(); }
  // Until then the consumer can wait for a prep server's step at no cost: the host works at later
  // steps meanwhile, and the consumer is fast enough to catch up.
  double waits_free_until_ns() const;
  // Whether the consumer is better off if the host makes a server's step now instead. `need_ns`:
  // when the consumer comes to the step.
  bool is_too_late(StepNumber step, double need_ns) const;

  const PolicyOptions& options() const { return options_; }
  const StepTable& table() const { return table_; }
  const std::vector<Server>& servers() const { return servers_; }
  const std::vector<StepNumber>& host_queue() const { return host_queue_; }
  double now() const { return now_ns_; }
  bool is_waiting() const { return is_waiting_; }
  bool is_host_short() const { return is_host_short_; }
  // Whether a prep server may be asked for the step.
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
  std::vector<PolicyAction> actions_;  // for the present event
  double now_ns_ = 0;
  int64_t wake_ns_ = INT64_MAX;

  PeriodOfMaker host_period_;
  std::vector<StepNumber> host_queue_;  // begun and not finished
  uint64_t host_steps_ = 0;             // the host's steps that were given
  StepNumber host_front_ = 0;
  std::vector<StepNumber> rescuing_;
  uint32_t rescues_ = 0;      // rescued steps that were begun and not given yet
  double rescue_end_ns_ = 0;  // when the host last finished a rescued or compared step

  Period consumer_step_;
  bool is_waiting_ = false;
  bool is_host_short_ = false;
  std::optional<double> given_ns_;  // when the consumer got a step last
};

}  // namespace forebay::prep
