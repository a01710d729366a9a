#include "cache/overview.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/limits.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
// The shortest time between two rounds of questions.
constexpr int64_t kAskNs = 900 * kMs;

}  // namespace

Overview::Overview(Cache& cache) : cache_(cache), others_(std::make_shared<Others>()) {}
Overview::~Overview() = default;

std::string Overview::json() {
  std::vector<Member> members = cache_.members();
  const std::string own = cache_.machine().id;
  std::erase_if(members, [&](const Member& member) { return member.id == own; });
  const size_t shown = std::min(members.size(), base::kShownMachinesMax);
  const size_t not_shown = members.size() - shown;
  members.resize(shown);
  ask(members);

  nlohmann::json machines = nlohmann::json::array();
  machines.push_back(encode_figures(cache_.figures()));
  const int64_t now_ns = io::monotonic_ns();
  MutexLock lock(others_->mutex);
  for (const Member& member : members) {
    const Other& other = others_->by_id[member.id];
    nlohmann::json machine =
        other.figures ? encode_figures(*other.figures) : nlohmann::json{{"machine", member.host}};
    // The address is the one that the members know, not the one that the figures claim.
    machine["address"] = place_of(member.host, member.port);
    machine["why"] = other.why;
    if (other.figures) machine["asked_ms"] = (now_ns - other.heard_ns) / kMs;
    machines.push_back(std::move(machine));
  }
  return nlohmann::json{{"machines", std::move(machines)}, {"not_shown", not_shown}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Overview::ask(const std::vector<Member>& members) {
  std::vector<Member> asked;
  {
    MutexLock lock(others_->mutex);
    std::erase_if(others_->by_id, [&](const auto& other) {
      return std::ranges::find(members, other.first, &Member::id) == members.end();
    });
    const int64_t now_ns = io::monotonic_ns();
    if (now_ns - others_->asked_ns < kAskNs) return;
    others_->asked_ns = now_ns;
    for (const Member& member : members) {
      if (!std::exchange(others_->by_id[member.id].is_asked, true)) asked.push_back(member);
    }
  }
  for (const Member& member : asked) {
    cache_.ask_figures(member, [others = others_, id = member.id](Result<Figures> figures) {
      MutexLock lock(others->mutex);
      const auto found = others->by_id.find(id);
      if (found == others->by_id.end()) return;
      Other& other = found->second;
      other.is_asked = false;
      other.why = figures ? std::string() : figures.error().message();
      if (!figures) return;
      other.figures = std::move(*figures);
      other.heard_ns = io::monotonic_ns();
    });
  }
}

}  // namespace forebay::cache
