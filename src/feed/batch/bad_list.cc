#include "feed/batch/bad_list.h"

#include <algorithm>

namespace forebay::feed {

namespace {

constexpr size_t kNamed = 3;  // bad samples in the error that ends a run

// In a view one sample may have several numbers.
std::string name_of(const BadSample& bad) { return bad.chunk + "/" + bad.key; }

}  // namespace

void BadList::begin(std::vector<BadSample> bad) {
  all_ = std::move(bad);
  names_.clear();
  for (const BadSample& sample : all_) names_.insert(name_of(sample));
}

Status BadList::add(std::vector<BadSample> bad) {
  if (bad.empty()) return {};
  std::vector<BadSample> added = all_;
  std::set<std::string> names = names_;
  for (BadSample& sample : bad) {
    if (names.insert(name_of(sample)).second) added.push_back(std::move(sample));
  }
  if (added.size() > most_ && added.size() > all_.size()) {
    std::string last;
    for (size_t i = added.size() - std::min(added.size(), kNamed); i < added.size(); ++i) {
      last += fmt::format("; {} in chunk {}: {}", added[i].key, added[i].chunk, added[i].reason);
    }
    return base::fail(base::Code::kCorrupt,
                      "feed: {} samples cannot be used, but bad_samples_max is {}; see `forebay "
                      "verify`; the last ones{}",
                      added.size(), most_, last);
  }
  all_ = std::move(added);
  names_ = std::move(names);
  return {};
}

}  // namespace forebay::feed
