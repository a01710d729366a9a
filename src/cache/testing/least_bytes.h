// For tests: the fewest bytes that any cache has to fetch for a trace of ranges, whatever it keeps
// (decision 0015).
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace forebay::cache {

// The begin and the end of bytes that a step of a trace reads.
using Span = std::pair<uint64_t, uint64_t>;
using Step = std::vector<Span>;

// At most `room` bytes may be kept between any two steps. All spans are cut at the ends of all
// others into atoms, each of which is read as a whole or not at all. After each step, bytes are cut
// off the atoms whose next uses are the latest, until the rest fits.
inline uint64_t least_bytes(const std::vector<Step>& trace, uint64_t room) {
  std::vector<uint64_t> ends;
  for (const Step& step : trace) {
    for (const auto& [begin, end] : step) ends.insert(ends.end(), {begin, end});
  }
  std::ranges::sort(ends);
  const auto unique = std::ranges::unique(ends);
  ends.erase(unique.begin(), unique.end());
  const auto atoms_of = [&](const Step& step) {
    std::vector<size_t> atoms;
    for (const auto& [begin, end] : step) {
      const auto first = std::ranges::lower_bound(ends, begin) - ends.begin();
      for (auto at = static_cast<size_t>(first); ends[at] < end; ++at) atoms.push_back(at);
    }
    return atoms;
  };
  std::vector<std::vector<std::pair<size_t, size_t>>> uses(trace.size());  // atom, next step
  std::vector<size_t> next(ends.size(), SIZE_MAX);
  for (size_t at = trace.size(); at-- > 0;) {
    for (const size_t atom : atoms_of(trace[at])) {
      uses[at].emplace_back(atom, std::exchange(next[atom], at));
    }
  }
  std::set<std::pair<size_t, size_t>> kept;  // next step, atom
  std::vector<uint64_t> kept_bytes(ends.size());
  uint64_t all_kept = 0;
  uint64_t fetched = 0;
  for (size_t at = 0; at < trace.size(); ++at) {
    for (const auto& [atom, again] : uses[at]) {
      const uint64_t bytes = ends[atom + 1] - ends[atom];
      fetched += bytes - kept_bytes[atom];
      kept.erase({at, atom});
      all_kept -= kept_bytes[atom];
      kept_bytes[atom] = again == SIZE_MAX ? 0 : bytes;
      all_kept += kept_bytes[atom];
      if (again != SIZE_MAX) kept.emplace(again, atom);
    }
    while (all_kept > room) {
      const auto latest = std::prev(kept.end());
      uint64_t& bytes = kept_bytes[latest->second];
      const uint64_t cut = std::min(bytes, all_kept - room);
      bytes -= cut;
      all_kept -= cut;
      if (bytes == 0) kept.erase(latest);
    }
  }
  return fetched;
}

}  // namespace forebay::cache
