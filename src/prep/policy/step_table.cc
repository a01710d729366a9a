#include "prep/policy/step_table.h"

#include <algorithm>

namespace forebay::prep {

StepTable::StepTable(StepNumber first, const std::vector<StepNumber>& over, uint64_t steps_each)
    : steps_each_(std::max<uint64_t>(steps_each, 1)), position_(first), host_next_(first) {
  for (const StepNumber step : over) {
    if (step >= first) entries_[step].state = StepState::kGiven;
  }
  advance();
}

const Entry& StepTable::at(StepNumber step) const {
  static const Entry untouched;
  const auto found = entries_.find(step);
  return found == entries_.end() ? untouched : found->second;
}

bool StepTable::is_given(StepNumber step) const {
  return step < position_ || at(step).state == StepState::kGiven;
}

void StepTable::arrive(StepNumber step) {
  entries_[step].state = StepState::kHere;
  here_.insert(step);
}

void StepTable::give(StepNumber step) {
  here_.erase(step);
  entries_[step].state = StepState::kGiven;
  advance();
}

void StepTable::advance() {
  while (!entries_.empty() && entries_.begin()->first == position_ &&
         entries_.begin()->second.state == StepState::kGiven) {
    entries_.erase(entries_.begin());
    ++position_;
  }
}

void StepTable::release(StepNumber step) {
  entries_[step].state = StepState::kNobody;
  if (is_passed(step)) lost_.insert(step);
}

bool StepTable::is_free(StepNumber step) const {
  if (step < position_) return false;
  const Entry& entry = at(step);
  if (entry.is_for_host) return false;
  return entry.state == StepState::kPromised ||
         (entry.state == StepState::kNobody && !is_passed(step));
}

std::vector<StepNumber> StepTable::over() const {
  std::vector<StepNumber> over;
  for (const auto& [step, entry] : entries_) {
    if (entry.state == StepState::kGiven) over.push_back(step);
  }
  return over;
}

}  // namespace forebay::prep
