#include "feed/trace.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/status.h"
#include "io/machine.h"

namespace forebay::feed {

using base::MutexLock;
using Json = nlohmann::json;

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
  events_.push_back({name, track, begin_ns, end_ns, what, detail});
}

std::string Trace::json() {
  MutexLock lock(mutex_);
  Json events = Json::array();
  std::map<std::pair<std::string, uint32_t>, int> tracks;
  for (const Event& event : events_) {
    const auto [track, is_new] = tracks.try_emplace({event.track.name, event.track.number},
                                                    static_cast<int>(tracks.size()) + 1);
    if (is_new) {
      const std::string title = fmt::format("{} {}", event.track.name, event.track.number);
      events.push_back({{"ph", "M"},
                        {"pid", 1},
                        {"tid", track->second},
                        {"name", "thread_name"},
                        {"args", {{"name", title}}}});
    }
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", track->second},
                      {"name", event.name},
                      {"ts", to_us(event.begin_ns - start_ns_)},
                      {"dur", to_us(event.end_ns - event.begin_ns)},
                      {"args", {{event.what, event.detail}}}});
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"dropped", dropped_}}
      .dump();
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
