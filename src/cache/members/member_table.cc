#include "cache/members/member_table.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::cache {

namespace {

size_t bucket_of(const std::string& id) { return short_name(id) % kMemberBuckets; }

bool same_place(const Member& a, const Member& b) {
  return a.host == b.host && a.port == b.port && a.room_bytes == b.room_bytes;
}

}  // namespace

uint32_t short_name(const std::string& id) { return base::crc32c(base::as_bytes(id)); }

MemberTable::MemberTable(const Member& self, base::Random* random)
    : self_id_(self.id), random_(random) {
  records_.emplace(self.id, Record{.member = self});
  toggle_in_digest(self);
}

const MemberTable::Record* MemberTable::find(const std::string& id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

bool MemberTable::put(const Member& member, MemberState state, int64_t now_ns) {
  auto found = records_.find(member.id);
  if (found == records_.end()) {
    if (records_.size() == base::kMembersMax && !make_room()) return false;
    found = records_.emplace(member.id, Record{.state = MemberState::kLeft}).first;
  }
  Record& record = found->second;
  const bool was_gone = is_gone(record.state);
  if (!was_gone) toggle_in_digest(record.member);
  if (!is_gone(state)) toggle_in_digest(member);
  changed_ |= was_gone != is_gone(state) || (!was_gone && !same_place(record.member, member));
  record.member = member;
  record.state = state;
  if (member.id == self_id_) return true;
  if (was_gone && !is_gone(state)) start_pinging(record);
  if (!was_gone && is_gone(state)) stop_pinging(record);
  if (is_gone(state)) record.gone_since_ns = now_ns;
  return true;
}

void MemberTable::forget_gone_before(int64_t time_ns) {
  std::erase_if(records_, [&](const auto& entry) {
    return is_gone(entry.second.state) && entry.second.gone_since_ns < time_ns;
  });
}

bool MemberTable::make_room() {
  auto oldest = records_.end();
  for (auto it = records_.begin(); it != records_.end(); ++it) {
    if (!is_gone(it->second.state)) continue;
    if (oldest == records_.end() || it->second.gone_since_ns < oldest->second.gone_since_ns) {
      oldest = it;
    }
  }
  if (oldest == records_.end()) return false;
  records_.erase(oldest);
  return true;
}

std::vector<Member> MemberTable::members() const {
  std::vector<Member> members;
  members.reserve(size());
  for (const auto& [id, record] : records_) {
    if (!is_gone(record.state)) members.push_back(record.member);
  }
  return members;
}

bool MemberTable::take_changed() { return std::exchange(changed_, false); }

// A newcomer gets a random place among the members that are still to be pinged in this round.
void MemberTable::start_pinging(const Record& record) {
  others_.push_back(&record);
  const size_t place = next_ + random_->below(others_.size() - next_);
  std::swap(others_[place], others_.back());
}

void MemberTable::stop_pinging(const Record& record) {
  const auto found = std::ranges::find(others_, &record);
  if (static_cast<size_t>(found - others_.begin()) < next_) --next_;
  others_.erase(found);
}

const MemberTable::Record* MemberTable::next_to_ping() {
  if (others_.empty()) return nullptr;
  if (next_ >= others_.size()) {
    base::shuffle(std::span(others_), *random_);
    next_ = 0;
  }
  return others_[next_++];
}

// Neighbours in a shuffled order are as good as members that are drawn one by one.
std::vector<const MemberTable::Record*> MemberTable::draw(size_t count,
                                                          const std::string& except) const {
  std::vector<const Record*> drawn;
  if (others_.empty()) return drawn;
  const size_t start = random_->below(others_.size());
  for (size_t i = 0; i < others_.size() && drawn.size() < count; ++i) {
    const Record* record = others_[(start + i) % others_.size()];
    if (record->member.id != except) drawn.push_back(record);
  }
  return drawn;
}

const MemberTable::Record* MemberTable::draw_dead() const {
  std::vector<const Record*> dead;
  for (const auto& [id, record] : records_) {
    if (record.state == MemberState::kDead) dead.push_back(&record);
  }
  return dead.empty() ? nullptr : dead[random_->below(dead.size())];
}

std::vector<const MemberTable::Record*> MemberTable::different_from(
    const MemberDigest& other) const {
  std::vector<const Record*> found;
  for (const auto& [id, record] : records_) {
    const size_t bucket = bucket_of(id);
    if (digest_[bucket] != other[bucket]) found.push_back(&record);
  }
  return found;
}

void MemberTable::toggle_in_digest(const Member& member) {
  base::ByteVector text;
  base::ByteWriter out(&text);
  out.sized(member.id);
  out.number(member.incarnation);
  digest_[bucket_of(member.id)] ^= base::load_le<uint64_t>(base::sha256(text).data());
}

}  // namespace forebay::cache
