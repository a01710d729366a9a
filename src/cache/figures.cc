#include "cache/figures.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/limits.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

struct Text {
  const char* name;
  std::string Figures::* value;
};
constexpr std::array<Text, 4> kTexts = {{{"machine", &Figures::machine},
                                         {"address", &Figures::address},
                                         {"folder", &Figures::folder},
                                         {"trouble", &Figures::trouble}}};

struct Number {
  const char* name;
  uint64_t Figures::* value;
  // For Prometheus. Numbers with the same metric are adjacent and differ in their labels; the first
  // one has the help text. Empty metric: metrics_text() writes the number in another way.
  const char* metric;
  const char* label;
  const char* help;
};
constexpr std::array<Number, 20> kNumbers = {{
    {"uptime_ms", &Figures::uptime_ms, "", "", ""},
    {"members", &Figures::members, "members", "", "Machines that hold the cache together."},
    {"serves", &Figures::serves, "serving", "",
     "1 if this process holds the machine's share, 0 if another one does."},
    {"memory_bytes_max", &Figures::memory_bytes_max, "limit_bytes", R"({tier="memory"})",
     "Limit of the held bytes."},
    {"disk_bytes_max", &Figures::disk_bytes_max, "limit_bytes", R"({tier="disk"})", ""},
    {"memory_held_bytes", &Figures::memory_held_bytes, "held_bytes", R"({tier="memory"})",
     "Bytes that are held."},
    {"disk_held_bytes", &Figures::disk_held_bytes, "held_bytes", R"({tier="disk"})", ""},
    {"found_bytes", &Figures::found_bytes, "found_bytes", "",
     "Bytes that earlier processes had left when this one began."},
    {"memory_hit_bytes", &Figures::memory_hit_bytes, "read_bytes_total", R"({from="memory"})",
     "Bytes read, by where they came from."},
    {"disk_hit_bytes", &Figures::disk_hit_bytes, "read_bytes_total", R"({from="disk"})", ""},
    {"peer_hit_bytes", &Figures::peer_hit_bytes, "read_bytes_total", R"({from="peers"})", ""},
    {"origin_bytes", &Figures::origin_bytes, "read_bytes_total", R"({from="origin"})", ""},
    {"served_requests", &Figures::served_requests, "served_requests_total", "",
     "Requests of other processes answered with bytes."},
    {"served_bytes", &Figures::served_bytes, "served_bytes_total", "",
     "Bytes sent to other processes."},
    {"refused_requests", &Figures::refused_requests, "refused_requests_total", "",
     "Requests for unknown files, and malformed ones."},
    {"peer_requests", &Figures::peer_requests, "peer_requests_total", "",
     "Requests to other machines."},
    {"peer_failures", &Figures::peer_failures, "peer_failures_total", "",
     "Requests to other machines that brought none or only some of the bytes."},
    {"damaged", &Figures::damaged, "damaged_ranges_total", "",
     "Damaged ranges, which were fetched again."},
    {"refused_bytes", &Figures::refused_bytes, "not_kept_bytes_total", "",
     "Bytes that were read but not kept, because there was no room."},
    {"dropped_bytes", &Figures::dropped_bytes, "dropped_bytes_total", "",
     "Bytes that were dropped to make room for bytes that are needed sooner."},
}};

std::string cut(const std::string& text) { return text.substr(0, base::kFiguresTextBytesMax); }

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Texts of other machines may be no longer than this machine's own.
bool is_text(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().size() <=
                                  3 * base::kFiguresTextBytesMax;  // a replaced byte takes three
}

}  // namespace

json encode_figures(const Figures& figures) {
  json out;
  for (const Text& text : kTexts) out[text.name] = cut(figures.*text.value);
  for (const Number& number : kNumbers) out[number.name] = figures.*number.value;
  json datasets = json::array();
  for (const std::string& dataset : figures.datasets) {
    if (datasets.size() < base::kFiguresDatasetsMax) datasets.push_back(cut(dataset));
  }
  out["datasets"] = std::move(datasets);
  // Bytes that are not UTF-8 are replaced here, once for all callers.
  return json::parse(dumped(out));
}

std::string padded_figures(const Figures& figures) {
  std::string text = dumped(encode_figures(figures));
  text.resize(base::kFiguresBytesMax, ' ');
  return text;
}

Result<Figures> decode_figures(std::string_view text) {
  const auto malformed = [] {
    return fail(Code::kCorrupt, "the figures of a member of the cache are malformed");
  };
  if (text.size() > base::kFiguresBytesMax) return malformed();
  const json found = json::parse(text, nullptr, false);
  if (!found.is_object() || found.size() != kTexts.size() + kNumbers.size() + 1) return malformed();
  Figures figures;
  for (const Text& one : kTexts) {
    const auto value = found.find(one.name);
    if (value == found.end() || !is_text(*value)) return malformed();
    figures.*one.value = value->get<std::string>();
  }
  for (const Number& one : kNumbers) {
    const auto value = found.find(one.name);
    if (value == found.end() || !value->is_number_unsigned()) return malformed();
    figures.*one.value = value->get<uint64_t>();
  }
  const auto datasets = found.find("datasets");
  const bool is_list = datasets != found.end() && datasets->is_array() &&
                       datasets->size() <= base::kFiguresDatasetsMax &&
                       std::ranges::all_of(*datasets, is_text);
  if (!is_list) return malformed();
  figures.datasets = datasets->get<std::vector<std::string>>();
  return figures;
}

std::string metrics_text(const Figures& figures) {
  std::string text;
  const auto describe = [&](std::string_view metric, std::string_view type, std::string_view help) {
    text += fmt::format("# HELP forebay_cache_{0} {1}\n# TYPE forebay_cache_{0} {2}\n", metric,
                        help, type);
  };
  for (const Number& number : kNumbers) {
    const std::string_view metric = number.metric;
    if (metric.empty()) continue;
    if (*number.help != '\0') {
      describe(metric, metric.ends_with("_total") ? "counter" : "gauge", number.help);
    }
    text += fmt::format("forebay_cache_{}{} {}\n", metric, number.label, figures.*number.value);
  }
  describe("uptime_seconds", "gauge", "How long this process has run.");
  text += fmt::format("forebay_cache_uptime_seconds {}.{:03}\n", figures.uptime_ms / 1000,
                      figures.uptime_ms % 1000);
  describe("trouble", "gauge", "1 if less is kept than the options allow; the page says why.");
  text += fmt::format("forebay_cache_trouble {}\n", figures.trouble.empty() ? 0 : 1);
  return text;
}

}  // namespace forebay::cache
