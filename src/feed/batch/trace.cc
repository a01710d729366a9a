#include "feed/batch/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <new>
#include <string_view>

#include "base/limits.h"
#include "io/machine.h"

namespace forebay::feed {

using base::MutexLock;

namespace {

constexpr int64_t kNotOn = -1;

double to_us(int64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

void Trace::start() {
  MutexLock lock(mutex_);
  events_.clear();
  dropped_ = 0;
  start_ns_ = io::monotonic_ns();
  on_ = true;
}

void Trace::add(const char* name, const Track& track, int64_t begin_ns, int64_t end_ns,
                const char* what, uint64_t detail) {
  MutexLock lock(mutex_);
  if (begin_ns < start_ns_) return;
  if (events_.size() == base::kTraceEventsMax) {
    ++dropped_;
    return;
  }
  try {
    events_.push_back({name, track, begin_ns, end_ns, what, detail});
  } catch (const std::bad_alloc&) {
    ++dropped_;
  }
}

// All names are our own literals, in which nothing needs escaping.
std::string Trace::json() {
  MutexLock lock(mutex_);
  std::string out = R"({"displayTimeUnit":"ms","traceEvents":[)";
  const auto put = std::back_inserter(out);
  std::map<std::pair<std::string_view, uint32_t>, size_t> tracks;
  for (const Event& event : events_) {
    const auto [track, is_new] =
        tracks.try_emplace({event.track.name, event.track.number}, tracks.size() + 1);
    if (is_new) {
      fmt::format_to(put, R"({}{{"ph":"M","pid":1,"tid":{},"name":"thread_name",)",
                     tracks.size() > 1 ? "," : "", track->second);
      fmt::format_to(put, R"("args":{{"name":"{} {}"}}}})", event.track.name, event.track.number);
    }
    fmt::format_to(put, R"(,{{"ph":"X","pid":1,"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},)",
                   track->second, event.name, to_us(event.begin_ns - start_ns_),
                   to_us(event.end_ns - event.begin_ns));
    fmt::format_to(put, R"("args":{{"{}":{}}}}})", event.what, event.detail);
  }
  fmt::format_to(put, R"(],"dropped":{}}})", dropped_);
  return out;
}

Trace::Span::Span(Trace& trace, const char* name, const Track& track, const char* what,
                  uint64_t detail)
    : trace_(trace),
      name_(name),
      track_(track),
      what_(what),
      detail_(detail),
      begin_ns_(trace.on() ? io::monotonic_ns() : kNotOn) {}

Trace::Span::~Span() {
  if (begin_ns_ == kNotOn || !trace_.on()) return;
  trace_.add(name_, track_, begin_ns_, io::monotonic_ns(), what_, detail_);
}

}  // namespace forebay::feed
