// The figures of one machine of a cache: as JSON for the other machines, whose page shows them all,
// and as text for Prometheus.
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
  std::vector<std::string> datasets = {};  // opened by its process; only the first few
  std::string trouble = {};  // why less is kept than the options allow; empty: no trouble
  uint64_t uptime_ms = 0;
  uint64_t members = 0;  // machines that hold the cache together, as this one knows them
  uint64_t serves = 0;   // 1: this process holds the machine's share; 0: another one does
  uint64_t memory_bytes_max = 0;
  uint64_t disk_bytes_max = 0;
  uint64_t memory_held_bytes = 0;
  uint64_t disk_held_bytes = 0;
  uint64_t found_bytes = 0;
  // Bytes read here, for this process and for others, by where they came from.
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

// Truncates long texts and replaces bytes that are not UTF-8.
nlohmann::json encode_figures(const Figures& figures);
// encode_figures() as text, padded with spaces to kFiguresBytesMax bytes.
std::string padded_figures(const Figures& figures);
// Parses the figures of another machine, which is not trusted. Errors: kCorrupt unless the text has
// exactly the members of encode_figures(), within their limits.
Result<Figures> decode_figures(std::string_view text);

// The figures in Prometheus's text exposition format 0.0.4.
std::string metrics_text(const Figures& figures);

}  // namespace forebay::cache
