// A timeline of what a feed's threads do and when: spans on tracks, in Chrome's trace format, which
// Perfetto opens. (Format: "Trace Event Format", the Chromium project.)
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace forebay::feed {

// Any thread may call anything. It costs next to nothing while it is off.
class Trace {
 public:
  // A line of the timeline: the thread that did the work. Decoding and reading threads are numbered
  // from 0.
  struct Track {
    const char* name = "";
    uint32_t number = 0;
  };

  // Drops what was recorded, and records from now on.
  void start() EXCLUDES(mutex_);
  void stop() { on_ = false; }
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // `name`, `what` and the track's name are string literals. `detail` is a number to show, and
  // `what` its name.
  void add(const char* name, const Track& track, int64_t begin_ns, int64_t end_ns, const char* what,
           uint64_t detail) EXCLUDES(mutex_);
  // {"traceEvents": [...], "dropped": …}; times count from start(). "dropped" is the number of
  // spans beyond base::kTraceEventsMax, which are left out.
  std::string json() EXCLUDES(mutex_);

  // Records the time from its construction to its destruction if the trace is on at both.
  class Span {
   public:
    Span(Trace& trace, const char* name, const Track& track, const char* what, uint64_t detail);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace& trace_;
    const char* name_;
    const Track track_;
    const char* what_;
    uint64_t detail_;
    int64_t begin_ns_;
  };

 private:
  struct Event {
    const char* name;
    Track track;
    int64_t begin_ns;
    int64_t end_ns;
    const char* what;
    uint64_t detail;
  };

  std::atomic<bool> on_ = false;
  base::Mutex mutex_;
  int64_t start_ns_ GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ GUARDED_BY(mutex_) = 0;
  std::vector<Event> events_ GUARDED_BY(mutex_);
};

}  // namespace forebay::feed
