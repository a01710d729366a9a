#include "feed/link.h"

#include <algorithm>
#include <set>

namespace forebay::feed {

Link::Link(const store::Dataset& dataset) {
  std::set<const std::string*> seen;  // the path's address tells a stored dataset from another
  const std::string* last = nullptr;
  for (uint32_t chunk = 0; chunk < dataset.chunk_count(); ++chunk) {
    const store::ChunkOrigin of = dataset.origin(chunk);
    if (&of.path == last || !seen.insert(&of.path).second) continue;
    last = &of.path;
    if (of.origin.is_remote(of.path)) origins_.push_back({of, of.origin.traffic(of.path)});
  }
}

io::Traffic Link::traffic() const {
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
