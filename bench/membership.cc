// deps: forebay_cache forebay_sim nlohmann_json::nlohmann_json
// What it costs to know who is a member of a job's cache, in a simulator without a network:
//    bench_membership
// Times are virtual, except CPU time. Figures, at 1,000 machines where nothing else is said:
// agree_s, the time until all others have dropped all of 1 % that die at once (median and worst of
// some seeds); peer_bytes_per_s, what each of 10, 100 and 1,000 machines sends with the headers of
// UDP and IP, while nothing happens and in the five seconds after 1 % (at least one machine) died;
// lossy_bytes_per_s, the same while nothing happens but 5 % of the datagrams are lost;
// false_dead_per_hour, how often a living machine was dropped then; cpu_us_per_s, CPU time of each
// machine, which includes the simulator's; metadata_bytes, memory of each machine;
// store_metadata_bytes, memory for what each of 1,000 machines holds of 10^9 samples of 110 kB in
// extents of 256 KiB, and in an extent for each sample.
#include <fmt/format.h>
#include <malloc.h>

#include <nlohmann/json.hpp>

#include "cache/held/extent_list.h"
#include "cache/testing/membership_network.h"
#include "lib/clock.h"
#include "lib/machine.h"

namespace {

using namespace forebay;
using cache::kSimSecond;
using cache::MembershipNetwork;

constexpr size_t kMachines = 1000;
constexpr uint64_t kSeeds = 9;
constexpr double kHeaderBytes = 28;  // of UDP and IPv4
constexpr int64_t kLossySeconds = 60;

double sent_bytes(const MembershipNetwork& network) {
  double bytes = 0;
  for (const auto& machine : network.machines) {
    bytes += static_cast<double>(machine.sent_bytes) +
             kHeaderBytes * static_cast<double>(machine.sent_datagrams);
  }
  return bytes;
}

// Bytes that each machine sends in a second.
double bytes_per_second(MembershipNetwork& network, int64_t seconds) {
  const double before = sent_bytes(network);
  network.run_for(seconds * kSimSecond);
  return (sent_bytes(network) - before) / static_cast<double>(seconds) /
         static_cast<double>(network.machines.size());
}

void kill_one_percent(MembershipNetwork& network) {
  std::vector<size_t> numbers = network.taking_part();
  base::shuffle(std::span(numbers), network.random());
  numbers.resize(std::max<size_t>(1, numbers.size() / 100));
  for (const size_t number : numbers) network.kill(number);
}

nlohmann::json traffic(size_t machines) {
  sim::Simulator simulator(0);
  MembershipNetwork network(simulator);
  network.start(machines);
  network.run_for(5 * kSimSecond);
  const double idle = bytes_per_second(network, 5);
  kill_one_percent(network);
  const double dying = bytes_per_second(network, 5);
  return {{"machines", machines}, {"idle", idle}, {"one_percent_dies", dying}};
}

std::vector<double> agree_seconds() {
  std::vector<double> seconds;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    sim::Simulator simulator(seed);
    MembershipNetwork network(simulator);
    network.start(kMachines);
    network.run_for(kSimSecond);
    kill_one_percent(network);
    const auto taken_ns = network.run_until_agreed(60 * kSimSecond);
    FOREBAY_CHECK(taken_ns.has_value());
    seconds.push_back(static_cast<double>(*taken_ns) * 1e-9);
  }
  std::ranges::sort(seconds);
  return seconds;
}

void measure_loss(nlohmann::json* out) {
  sim::Simulator simulator(0);
  MembershipNetwork network(simulator);
  network.start(kMachines);
  network.weather.lost = 0.05;
  const double before = bench::thread_seconds();
  (*out)["lossy_bytes_per_s"] = bytes_per_second(network, kLossySeconds);
  const double cpu_s = bench::thread_seconds() - before;
  (*out)["false_dead_per_hour"] =
      static_cast<double>(network.false_deaths) * 3600 / static_cast<double>(kLossySeconds);
  (*out)["lossy_s"] = kLossySeconds;
  (*out)["cpu_us_per_s"] =
      cpu_s * 1e6 / static_cast<double>(kLossySeconds) / static_cast<double>(kMachines);
}

// Bytes that are in use after `make` and were not before, for each of `count` things.
template <class Make>
double allocated_bytes(double count, const Make& make) {
  const size_t before = mallinfo2().uordblks;
  const auto made = make();
  return static_cast<double>(mallinfo2().uordblks - before) / count;
}

double metadata_bytes() {
  cache::Membership::Seeds seeds;
  for (size_t i = 0; i < kMachines; ++i) {
    seeds.members.push_back({.id = fmt::format("{:016x}", i),
                             .host = fmt::format("10.0.{}.{}", i / 256, i % 256),
                             .port = 1000});
  }
  constexpr size_t kSome = 10;
  return allocated_bytes(kSome, [&] {
    std::vector<std::unique_ptr<cache::Membership>> some;
    for (size_t i = 0; i < kSome; ++i) {
      some.push_back(std::make_unique<cache::Membership>(seeds.members[i], i));
      some.back()->step(0, seeds);
    }
    return some;
  });
}

// What cache::HeldRanges keeps of so many bytes that were read together.
double extent_bytes(uint64_t bytes) {
  struct Extent {
    uint32_t length = 0;
    uint8_t tier = 0;
    bool is_found = false;
    uint64_t later = 0;
    std::vector<uint32_t> crc32cs;
  };
  constexpr uint64_t kExtents = 200'000;
  return allocated_bytes(kExtents, [&] {
    std::map<uint64_t, Extent> extents;
    for (uint64_t i = 0; i < kExtents; ++i) {
      const std::vector<uint32_t> crc32cs(cache::checks_of(0, bytes));
      extents.emplace_hint(extents.end(), i, Extent{.crc32cs = crc32cs});
    }
    return extents;
  });
}

}  // namespace

int main() {
  nlohmann::json out{{"machine", bench::machine()}};
  const std::vector<double> agree = agree_seconds();
  out["agree_s"] = {
      {"median", agree[agree.size() / 2]}, {"worst", agree.back()}, {"seeds", agree.size()}};
  fmt::print("1 % of {} machines die: {:.2f} s until all others agree, at worst {:.2f} s\n",
             kMachines, agree[agree.size() / 2], agree.back());
  for (const size_t machines : {size_t{10}, size_t{100}, kMachines}) {
    out["peer_bytes_per_s"].push_back(traffic(machines));
    fmt::print("{}\n", out["peer_bytes_per_s"].back().dump());
  }
  measure_loss(&out);
  out["metadata_bytes"] = metadata_bytes();

  constexpr double kHeldBytes = 1e9 * 110e3 / kMachines;
  for (const uint64_t bytes : {cache::kExtentBytes, uint64_t{110'000}}) {
    out["store_metadata_bytes"][fmt::format("extents of {} bytes", bytes)] =
        extent_bytes(bytes) * kHeldBytes / static_cast<double>(bytes);
  }
  fmt::print("{}\n", out.dump());
  return 0;
}
