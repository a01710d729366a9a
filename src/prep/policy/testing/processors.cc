#include "prep/policy/testing/processors.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace forebay::prep {

Processors::Task Processors::begin(std::function<void()> done) {
  advance();
  const Task task{each_had_ + 1, numbers_++};
  tasks_.emplace(task, std::move(done));
  tasks_most_ = std::max(tasks_most_, tasks_.size());
  schedule();
  return task;
}

void Processors::drop(const Task& task) {
  advance();
  tasks_.erase(task);
  schedule();
}

void Processors::advance() {
  if (tasks_.empty()) {
    each_had_ = 0;
  } else {
    each_had_ += speed_.work(advanced_ns_, now()) / static_cast<double>(tasks_.size());
  }
  advanced_ns_ = now();
}

void Processors::schedule() {
  const uint64_t plan = ++plan_;
  if (tasks_.empty()) return;
  const double left = std::max(tasks_.begin()->first.first - each_had_, 0.0);
  const double end_ns = speed_.end_ns(now(), left * static_cast<double>(tasks_.size()));
  if (std::isinf(end_ns)) return;
  sim_.after(static_cast<int64_t>(std::max(std::ceil(end_ns - now()), 0.0)), [this, plan] {
    if (plan == plan_) finish();
  });
}

void Processors::finish() {
  advance();
  constexpr double kRounding = 1e-5;  // a nanosecond or so
  std::vector<std::function<void()>> done;
  while (!tasks_.empty() && tasks_.begin()->first.first - each_had_ < kRounding) {
    done.push_back(std::move(tasks_.begin()->second));
    tasks_.erase(tasks_.begin());
  }
  finished_ += done.size();
  schedule();
  for (const auto& call : done) call();
}

}  // namespace forebay::prep
