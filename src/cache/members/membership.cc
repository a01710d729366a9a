#include "cache/members/membership.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/limits.h"

namespace forebay::cache {

using Kind = Message::Kind;

namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kPeriod = 100 * kMillisecond;
constexpr int64_t kAckTimeout = 30 * kMillisecond;
constexpr int64_t kNackTimeout = 24 * kMillisecond;
constexpr int64_t kGossipInterval = 50 * kMillisecond;
constexpr int64_t kSyncInterval = 4000 * kMillisecond;
constexpr int64_t kSyncAgainInterval = 500 * kMillisecond;
// An hour: the halves of a network that was cut for longer do not find each other again.
constexpr int64_t kGoneInterval = 3'600'000 * kMillisecond;

constexpr int64_t kWorstHealth = 8;
constexpr size_t kHelpers = 3;
constexpr size_t kGossipTargets = 3;
constexpr size_t kLeaveTargets = 16;
constexpr size_t kRelaysAtOnce = 64;
constexpr size_t kNewsAtOnce = 256;
constexpr size_t kSyncMessagesInPeriod = 64;

int64_t scaled(int64_t interval_ns, double by) {
  return static_cast<int64_t>(static_cast<double>(interval_ns) * by);
}

// How many times a machine passes on each piece of news. If all do so, one piece in a thousand does
// not reach everybody; comparisons with others bring it later.
uint32_t sends_of_news(size_t members) {
  return 8 + static_cast<uint32_t>(std::log(static_cast<double>(members)));
}

}  // namespace

Membership::Membership(const Member& self, uint64_t seed)
    : random_(seed, base::Purpose::kMembership), self_(self), table_(self_, &random_) {
  FOREBAY_CHECK(is_valid(self));
  number_ = random_.next_u32();
  // Machines that start at the same time must not ping at the same time.
  period_end_ns_ = static_cast<int64_t>(random_.below(kPeriod));
  next_sync_ns_ = kSyncInterval;
  sync_messages_left_ = kSyncMessagesInPeriod;
}

Membership::Actions Membership::step(int64_t now_ns, const Event& event) {
  actions_ = {};
  advance(now_ns);
  if (!has_left_ && !is_replaced_) std::visit([&](const auto& some) { on(some); }, event);
  actions_.members_changed = table_.take_changed();
  const bool is_over = has_left_ || is_replaced_;
  actions_.next_tick_ns =
      is_over ? INT64_MAX : now_ns + std::max<int64_t>(0, next_deadline_ns() - time_ns_);
  tick_due_ns_ = actions_.next_tick_ns;
  return std::move(actions_);
}

// A step that comes late means that this process was stopped, or that its machine is overloaded.
// Other members are not to blame for messages that did not come meanwhile, so that time does not
// count.
void Membership::advance(int64_t now_ns) {
  if (!tick_due_ns_) skipped_ns_ = now_ns;
  const int64_t late_ns = tick_due_ns_ ? std::max<int64_t>(0, now_ns - *tick_due_ns_) : 0;
  if (late_ns > kPeriod) {
    skipped_ns_ += late_ns;
    probe_.reset();
    change_health(std::min(late_ns / kPeriod, kWorstHealth));
  }
  time_ns_ = std::max(time_ns_, now_ns - skipped_ns_);
}

void Membership::on(const Tick& /*tick*/) {
  if (probe_ && time_ns_ >= probe_->ask_others_ns) ask_others_to_ping();
  send_nacks();
  bury_suspects();
  if (time_ns_ >= period_end_ns_) {
    end_probe();
    start_period();
  }
  if (!news_.empty() && time_ns_ >= last_gossip_ns_ + kGossipInterval) gossip();
  if (time_ns_ >= next_sync_ns_) sync();
}

int64_t Membership::next_deadline_ns() const {
  int64_t next = std::min({period_end_ns_, next_sync_ns_, suspicions_.next_end_ns(table_.size())});
  if (probe_) next = std::min(next, probe_->ask_others_ns);
  if (!news_.empty()) next = std::min(next, last_gossip_ns_ + kGossipInterval);
  for (const Relay& relay : relays_) next = std::min({next, relay.nack_ns, relay.end_ns});
  return next;
}

void Membership::on(const Seeds& seeds) {
  for (const Member& member : seeds.members) {
    if (member.id == self_.id || !is_valid(member)) continue;
    const auto* known = table_.find(member.id);
    if (known != nullptr && known->member.incarnation >= member.incarnation) {
      // A machine that is gone may be back elsewhere.
      const bool may_be_back = is_gone(known->state) && known->member.host != member.host;
      if (may_be_back) send(member, message(Kind::kDigest));
      continue;
    }
    table_.put(member, MemberState::kAlive, time_ns_);
    suspicions_.end(member.id);
  }
  spread(self_.id);
  for (const auto* record : table_.draw(kGossipTargets, "")) {
    send(record->member, message(Kind::kDigest));
  }
  next_sync_ns_ = time_ns_ + kSyncAgainInterval;
}

void Membership::on(const Leave& /*leave*/) {
  table_.put(self_, MemberState::kLeft, time_ns_);
  for (const auto* record : table_.draw(kLeaveTargets, "")) {
    Message left = message(Kind::kGossip);
    left.updates.push_back({.member = self_, .state = MemberState::kLeft});
    send(record->member, std::move(left));
  }
  has_left_ = true;
}

void Membership::on(const Received& received) {
  const Message& message = received.message;
  const auto* sender = table_.find(message.from.id);
  const bool was_dead = sender != nullptr && sender->state == MemberState::kDead;
  learn({.member = message.from}, false);
  if (is_replaced_ || message.from.id == self_.id) return;
  for (const MemberUpdate& update : message.updates) learn(update, message.kind == Kind::kSync);
  answer(message);
  sender = table_.find(message.from.id);
  if (sender == nullptr) return;
  // A ping was answered already, and two machines must not answer each other's news forever.
  const bool wants_news =
      message.kind != Kind::kPing && message.kind != Kind::kGossip && message.kind != Kind::kSync;
  // A member that is thought to be dead learns so from every answer, so that it can say that it is
  // alive.
  if (wants_news && is_news_to(message.from)) {
    send_with_news(message.from, this->message(Kind::kGossip));
  }
  // A member that comes back may know members that were cut off together with it.
  if (was_dead && !is_gone(sender->state)) send(message.from, this->message(Kind::kDigest));
}

void Membership::answer(const Message& message) {
  switch (message.kind) {
    case Kind::kPing: {
      Message ack = this->message(Kind::kAck);
      ack.probe = message.probe;
      send_with_news(message.from, std::move(ack));
      break;
    }
    case Kind::kPingRequest:
      on_ping_request(message);
      break;
    case Kind::kAck:
    case Kind::kRelayedAck:
    case Kind::kNack:
      on_ack(message);
      break;
    case Kind::kDigest:
    case Kind::kDigestAnswer:
      on_digest(message);
      break;
    case Kind::kGossip:
    case Kind::kSync:
      break;
  }
}

// Pinging.

void Membership::end_probe() {
  if (!probe_ || probe_->is_acked) return;
  // Helpers that say nothing at all show that this machine's own messages do not get through.
  const size_t silent = probe_->helpers - std::min(probe_->helpers, probe_->nacks);
  change_health(probe_->helpers == 0 ? 1 : static_cast<int64_t>(silent));
  suspect(probe_->id);
}

void Membership::start_period() {
  probe_.reset();
  period_end_ns_ = time_ns_ + kPeriod * (health_ + 1);
  sync_messages_left_ = kSyncMessagesInPeriod;
  const auto* target = table_.next_to_ping();
  if (target == nullptr) return;
  probe_ = Probe{.id = target->member.id,
                 .number = ++number_,
                 .ask_others_ns = time_ns_ + kAckTimeout * (health_ + 1)};
  ping(target->member, probe_->number);
}

void Membership::ping(const Member& target, uint32_t number) {
  Message ping = message(Kind::kPing);
  ping.probe = number;
  send_with_news(target, std::move(ping));
}

void Membership::ask_others_to_ping() {
  probe_->ask_others_ns = INT64_MAX;
  if (probe_->is_acked) return;
  const auto* target = table_.find(probe_->id);
  if (target == nullptr) return;
  ping(target->member, probe_->number);  // again, in case a datagram was lost
  for (const auto* helper : table_.draw(kHelpers, probe_->id)) {
    Message request = message(Kind::kPingRequest);
    request.probe = probe_->number;
    request.target = target->member;
    send_with_news(helper->member, std::move(request));
    ++probe_->helpers;
  }
}

void Membership::on_ping_request(const Message& message) {
  if (relays_.size() == kRelaysAtOnce) return;
  Relay& relay = relays_.emplace_back();
  relay.answer = {message.from.host, message.from.port, this->message(Kind::kRelayedAck)};
  relay.answer.message.probe = message.probe;
  relay.target = message.target.id;
  relay.number = ++number_;
  relay.nack_ns = time_ns_ + kNackTimeout;
  relay.end_ns = time_ns_ + kPeriod;
  ping(message.target, relay.number);
}

void Membership::on_ack(const Message& message) {
  if (probe_ && message.probe == probe_->number) {
    if (message.kind == Kind::kNack) {
      ++probe_->nacks;
    } else if (!probe_->is_acked &&
               (message.kind == Kind::kRelayedAck || message.from.id == probe_->id)) {
      probe_->is_acked = true;
      change_health(-1);
    }
    return;
  }
  if (message.kind != Kind::kAck) return;
  for (auto it = relays_.begin(); it != relays_.end(); ++it) {
    if (it->number != message.probe || it->target != message.from.id) continue;
    it->answer.message.sequence = ++sequence_;
    actions_.sends.push_back(std::move(it->answer));
    relays_.erase(it);
    return;
  }
}

void Membership::send_nacks() {
  for (Relay& relay : relays_) {
    if (time_ns_ < relay.nack_ns) continue;
    relay.nack_ns = INT64_MAX;
    Send nack = relay.answer;
    nack.message.kind = Kind::kNack;
    nack.message.sequence = ++sequence_;
    actions_.sends.push_back(std::move(nack));
  }
  std::erase_if(relays_, [&](const Relay& relay) { return time_ns_ >= relay.end_ns; });
}

// Learning about members.

void Membership::learn(MemberUpdate update, bool is_sync) {
  if (update.member.id == self_.id) return learn_of_self(update);
  const auto* known = table_.find(update.member.id);
  // The halves of a network that was cut think each other dead. When they meet again, neither must
  // believe that its own members are dead: these are only suspected, and have to say once more that
  // they are alive.
  if (is_sync && known != nullptr && !is_gone(known->state) && update.state == MemberState::kDead) {
    update.state = MemberState::kSuspect;
    update.accuser = 0;
  }
  // Otherwise members that are gone would be remembered forever, because each machine that has
  // forgotten them would learn of them again from another one.
  if (is_sync && known == nullptr && is_gone(update.state)) return;
  if (known != nullptr) {
    const uint64_t incarnation = known->member.incarnation;
    if (update.member.incarnation < incarnation) return;
    if (update.member.incarnation == incarnation) {
      if (update.state == MemberState::kSuspect && known->state == MemberState::kSuspect) {
        if (suspicions_.confirm(update.member.id, update.accuser)) spread(update.member.id);
        return;
      }
      if (update.state <= known->state) return;
      update.member = known->member;
    }
  }
  if (!table_.put(update.member, update.state, time_ns_)) return;
  suspicions_.end(update.member.id);
  if (update.state == MemberState::kSuspect) {
    suspicions_.begin(update.member.id, update.accuser, time_ns_);
  }
  spread(update.member.id);
}

void Membership::learn_of_self(const MemberUpdate& update) {
  const Member& other = update.member;
  if (other.incarnation < self_.incarnation) return;
  const bool is_elsewhere = other.host != self_.host || other.port != self_.port;
  const bool says_alive = update.state == MemberState::kAlive;
  if (says_alive && !is_elsewhere && other.incarnation == self_.incarnation) return;
  if (says_alive && is_elsewhere) {
    // An earlier process cannot answer this one's incarnation, so the other process is alive. Both
    // processes see that, and they agree which of them ends.
    if (answered_other_ != 0 && other.incarnation > answered_other_ &&
        std::tie(other.host, other.port) < std::tie(self_.host, self_.port)) {
      is_replaced_ = true;
      return;
    }
    answered_other_ = other.incarnation + 1;
  }
  if (!says_alive && !is_elsewhere) change_health(1);
  self_.incarnation = std::min(other.incarnation + 1, base::kIncarnationMax);
  table_.put(self_, MemberState::kAlive, time_ns_);
  spread(self_.id);
}

void Membership::suspect(const std::string& id) {
  const auto* record = table_.find(id);
  if (record == nullptr || is_gone(record->state)) return;
  const Member member = record->member;
  learn({.member = member, .state = MemberState::kSuspect, .accuser = short_name(self_.id)}, false);
  send_with_news(member, message(Kind::kGossip));
}

void Membership::bury_suspects() {
  for (const std::string& id : suspicions_.ended(table_.size(), time_ns_)) {
    const Member member = table_.find(id)->member;
    learn({.member = member, .state = MemberState::kDead}, false);
  }
}

void Membership::change_health(int64_t by) {
  health_ = std::clamp<int64_t>(health_ + by, 0, kWorstHealth);
}

// Spreading news.

void Membership::spread(const std::string& id) {
  const auto found = std::ranges::find(news_, id, &News::id);
  if (found != news_.end()) {
    found->sent = 0;
    return;
  }
  if (news_.size() == kNewsAtOnce) news_.erase(std::ranges::max_element(news_, {}, &News::sent));
  news_.push_back({.id = id});
}

void Membership::gossip() {
  last_gossip_ns_ = time_ns_;
  if (table_.size() == 1) news_.clear();
  for (const auto* record : table_.draw(kGossipTargets, "")) {
    if (news_.empty()) return;
    send_with_news(record->member, message(Kind::kGossip));
  }
}

void Membership::sync() {
  next_sync_ns_ = time_ns_ + scaled(kSyncInterval, 0.75 + random_.uniform() / 2);
  table_.forget_gone_before(time_ns_ - kGoneInterval);
  for (const auto* record : table_.draw(1, "")) send(record->member, message(Kind::kDigest));
  if (const auto* dead = table_.draw_dead()) ping(dead->member, ++number_);
}

void Membership::on_digest(const Message& message) {
  if (message.digest == table_.digest()) return;
  send_sync(message.from, message.digest);
  if (message.kind == Kind::kDigest) {
    send(message.from, this->message(Kind::kDigestAnswer));
  } else {
    next_sync_ns_ = std::min(next_sync_ns_, time_ns_ + kSyncAgainInterval);
  }
}

void Membership::send_sync(const Member& to, const MemberDigest& theirs) {
  const auto records = table_.different_from(theirs);
  if (records.empty()) return;
  Message part = message(Kind::kSync);
  const size_t empty_bytes = encoded_bytes(part);
  size_t bytes = empty_bytes;
  // Begins with a random record, so that all get their turn even if not everything may be sent.
  const size_t first = random_.below(records.size());
  for (size_t i = 0; i < records.size() && sync_messages_left_ > 0; ++i) {
    MemberUpdate update = update_about(*records[(first + i) % records.size()]);
    if (bytes + encoded_bytes(update) > base::kMemberMessageBytesMax) {
      --sync_messages_left_;
      send(to, std::exchange(part, message(Kind::kSync)));
      bytes = empty_bytes;
    }
    bytes += encoded_bytes(update);
    part.updates.push_back(std::move(update));
  }
  if (sync_messages_left_ == 0) return;
  --sync_messages_left_;
  send(to, std::move(part));
}

Message Membership::message(Kind kind) const {
  Message message{.kind = kind, .from = self_};
  if (kind == Kind::kDigest || kind == Kind::kDigestAnswer) message.digest = table_.digest();
  return message;
}

MemberUpdate Membership::update_about(const MemberTable::Record& record) const {
  MemberUpdate update{.member = record.member, .state = record.state};
  // Accusers take turns, so that all of them become known.
  if (record.state == MemberState::kSuspect) {
    update.accuser = suspicions_.accuser(record.member.id, sequence_);
  }
  return update;
}

void Membership::send(const Member& to, Message message) {
  message.sequence = ++sequence_;
  actions_.sends.push_back({.host = to.host, .port = to.port, .message = std::move(message)});
}

// Whether a process does not know yet what is known about its member.
bool Membership::is_news_to(const Member& member) const {
  const auto* known = table_.find(member.id);
  return known != nullptr &&
         (known->state != MemberState::kAlive || known->member.incarnation > member.incarnation);
}

// Fills the message with news, beginning with the least sent. News that the receiver must answer
// comes before all others.
void Membership::send_with_news(const Member& to, Message message) {
  size_t bytes = encoded_bytes(message);
  const auto add = [&](const MemberTable::Record& record) {
    MemberUpdate update = update_about(record);
    if (bytes + encoded_bytes(update) > base::kMemberMessageBytesMax) return false;
    bytes += encoded_bytes(update);
    message.updates.push_back(std::move(update));
    return true;
  };
  if (is_news_to(to)) add(*table_.find(to.id));
  std::ranges::sort(news_, {}, [](const News& news) { return std::tie(news.sent, news.id); });
  for (News& news : news_) {
    // Every message names its sender, so news of this machine is in it already.
    const bool is_known = news.id == to.id || news.id == self_.id;
    const auto* record = is_known ? nullptr : table_.find(news.id);
    if (record != nullptr && !add(*record)) break;
    ++news.sent;
  }
  const uint32_t enough = sends_of_news(table_.size());
  std::erase_if(news_, [&](const News& news) { return news.sent >= enough; });
  send(to, std::move(message));
}

}  // namespace forebay::cache
