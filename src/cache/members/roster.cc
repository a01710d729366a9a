#include "cache/members/roster.h"

#include <algorithm>

#include "base/limits.h"
#include "io/find_address.h"
#include "io/machine.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// The most datagrams that are taken between two ticks.
constexpr int kDatagrams = 4096;
// How often listed machines that are not members are contacted.
constexpr int64_t kLookNs = 5'000'000'000;

}  // namespace

bool Replays::take(const Message& message) {
  const Member& from = message.from;
  if (seen_.size() >= base::kMembersMax && !seen_.contains(from.id)) seen_.clear();
  const auto [found, is_new] = seen_.try_emplace(from.id);
  Seen& seen = found->second;
  if (!is_new && from.incarnation < seen.incarnation) {
    // A process that was replaced and does not know it yet must be told.
    if (message.sequence <= seen.older) return false;
    seen.older = message.sequence;
    return true;
  }
  // A new process numbers its messages from the beginning.
  const bool is_other = from.incarnation > seen.incarnation && message.sequence < seen.highest;
  seen.incarnation = from.incarnation;
  if (is_new || is_other) {
    seen.older = seen.highest;
    seen.highest = message.sequence;
    seen.before = 0;
    return true;
  }
  if (message.sequence > seen.highest) {
    const uint64_t step = message.sequence - seen.highest;
    seen.before =
        step > 64 ? 0 : (step == 64 ? 0 : seen.before << step) | uint64_t{1} << (step - 1);
    seen.highest = message.sequence;
    return true;
  }
  const uint64_t age = seen.highest - message.sequence;
  if (age == 0 || age > 64) return false;
  const uint64_t bit = uint64_t{1} << (age - 1);
  return (std::exchange(seen.before, seen.before | bit) & bit) == 0;
}

Roster::Roster(const Member& self, std::unique_ptr<io::Datagrams> datagrams,
               std::vector<Listed> listed, Changed changed)
    : datagrams_(std::move(datagrams)),
      listed_(std::move(listed)),
      changed_(std::move(changed)),
      membership_(self, self.incarnation ^ static_cast<uint64_t>(io::process_id())),
      told_self_(self),
      told_members_(1, self) {}

base::Result<std::unique_ptr<Roster>> Roster::open(const Member& self,
                                                   std::unique_ptr<io::Datagrams> datagrams,
                                                   std::vector<Listed> listed, Changed changed) {
  std::unique_ptr<Roster> roster(
      new Roster(self, std::move(datagrams), std::move(listed), std::move(changed)));
  try {
    roster->crew_.reserve(2);
  } catch (const base::NoThread& error) {
    return base::fail(base::Code::kNoMemory, "{}", error.what());
  }
  return roster;
}

void Roster::start() {
  crew_.start(2, [this](uint32_t number) { number == 0 ? run() : look_up(); });
}

Roster::~Roster() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  datagrams_->wake();
  named_.close();
  crew_.wait();
}

void Roster::add(std::vector<Member> members) { tell(Membership::Seeds{std::move(members)}); }
void Roster::leave() { tell(Membership::Leave{}); }

void Roster::tell(Membership::Event event) {
  {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }
  datagrams_->wake();
}

void Roster::run() {
  step(Membership::Tick{});
  // After this process was stopped, the datagrams that came meanwhile are handled before the next
  // tick.
  int without_tick = 0;
  while (true) {
    const auto datagram = datagrams_->receive(next_tick_ns_);
    std::vector<Membership::Event> events;
    bool ended = false;
    {
      MutexLock lock(mutex_);
      events = std::move(events_);
      events_.clear();
      ended = ended_;
    }
    for (const Membership::Event& event : events) step(event);
    if (ended) return;
    if (datagram) {
      auto message = decode_message(*datagram);
      if (message && replays_.take(*message)) step(Membership::Received{std::move(*message)});
    }
    const bool may_tick = !datagram || ++without_tick == kDatagrams;
    if (!may_tick || io::monotonic_ns() < next_tick_ns_) continue;
    step(Membership::Tick{});
    look_for_listed();
    without_tick = 0;
  }
}

// Contacts the listed machines that are not members: machines that could not reach each other for
// long have forgotten each other.
void Roster::look_for_listed() {
  const int64_t now_ns = io::monotonic_ns();
  if (listed_.empty() || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kLookNs;
  std::vector<Member> missing;
  std::vector<Listed> named;
  for (const Listed& listed : listed_) {
    if (std::ranges::find(told_members_, listed.member.id, &Member::id) != told_members_.end()) {
      continue;
    }
    if (listed.name.empty()) {
      missing.push_back(listed.member);
    } else {
      named.push_back(listed);
    }
  }
  if (!missing.empty()) step(Membership::Seeds{std::move(missing)});
  if (!named.empty()) static_cast<void>(named_.try_push(std::move(named)));
}

// A name may lead to several addresses, of which the machine may have only some: each look tries
// another one.
void Roster::look_up() {
  io::work_in_background();
  for (size_t look = 0; const auto named = named_.pop(); ++look) {
    for (Listed listed : *named) {
      {
        MutexLock lock(mutex_);
        if (ended_) return;
      }
      const auto found = io::find_addresses(listed.name);
      if (!found) continue;
      listed.member.host = (*found)[look % found->size()].text;
      add({std::move(listed.member)});
    }
  }
}

void Roster::step(const Membership::Event& event) {
  Membership::Actions actions = membership_.step(io::monotonic_ns(), event);
  next_tick_ns_ = actions.next_tick_ns;
  is_replaced_ = membership_.is_replaced();
  for (const Membership::Send& send : actions.sends) {
    datagrams_->send(send.host, send.port, encode_message(send.message));
  }
  if (!actions.members_changed && membership_.self() == told_self_) return;
  std::vector<Member> members = membership_.members();
  // At first the machine is alone, which is no news and may be outdated already.
  if (members == told_members_ && membership_.self() == told_self_) return;
  told_self_ = membership_.self();
  told_members_ = members;
  changed_(told_self_, std::move(members));
}

}  // namespace forebay::cache
