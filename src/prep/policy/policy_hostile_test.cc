// Random events that no real host would send, in any order: nothing crashes, and each step is still
// given once, in its epoch.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "prep/policy/policy.h"
#include "sim/simulator.h"

namespace forebay::prep {
namespace {

using Kind = PolicyEvent::Kind;

class Hostile {
 public:
  Hostile(base::Random& random, PolicyKind policy) : random_(random) {
    options_.policy = policy;
    options_.any_order = policy != PolicyKind::kInterleave || random.below(2) == 0;
    options_.steps_each = 1 + random.below(20);
    options_.first = random.below(50);
    for (uint64_t i = 0; i < 20; ++i) {
      if (random.below(4) == 0) options_.over.push_back(options_.first + i);
    }
    options_.servers = static_cast<uint32_t>(random.below(4));
    options_.here_max = static_cast<uint32_t>(random.below(8));
    options_.kept_max = static_cast<uint32_t>(random.below(8));
    given_.insert(options_.over.begin(), options_.over.end());
    policy_ = Policy::make(options_);
    host_next_ = options_.first;
  }

  void run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      PolicyEvent event = drawn();
      if (event.kind == Kind::kHostAsks && event.step == host_next_) ++host_next_;
      if (event.kind == Kind::kConsumerAsks) is_waiting_ = true;
      const auto actions = policy_->step(event);
      for (const PolicyAction& action : actions) check(action);
      const auto over = policy_->over();
      EXPECT_EQ(policy_->position() - options_.first + over.size(), given_.size());
      EXPECT_TRUE(std::is_sorted(over.begin(), over.end()));
      policy_->server(event.server);
    }
  }
  size_t given() const { return given_.size() - options_.over.size(); }

 private:
  // Half of the events fit the actions before, so that the run makes progress.
  PolicyEvent drawn() {
    PolicyEvent event{.kind = static_cast<Kind>(random_.below(11))};
    if (random_.below(100) == 0) {
      event.now_ns = static_cast<int64_t>(random_.next_u64());
    } else {
      event.now_ns = now_ns_ += static_cast<int64_t>(random_.below(1000));
    }
    event.server = static_cast<uint32_t>(random_.below(options_.servers + 1));
    event.step = random_.below(20) == 0
                     ? random_.next_u64()
                     : policy_->position() + random_.below(2 * options_.steps_each + 2);
    if (event.kind == Kind::kHostAsks && random_.below(4) != 0) event.step = host_next_;
    if (!asked_.empty() && random_.below(2) == 0) {
      const PolicyAction& action = asked_[random_.below(asked_.size())];
      event.step = action.step;
      event.server = action.server;
      if (action.kind == PolicyAction::Kind::kHostMakes) event.kind = Kind::kHostMade;
      if (action.kind == PolicyAction::Kind::kRescue) event.kind = Kind::kRescued;
      if (action.kind == PolicyAction::Kind::kMake) event.kind = Kind::kServerKeeps;
      if (action.kind == PolicyAction::Kind::kFetch) {
        event.kind = random_.below(3) == 0 ? Kind::kServerChecked : Kind::kServerGave;
      }
    }
    if (event.kind == Kind::kServerChecked) {
      asked_.push_back({.kind = PolicyAction::Kind::kRescue, .step = event.step});
    }
    event.is_host_short = random_.below(2) == 0;
    if (event.kind == Kind::kServerUp) event.keeps = static_cast<uint32_t>(random_.below(8));
    const bool is_ready = event.kind == Kind::kHostMade || event.kind == Kind::kRescued ||
                          event.kind == Kind::kServerGave;
    if (is_ready) ready_.insert(event.step);
    return event;
  }

  void check(const PolicyAction& action) {
    if (action.kind != PolicyAction::Kind::kGive) {
      asked_.push_back(action);
      return;
    }
    EXPECT_TRUE(is_waiting_);
    is_waiting_ = false;
    EXPECT_TRUE(ready_.contains(action.step)) << "nobody has made step " << action.step;
    EXPECT_GE(action.step, options_.first);
    const StepNumber before = action.step / options_.steps_each * options_.steps_each;
    for (StepNumber step = options_.first; step < before; ++step) {
      EXPECT_TRUE(given_.contains(step)) << "step " << action.step << " came before " << step;
    }
    EXPECT_TRUE(given_.insert(action.step).second) << "step " << action.step << " came twice";
  }

  base::Random& random_;
  PolicyOptions options_;
  std::unique_ptr<Policy> policy_;
  int64_t now_ns_ = 0;
  StepNumber host_next_ = 0;
  bool is_waiting_ = false;
  std::vector<PolicyAction> asked_;
  std::set<StepNumber> ready_;
  std::set<StepNumber> given_;
};

TEST(Hostile, EventsInAnyOrderGiveNoStepTwice) {
  size_t given = 0;
  sim::for_each_seed(150, [&](sim::Simulator& simulator) {
    for (const PolicyKind policy : {PolicyKind::kInterleave, PolicyKind::kMte, PolicyKind::kWrr}) {
      Hostile hostile(simulator.random(), policy);
      hostile.run(300);
      given += hostile.given();
    }
  });
  EXPECT_GT(given, 0u);
}

}  // namespace
}  // namespace forebay::prep
