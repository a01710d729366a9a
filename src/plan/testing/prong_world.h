// A simulated host, near sides and a consumer around a Prongs. It takes the driver's place, and
// checks that each step is given once and in an allowed order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plan/prongs.h"
#include "plan/testing/speed.h"
#include "sim/simulator.h"

namespace forebay::plan {

struct SideModel {
  Speed speed{1e6};
  double transfer_ns = 0;  // one step after the other, beside the making of the next
  // Moments at which the side goes down and comes up again, in turn. Ascending.
  std::vector<double> changes_ns = {};
  double failing = 0;  // the probability that it cannot prepare a step
  double checked = 0;  // the probability that the host prepares its step too, and compares
  uint32_t keeps = UINT32_MAX;
};

struct WorldModel {
  ProngOptions options;
  StepNumber steps = 0;  // how many the consumer takes, from options.first on
  bool is_cut = false;   // the host does not know that the run ends after so many
  Speed host{1e6};
  Speed consumer{1e6};
  std::vector<SideModel> sides = {};
  uint32_t prefetch = 2;
};

class ProngWorld {
 public:
  ProngWorld(sim::Simulator& simulator, WorldModel model);
  // Runs to the end. It is a problem if nothing happens any more before.
  void run();

  const Prongs& prongs() const { return *prongs_; }
  // When each step of the run was given, in the order of giving.
  const std::vector<double>& given_ns() const { return given_ns_; }
  const std::vector<StepNumber>& given() const { return given_; }
  double end_ns() const { return end_ns_; }  // when the consumer is done with the last one
  uint64_t asked() const { return asked_; }  // orders to near sides
  uint64_t rescues() const { return rescues_; }
  // What broke a rule first; empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  struct Order {
    StepNumber step = 0;
    bool is_sent = false;
  };
  struct Side {
    bool is_up = false;
    uint64_t life = 0;  // events of earlier lives do not happen
    std::deque<Order> orders;
    bool is_busy = false;
    bool drops_work = false;  // the step in work was forgotten
    std::set<StepNumber> kept;
    std::deque<StepNumber> sending;  // the first one is on its way
    uint64_t line = 0;               // numbers what is on its way
  };
  struct Job {
    StepNumber step = 0;
    double left = 1;
    bool is_rescue = false;
  };

  double now() const { return static_cast<double>(sim_.clock().now_ns()); }
  void at(double time_ns, std::function<void()> event);
  void tell(ProngEvent::Kind kind, StepNumber step = 0, uint32_t side = 0);
  void act(const ProngAction& action);
  void check_position();
  void ask_for_host();
  void advance_host();
  void schedule_host();
  void side_goes(uint32_t number, bool is_up);
  void start_side(uint32_t number);
  void side_made(uint32_t number);
  void send(uint32_t number, StepNumber step);
  void start_line(uint32_t number);
  void forget(uint32_t number, StepNumber step);
  void give(StepNumber step);
  void fail(const std::string& what, StepNumber step);
  bool is_done() const { return given_.size() == model_.steps; }

  sim::Simulator& sim_;
  WorldModel model_;
  std::unique_ptr<Prongs> prongs_;
  std::vector<Side> sides_;
  StepNumber host_next_ = 0;
  StepNumber end_ = 0;
  bool is_asking_ = false;
  std::deque<Job> host_queue_;  // begun; the first one is in work
  std::vector<Job> rescues_now_;
  double host_ns_ = 0;                      // until when the host's jobs are worked off
  uint64_t host_plan_ = 0;                  // numbers the host's next event
  std::set<StepNumber> of_host_;            // begun or made in turn, not given
  std::map<StepNumber, uint32_t> fetched_;  // on their way from sides or here
  std::set<StepNumber> here_;               // with the consumer's process
  bool is_waiting_ = false;
  int64_t wake_ns_ = INT64_MAX;
  std::set<StepNumber> seen_;
  std::vector<StepNumber> given_;
  std::vector<double> given_ns_;
  double end_ns_ = 0;
  uint64_t asked_ = 0;
  uint64_t rescues_ = 0;
  std::string problem_;
};

}  // namespace forebay::plan
