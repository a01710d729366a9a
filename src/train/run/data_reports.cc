#include "train/run/data_reports.h"

namespace forebay::train {

std::string PrepReport::text() const {
  if (!stats_) return {};
  uint64_t steps = 0;
  size_t up = 0;
  for (const prep::ServerStats& server : stats_->servers) {
    steps += server.steps;
    up += server.is_up ? 1 : 0;
  }
  const auto all = static_cast<double>(steps + stats_->host_steps);
  return fmt::format("  prep servers: {:.0f} % of steps, {} of {} up, at step {} (host: {})",
                     all > 0 ? 100 * static_cast<double>(steps) / all : 0, up,
                     stats_->servers.size(), stats_->servers_at, stats_->host_at);
}

void PrepReport::add_to(nlohmann::json* fields) const {
  if (!stats_) return;
  nlohmann::json servers = nlohmann::json::array();
  for (const prep::ServerStats& server : stats_->servers) {
    servers.push_back({{"name", server.name},
                       {"is_up", server.is_up},
                       {"trouble", server.trouble},
                       {"steps", server.steps},
                       {"late", server.late},
                       {"checked", server.checked},
                       {"files", server.files},
                       {"bytes", server.bytes},
                       {"step_s", server.step_s}});
  }
  (*fields)["prep"] = {{"host_steps", stats_->host_steps},     {"host_step_s", stats_->host_step_s},
                       {"remade_steps", stats_->remade_steps}, {"host_at", stats_->host_at},
                       {"servers_at", stats_->servers_at},     {"servers", servers}};
}

uint64_t PrepReport::memory_bytes(const feed::FeedStats& feed, uint64_t sample_bytes) const {
  uint64_t copied = feed.bytes_read;
  if (stats_) {
    for (const prep::ServerStats& server : stats_->servers) copied += server.bytes;
  }
  return 2 * copied + feed.samples * sample_bytes;
}

std::string LinkReport::text() const {
  std::string out = feed::describe_link(stats_);
  if (out.empty()) return out;
  if (cost_ > 0) out += fmt::format(", cost {:.4g}", cost_);
  return "  link: " + out;
}

void LinkReport::add_to(nlohmann::json* fields) const {
  const io::Traffic& link = stats_.link;
  if (link.requests == 0) return;
  nlohmann::json& out = (*fields)["link"];
  out = {{"requests", link.requests},
         {"retries", link.retries},
         {"hedges", link.hedges},
         {"bytes_received", link.bytes_received},
         {"bytes_sent", link.bytes_sent},
         {"latency_s", link.latency_s},
         {"bytes_per_s", link.bytes_per_s},
         {"bytes_read", stats_.bytes_read},
         {"whole_bytes", stats_.whole_bytes}};
  if (cost_ > 0) out["cost"] = cost_;
}

}  // namespace forebay::train
