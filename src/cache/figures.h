// What a machine of a cache tells of itself: to the other machines as JSON, for the page that shows
// them all, and to Prometheus.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay::cache {

using base::Result;

struct Figures {
  std::string machine = {};  // its name, for people
  std::string address = {};  // "HOST:PORT" of the process that serves its share
  std::string folder = {};
  std::vector<std::string> datasets = {};  // that its process has opened; the first few
  std::string trouble = {};  // why less is kept than was asked for; empty while all is well
  uint64_t uptime_ms = 0;
  uint64_t members = 0;  // machines that hold the cache together, as this one knows them
  uint64_t serves = 0;   // 1: this process holds the machine's share; 0: another one does
  uint64_t memory_bytes_max = 0;
  uint64_t disk_bytes_max = 0;
  uint64_t memory_held_bytes = 0;
  uint64_t disk_held_bytes = 0;
  uint64_t found_bytes = 0;
  // Where what was read here came from, for this process itself and for others.
  uint64_t memory_hit_bytes = 0;
  uint64_t disk_hit_bytes = 0;
  uint64_t peer_hit_bytes = 0;
  uint64_t origin_bytes = 0;
  uint64_t served_requests = 0;
  uint64_t served_bytes = 0;
  uint64_t refused_requests = 0;
  uint64_t peer_requests = 0;
  uint64_t peer_failures = 0;
  uint64_t damaged = 0;
  uint64_t refused_bytes = 0;
  uint64_t dropped_bytes = 0;
  bool operator==(const Figures&) const = default;
};

// Long texts are cut, and bytes that are not UTF-8 replaced.
nlohmann::json encode_figures(const Figures& figures);
// The same as text, with as many spaces after it that it has kFiguresBytesMax bytes.
std::string padded_figures(const Figures& figures);
// `text` comes from a machine that may lie: it has exactly the members of encode_figures(), within
// their limits. Errors: kCorrupt.
Result<Figures> decode_figures(std::string_view text);

// In the text exposition format 0.0.4 of Prometheus.
std::string metrics_text(const Figures& figures);

}  // namespace forebay::cache
