#include "cache/members/suspicions.h"

#include <algorithm>
#include <cmath>

namespace forebay::cache {

namespace {

constexpr size_t kConfirmations = 3;
constexpr double kLongest = 6;  // times the shortest

// How long a suspect has to answer when the suspicion is confirmed. News reaches everybody in a
// time that grows with the logarithm of the number of members, and the answer must reach everybody
// too.
double shortest_ns(size_t members) {
  return 1e8 * std::max(3.0, 2.5 * std::log10(static_cast<double>(members)));
}

}  // namespace

void Suspicions::begin(const std::string& id, uint32_t accuser, int64_t now_ns) {
  suspects_[id] = {.since_ns = now_ns, .accusers = {accuser}};
}

bool Suspicions::confirm(const std::string& id, uint32_t accuser) {
  std::vector<uint32_t>& accusers = suspects_.at(id).accusers;
  if (accusers.size() > kConfirmations || std::ranges::count(accusers, accuser) > 0) return false;
  accusers.push_back(accuser);
  return true;
}

uint32_t Suspicions::accuser(const std::string& id, uint64_t turn) const {
  const std::vector<uint32_t>& accusers = suspects_.at(id).accusers;
  return accusers[turn % accusers.size()];
}

int64_t Suspicions::next_end_ns(size_t members) const {
  int64_t next = INT64_MAX;
  for (const auto& [id, suspect] : suspects_) next = std::min(next, end_ns(suspect, members));
  return next;
}

std::vector<std::string> Suspicions::ended(size_t members, int64_t now_ns) const {
  std::vector<std::string> ids;
  for (const auto& [id, suspect] : suspects_) {
    if (now_ns >= end_ns(suspect, members)) ids.push_back(id);
  }
  return ids;
}

// Only members that are not suspected themselves can confirm.
int64_t Suspicions::end_ns(const Suspect& suspect, size_t members) const {
  const size_t others = members - suspects_.size() - 1;
  const size_t wanted = std::min(kConfirmations, others);
  const size_t confirmed = std::min(wanted, suspect.accusers.size() - 1);
  const double shortest = shortest_ns(members);
  double times = 1;
  if (confirmed < wanted) {
    const double share =
        std::log(static_cast<double>(confirmed) + 1) / std::log(static_cast<double>(wanted) + 1);
    times = kLongest - (kLongest - 1) * share;
  }
  return suspect.since_ns + static_cast<int64_t>(shortest * times);
}

}  // namespace forebay::cache
