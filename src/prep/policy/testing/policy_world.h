// Drives a Policy with a simulated host, prep servers and a consumer, and checks that each step is
// given once and in an allowed order.
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
  // Processors shared with other worlds of the same simulator. Null: the server has its own, of
  // `speed`.
  std::shared_ptr<Processors> processors = {};
  double transfer_ns = 0;  // for one step at a time, while the next step is prepared
  std::vector<double> first_transfers_ns = {};  // for the first steps, if they differ
  // Moments at which the server goes down and comes up again, in turn. Ascending.
  std::vector<double> changes_ns = {};
  double failing = 0;  // the probability that it cannot prepare a step
  double checked = 0;  // the probability that the host prepares a step too, and compares
  uint32_t keeps = UINT32_MAX;
};

// Counts of a world up to now.
struct WorldCounts {
  uint64_t events = 0;      // that the policy was told of
  uint64_t messages = 0;    // to prep servers and from them
  uint64_t forgotten = 0;   // orders to prep servers that were taken back
  size_t orders_most = 0;   // most orders of this world that one prep server had at once
  size_t fetched_most = 0;  // most steps of prep servers that were on their way or here at once
};

struct WorldModel {
  PolicyOptions options;
  StepNumber steps = 0;  // how many steps the consumer takes, from options.first on
  bool is_cut = false;   // the host does not know that the run ends after these steps
  Speed host{1e6};
  Speed consumer{1e6};
  std::vector<ServerModel> servers = {};
  uint32_t prefetch = 2;             // most steps of the host that are begun or wait
  uint32_t begun_most = UINT32_MAX;  // most steps that the host has begun and not finished
  bool is_host_short = false;        // PolicyEvent::is_host_short of all events
  double start_ns = 0;
};

class PolicyWorld {
 public:
  // A null `policy` stands for the policy that the options name.
  PolicyWorld(sim::Simulator& simulator, WorldModel model,
              std::unique_ptr<Policy> policy = nullptr);
  PolicyWorld(const PolicyWorld&) = delete;
  PolicyWorld& operator=(const PolicyWorld&) = delete;
  // Runs to the end. A simulation that stops before all steps are given is a problem.
  void run();
  // For several worlds in one simulator, instead of run(): begin() schedules the first events, and
  // stop() ends the world before all steps are given.
  void begin();
  void stop() { is_stopped_ = true; }

  const Policy& policy() const { return *policy_; }
  // When each step of the run was given, in the order of giving.
  const std::vector<double>& given_ns() const { return given_ns_; }
  const std::vector<StepNumber>& given() const { return given_; }
  double end_ns() const { return end_ns_; }  // when the consumer is done with the last step
  uint64_t asked() const { return asked_; }  // orders to prep servers
  uint64_t rescues() const { return rescues_; }
  const WorldCounts& counts() const { return counts_; }
  // The first broken rule; empty: none was broken.
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
    std::optional<Processors::Task> task;  // the step in progress
    bool drops_work = false;               // the step in progress was forgotten
    std::set<StepNumber> kept;
    std::deque<StepNumber> sending;  // the first step is on its way
    uint64_t line = 0;               // the number of the transfer in progress
    uint64_t transfers = 0;          // begun so far
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
  std::deque<StepNumber> host_queue_;       // begun; the host works at the first step
  std::set<StepNumber> of_host_;            // begun or made in turn, and not given yet
  std::map<StepNumber, uint32_t> fetched_;  // steps of servers on their way or here
  std::set<StepNumber> here_;               // ready in the consumer's process
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
