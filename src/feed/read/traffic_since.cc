#include "feed/read/traffic_since.h"

#include <algorithm>
#include <set>
#include <utility>

namespace forebay::feed {

std::vector<store::ChunkOrigin> origins_of(const store::Dataset& dataset) {
  std::vector<store::ChunkOrigin> origins;
  std::set<const std::string*> seen;  // the path's address tells a stored dataset from another
  const std::string* last = nullptr;
  for (uint32_t chunk = 0; chunk < dataset.chunk_count(); ++chunk) {
    const store::ChunkOrigin of = dataset.origin(chunk);
    if (&of.path == std::exchange(last, &of.path)) continue;
    if (seen.insert(&of.path).second) origins.push_back(of);
  }
  return origins;
}

bool is_any_remote(const store::Dataset& dataset) {
  return std::ranges::any_of(origins_of(dataset), [](const store::ChunkOrigin& of) {
    return of.origin.is_remote(of.path);
  });
}

TrafficSince::TrafficSince(const store::Dataset& dataset) {
  for (const store::ChunkOrigin& of : origins_of(dataset)) {
    if (of.origin.is_remote(of.path)) origins_.push_back({of, of.origin.traffic(of.path)});
  }
}

io::Traffic TrafficSince::traffic() const {
  io::Traffic sum;
  for (const auto& [of, before] : origins_) {
    const io::Traffic now = of.origin.traffic(of.path);
    sum.requests += now.requests - before.requests;
    sum.retries += now.retries - before.retries;
    sum.hedges += now.hedges - before.hedges;
    sum.bytes_received += now.bytes_received - before.bytes_received;
    sum.bytes_sent += now.bytes_sent - before.bytes_sent;
    sum.latency_s = std::max(sum.latency_s, now.latency_s);
    sum.bytes_per_s += now.bytes_per_s;
  }
  return sum;
}

}  // namespace forebay::feed
