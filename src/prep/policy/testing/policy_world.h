// A simulated host, prep servers and a consumer around a Policy. It takes the driver's place, and
// checks that each step is given once and in an allowed order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "prep/policy/policy.h"
#include "prep/policy/testing/processors.h"

namespace forebay::prep {

struct ServerModel {
  Speed speed{1e6};
  // Other worlds of the same simulator use these, too. Null: the server has its own, of that speed.
  std::shared_ptr<Processors> processors = {};
  double transfer_ns = 0;  // one step after the other, beside the making of the next
  std::vector<double> first_transfers_ns = {};  // the first ones, if they take other times
  // Moments at which the server goes down and comes up again, in turn. Ascending.
  std::vector<double> changes_ns = {};
  double failing = 0;  // the probability that it cannot prepare a step
  double checked = 0;  // the probability that the host prepares its step too, and compares
  uint32_t keeps = UINT32_MAX;
};

// What was counted in a world until now.
struct WorldCounts {
  uint64_t events = 0;      // that the machine was told of
  uint64_t messages = 0;    // to prep servers and from them
  uint64_t forgotten = 0;   // orders to prep servers that were taken back
  size_t orders_most = 0;   // that a prep server had of this world at once
  size_t fetched_most = 0;  // steps of prep servers that were on their way or here at once
};

struct WorldModel {
  PolicyOptions options;
  StepNumber steps = 0;  // how many the consumer takes, from options.first on
  bool is_cut = false;   // the host does not know that the run ends after so many
  Speed host{1e6};
  Speed consumer{1e6};
  std::vector<ServerModel> servers = {};
  uint32_t prefetch = 2;             // steps of the host that are begun or wait, at most
  uint32_t begun_most = UINT32_MAX;  // of these, those that are begun
  bool is_host_short = false;        // what the consumer says
  double start_ns = 0;
};

class PolicyWorld {
 public:
  // `policy` is what decides; null: what the options say.
  PolicyWorld(sim::Simulator& simulator, WorldModel model,
              std::unique_ptr<Policy> policy = nullptr);
  PolicyWorld(const PolicyWorld&) = delete;
  PolicyWorld& operator=(const PolicyWorld&) = delete;
  // Runs to the end. It is a problem if nothing happens any more before.
  void run();
  // What run() does beside running the simulator, for several worlds in one: the first events, and
  // an end before all steps are given.
  void begin();
  void stop() { is_stopped_ = true; }

  const Policy& policy() const { return *policy_; }
  // When each step of the run was given, in the order of giving.
  const std::vector<double>& given_ns() const { return given_ns_; }
  const std::vector<StepNumber>& given() const { return given_; }
  double end_ns() const { return end_ns_; }  // when the consumer is done with the last one
  uint64_t asked() const { return asked_; }  // orders to prep servers
  uint64_t rescues() const { return rescues_; }
  const WorldCounts& counts() const { return counts_; }
  // What broke a rule first; empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  struct Order {
    StepNumber step = 0;
    bool is_sent = false;
  };
  struct Server {
    bool is_up = false;
    std::deque<Order> orders;
    std::shared_ptr<Processors> processors;
    std::optional<Processors::Task> task;  // the step in work
    bool drops_work = false;               // the step in work was forgotten
    std::set<StepNumber> kept;
    std::deque<StepNumber> sending;  // the first one is on its way
    uint64_t line = 0;               // numbers what is on its way
    uint64_t transfers = 0;          // that were begun
  };
  double now() const { return static_cast<double>(sim_.clock().now_ns()); }
  void at(double time_ns, std::function<void()> event);
  void tell(PolicyEvent::Kind kind, StepNumber step = 0, uint32_t server = 0);
  void act(const PolicyAction& action);
  void check_position();
  void ask_for_host();
  void start_host();
  void made_by_host(PolicyEvent::Kind kind, StepNumber step);
  void server_goes(uint32_t number, bool is_up);
  void start_server(uint32_t number);
  void server_made(uint32_t number);
  void send(uint32_t number, StepNumber step);
  void start_line(uint32_t number);
  void forget(uint32_t number, StepNumber step);
  void give(StepNumber step);
  void fail(const std::string& what, StepNumber step);
  bool is_done() const { return is_stopped_ || given_.size() == model_.steps; }

  sim::Simulator& sim_;
  WorldModel model_;
  std::unique_ptr<Policy> policy_;
  std::vector<Server> servers_;
  StepNumber host_next_ = 0;
  StepNumber end_ = 0;
  bool is_asking_ = false;
  Processors host_;
  std::deque<StepNumber> host_queue_;       // begun; the first one is in work
  std::set<StepNumber> of_host_;            // begun or made in turn, not given
  std::map<StepNumber, uint32_t> fetched_;  // on their way from servers or here
  std::set<StepNumber> here_;               // with the consumer's process
  bool is_waiting_ = false;
  int64_t wake_ns_ = INT64_MAX;
  std::set<StepNumber> seen_;
  std::vector<StepNumber> given_;
  std::vector<double> given_ns_;
  double end_ns_ = 0;
  uint64_t asked_ = 0;
  uint64_t rescues_ = 0;
  WorldCounts counts_;
  bool is_stopped_ = false;
  std::string problem_;
};

}  // namespace forebay::prep
