// Machines that run the membership's protocol in a simulator, on a network that loses, delays,
// repeats and mangles datagrams and can be cut. Everything is drawn from the simulator's seed.
#pragma once

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/members/membership.h"
#include "sim/simulator.h"

namespace forebay::cache {

inline constexpr int64_t kSimMillisecond = 1'000'000;
inline constexpr int64_t kSimSecond = 1000 * kSimMillisecond;

// What happens to datagrams, as shares of them.
struct Weather {
  double lost = 0;
  double repeated = 0;
  double late = 0;     // they take up to ten seconds
  double mangled = 0;  // they arrive cut off, or as random bytes
};

class MembershipNetwork {
 public:
  struct Machine {
    Member member;
    std::unique_ptr<Membership> process;  // null: it was killed
    uint64_t processes = 0;               // processes that have run here
    bool has_left = false;
    int64_t stopped_until_ns = 0;
    int64_t slow_ns = 0;  // the longest delay until it handles an event
    int64_t clock_ahead_ns = 0;
    int64_t tick_ns = INT64_MAX;  // of the simulator's clock: the tick that is due next
    std::vector<Member> list;     // the last list of its process
    uint64_t sent_datagrams = 0;
    uint64_t sent_bytes = 0;

    bool takes_part() const { return process != nullptr && !has_left; }
  };

  explicit MembershipNetwork(sim::Simulator& simulator) : sim_(simulator) {}

  Weather weather;
  // Whether a datagram may go from the first machine to the second one.
  std::function<bool(size_t, size_t)> may_pass = [](size_t, size_t) { return true; };
  std::vector<Machine> machines;
  // How often a list lost a machine that took part; not counted again for the same machine within
  // five seconds.
  uint64_t false_deaths = 0;

  int64_t now_ns() const { return sim_.clock().now_ns(); }
  base::Random& random() { return sim_.random(); }

  // A new machine that knows these.
  size_t join(const std::vector<size_t>& known) {
    const size_t number = machines.size();
    machines.emplace_back();
    machines.back().member = {.id = fmt::format("id {:04}", number),
                              .host = fmt::format("m{}", number),
                              .room_bytes = 1000 + number};
    last_false_death_ns_.push_back(-kForgetNs);
    restart(number, known);
    return number;
  }
  // `count` machines that know each other from the beginning, as from a launcher's rendezvous.
  void start(size_t count) {
    std::vector<size_t> all;
    for (size_t i = 0; i < count; ++i) all.push_back(join({}));
    std::vector<Member> members;
    for (const size_t i : all) members.push_back(machines[i].member);
    for (const size_t i : all) step(i, Membership::Seeds{members});
  }
  void kill(size_t number) { machines[number].process.reset(); }
  // Another process of the machine takes over, at another port.
  void restart(size_t number, const std::vector<size_t>& known) {
    Machine& machine = machines[number];
    ++machine.processes;
    machine.has_left = false;
    machine.member.port = static_cast<uint16_t>(1000 + machine.processes);
    machine.member.incarnation = static_cast<uint64_t>(now_ns()) + machine.processes;
    machine.process = std::make_unique<Membership>(machine.member, random().next_u64());
    machine.list.clear();
    std::vector<Member> members;
    for (const size_t i : known) members.push_back(machines[i].member);
    machine.tick_ns = INT64_MAX;
    step(number, Membership::Seeds{members});
  }
  void leave(size_t number) {
    step(number, Membership::Leave{});
    machines[number].has_left = true;
  }
  void stop_for(size_t number, int64_t ns) { machines[number].stopped_until_ns = now_ns() + ns; }

  void run_for(int64_t ns) {
    until_ns_ += ns;
    std::vector<Held> held = std::exchange(held_, {});
    for (Held& event : held) at(event.at_ns, std::move(event.run));
    at(until_ns_, [] {});
    FOREBAY_CHECK(sim_.run(UINT64_MAX).ok());
  }
  // Runs until all machines that take part agree on the members; returns how long that took, or
  // nothing if it takes longer than `limit_ns`.
  std::optional<int64_t> run_until_agreed(int64_t limit_ns) {
    const int64_t start_ns = now_ns();
    while (!agree()) {
      if (now_ns() - start_ns >= limit_ns) return std::nullopt;
      run_for(20 * kSimMillisecond);
    }
    return now_ns() - start_ns;
  }

  std::vector<size_t> taking_part() const {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < machines.size(); ++i) {
      if (machines[i].takes_part()) numbers.push_back(i);
    }
    return numbers;
  }
  // Whether each machine that takes part lists exactly the machines that take part.
  bool agree() const {
    const std::vector<size_t> expected = taking_part();
    return std::ranges::all_of(expected, [&](size_t i) {
      return std::ranges::equal(machines[i].list, expected, [&](const Member& a, size_t b) {
        return a.host == machines[b].member.host && a.port == machines[b].member.port &&
               a.room_bytes == machines[b].member.room_bytes;
      });
    });
  }
  // Whether any machine that takes part lists this one.
  bool is_listed(size_t number) const {
    return std::ranges::any_of(machines, [&](const Machine& machine) {
      return machine.takes_part() && find_in(machine.list, machines[number].member.id) != nullptr;
    });
  }

 private:
  struct Held {
    int64_t at_ns = 0;
    std::function<void()> run;
  };
  static constexpr int64_t kForgetNs = 5 * kSimSecond;

  static const Member* find_in(const std::vector<Member>& list, const std::string& id) {
    const auto found = std::ranges::lower_bound(list, id, {}, &Member::id);
    return found == list.end() || found->id != id ? nullptr : &*found;
  }

  // Events after the end of this run wait for the next one.
  void at(int64_t at_ns, std::function<void()> run) {
    if (at_ns > until_ns_) return held_.push_back({at_ns, std::move(run)});
    sim_.after(std::max<int64_t>(0, at_ns - now_ns()), std::move(run));
  }

  bool is_this(size_t number, uint64_t process) const {
    return machines[number].processes == process && machines[number].takes_part();
  }

  // A machine that is stopped or slow gets the event later.
  void give(size_t number, Membership::Event event) {
    const Machine& machine = machines[number];
    int64_t at_ns = std::max(now_ns(), machine.stopped_until_ns);
    if (machine.slow_ns > 0) {
      at_ns += static_cast<int64_t>(random().below(static_cast<uint64_t>(machine.slow_ns)));
    }
    if (at_ns == now_ns()) return step(number, event);
    at(at_ns, [this, number, process = machine.processes, event = std::move(event)] {
      if (is_this(number, process)) step(number, event);
    });
  }

  void step(size_t number, const Membership::Event& event) {
    Machine& machine = machines[number];
    const uint64_t incarnation = machine.process->self().incarnation;
    auto actions = machine.process->step(now_ns() + machine.clock_ahead_ns, event);
    FOREBAY_CHECK(machine.process->self().incarnation >= incarnation);
    machine.member.incarnation = machine.process->self().incarnation;
    if (actions.members_changed) note_list(machine, machine.process->members());
    for (const auto& send : actions.sends) transmit(number, send);
    if (actions.next_tick_ns == INT64_MAX) return;
    tick_at(number, actions.next_tick_ns - machine.clock_ahead_ns);
  }

  void tick_at(size_t number, int64_t at_ns) {
    Machine& machine = machines[number];
    at_ns = std::max(at_ns, now_ns());  // the clock may have jumped
    if (at_ns >= machine.tick_ns) return;
    machine.tick_ns = at_ns;
    at(at_ns, [this, number, at_ns, process = machine.processes] {
      if (!is_this(number, process) || machines[number].tick_ns != at_ns) return;
      machines[number].tick_ns = INT64_MAX;
      give(number, Membership::Tick{});
    });
  }

  void note_list(Machine& machine, std::vector<Member> list) {
    for (const Member& before : machine.list) {
      const Member* after = find_in(list, before.id);
      if (after != nullptr) {
        FOREBAY_CHECK(after->incarnation >= before.incarnation);
        continue;
      }
      const size_t number = number_of(before.host);
      if (!machines[number].takes_part() || machines[number].member.port != before.port) continue;
      int64_t& last_ns = last_false_death_ns_[number];
      if (now_ns() - last_ns >= kForgetNs) ++false_deaths;
      last_ns = now_ns();
    }
    machine.list = std::move(list);
  }

  static size_t number_of(const std::string& host) {
    size_t number = SIZE_MAX;
    std::from_chars(host.data() + 1, host.data() + host.size(), number);
    return number;
  }

  bool happens(double share) { return share > 0 && random().uniform() < share; }

  void transmit(size_t from, const Membership::Send& send) {
    base::ByteVector datagram = encode_message(send.message);
    ++machines[from].sent_datagrams;
    machines[from].sent_bytes += datagram.size();
    const size_t to = number_of(send.host);
    if (to >= machines.size() || !may_pass(from, to)) return;
    if (happens(weather.mangled)) mangle(&datagram);
    for (int copies = happens(weather.repeated) ? 2 : 1; copies > 0; --copies) {
      if (happens(weather.lost)) continue;
      const int64_t delay_ns = happens(weather.late) ? 10 * kSimSecond : kSimMillisecond;
      const auto drawn_ns = static_cast<int64_t>(random().below(static_cast<uint64_t>(delay_ns)));
      at(now_ns() + drawn_ns,
         [this, to, port = send.port, datagram] { receive(to, port, datagram); });
    }
  }

  void mangle(base::ByteVector* datagram) {
    datagram->resize(random().below(datagram->size()));
    if (random().below(2) == 0) return;
    for (uint8_t& byte : *datagram) byte = static_cast<uint8_t>(random().next_u32());
  }

  void receive(size_t to, uint16_t port, base::Bytes datagram) {
    if (!machines[to].takes_part() || machines[to].member.port != port) return;
    auto message = decode_message(datagram);
    if (message) give(to, Membership::Received{std::move(*message)});
  }

  sim::Simulator& sim_;
  int64_t until_ns_ = 0;
  std::vector<Held> held_;
  std::vector<int64_t> last_false_death_ns_;
};

}  // namespace forebay::cache
