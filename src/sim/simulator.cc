#include "sim/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>

namespace forebay::sim {

using base::Code;
using base::Status;

Simulator::Simulator(uint64_t seed) : random_(seed, base::Purpose::kSimulation) {}

bool Simulator::is_later(const Event& a, const Event& b) {
  return std::tie(a.at_ns, a.tie, a.number) > std::tie(b.at_ns, b.tie, b.number);
}

void Simulator::after(int64_t delay_ns, std::function<void()> event) {
  FOREBAY_CHECK(delay_ns >= 0);
  heap_.push_back({.at_ns = clock_.now + delay_ns,
                   .tie = random_.next_u64(),
                   .number = events_++,
                   .run = std::move(event)});
  std::ranges::push_heap(heap_, is_later);
}

void Simulator::within(int64_t delay_ns_max, std::function<void()> event) {
  FOREBAY_CHECK(delay_ns_max >= 0);
  const uint64_t delay_ns = random_.below(static_cast<uint64_t>(delay_ns_max) + 1);
  after(static_cast<int64_t>(delay_ns), std::move(event));
}

Status Simulator::run(uint64_t events_max) {
  for (uint64_t done = 0; !heap_.empty(); ++done) {
    if (done == events_max) {
      return base::fail(Code::kTooBig, "simulator: still running after {} events, {} are waiting",
                        events_max, heap_.size());
    }
    std::ranges::pop_heap(heap_, is_later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    clock_.now = event.at_ns;
    event.run();
  }
  return {};
}

bool Simulator::Clock::wait_until(base::Mutex& /*mutex*/, base::CondVar& /*condition*/,
                                  int64_t /*deadline_ns*/) const {
  base::die(__FILE__, __LINE__, "a state machine waited in the simulator");
}

void for_each_seed(uint64_t count, const std::function<void(Simulator&)>& body) {
  uint64_t first = 0;
  constexpr uint64_t kAllFactor = 20;
  if (std::getenv("FOREBAY_TEST_ALL") != nullptr) count *= kAllFactor;
  if (const char* const seed = std::getenv("FOREBAY_SIM_SEED")) {
    first = std::stoull(seed);
    count = 1;
  }
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     "run it again with FOREBAY_SIM_SEED=" + std::to_string(seed));
    Simulator simulator(seed);
    body(simulator);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace forebay::sim
