// The statistics of a process's cache, and the figures that it sends to others.
#include <algorithm>
#include <iterator>

#include "base/limits.h"
#include "cache/cache.h"
#include "io/machine.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// A listed machine has no incarnation until it has been heard from.
bool is_there(const Member& member) { return member.incarnation > 0; }

}  // namespace

CacheStats Cache::stats() const {
  CacheStats stats{.peers = peers_->stats(), .origin_bytes = origin_bytes_};
  MutexLock lock(mutex_);
  stats.members = static_cast<size_t>(std::ranges::count_if(*members_, is_there));
  stats.trouble = trouble_;
  if (share_ == nullptr) return stats;
  const ShareStats own = share_->stats();
  stats.serves = true;
  stats.store = own.store;
  stats.hits = own.hits;
  stats.served_hits = own.served_hits;
  stats.ahead_bytes = own.ahead_bytes;
  stats.handed_over_bytes = own.handed_over_bytes;
  stats.origin_bytes += own.origin_bytes;
  stats.served = own.served;
  stats.trouble = own.trouble;
  if (stats.trouble.empty() && !options_.listed.empty() && stats.members == 1) {
    stats.trouble =
        fmt::format("none of the {} other machines of the list answers", options_.listed.size());
  }
  if (roster_ != nullptr && roster_->is_replaced()) {
    stats.trouble = fmt::format(
        "{}: another process serves the same share, so this one is no member", options_.folder);
  }
  return stats;
}

Figures Cache::figures() const {
  const CacheStats stats = this->stats();
  const Member machine = this->machine();
  return {.machine = io::machine_name(),
          .address = place_of(machine.host, machine.port),
          .folder = options_.folder,
          .datasets = sources_.roots(),
          .trouble = stats.trouble,
          .uptime_ms = static_cast<uint64_t>(io::monotonic_ns() - begin_ns_) / 1'000'000,
          .members = stats.members,
          .serves = stats.serves ? 1u : 0u,
          .memory_bytes_max = options_.memory_bytes_max,
          .disk_bytes_max = options_.disk_bytes_max,
          .memory_held_bytes = stats.store.held.memory,
          .disk_held_bytes = stats.store.held.disk,
          .found_bytes = stats.store.found_bytes,
          .memory_hit_bytes = stats.hits.memory + stats.served_hits.memory,
          .disk_hit_bytes = stats.hits.disk + stats.served_hits.disk,
          .peer_hit_bytes = stats.peers.hit_bytes,
          .origin_bytes = stats.origin_bytes,
          .served_requests = stats.served.requests,
          .served_bytes = stats.served.bytes,
          .refused_requests = stats.served.refused,
          .peer_requests = stats.peers.requests,
          .peer_failures = stats.peers.failures,
          .damaged = stats.store.damaged,
          .refused_bytes = stats.store.refused_bytes,
          .dropped_bytes = stats.store.dropped_bytes};
}

void Cache::ask_figures(const Member& member, std::function<void(Result<Figures>)> done) {
  const auto text = std::make_shared<std::string>(base::kFiguresBytesMax, ' ');
  auto* const bytes = reinterpret_cast<uint8_t*>(text->data());
  peers_->read(member, Peers::What::kAll, std::string(kFiguresTarget), text->size(),
               {{0, {bytes, text->size()}}}, {},
               [text, done = std::move(done)](const Status& status, const Ranges& rest) {
                 if (rest.empty()) return done(decode_figures(*text));
                 done(tl::unexpected(status));
               });
}

std::vector<Member> Cache::members() const {
  MutexLock lock(mutex_);
  std::vector<Member> members;
  std::ranges::copy_if(*members_, std::back_inserter(members), is_there);
  return members;
}

}  // namespace forebay::cache
