#include "store/pack/report.h"

#include "base/limits.h"
#include "store/dataset.h"
#include "store/pack/json_guard.h"

namespace forebay::store {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

json remarks_to_json(const std::vector<Remark>& remarks) {
  json list = json::array();
  for (const Remark& remark : remarks) list.push_back({remark.path, remark.reason});
  return list;
}

std::vector<Remark> remarks_from_json(const json& list) {
  std::vector<Remark> remarks;
  for (const json& item : list) {
    remarks.push_back({item.at(0).get<std::string>(), item.at(1).get<std::string>()});
  }
  return remarks;
}

void append_list(const std::vector<Remark>& remarks, std::string* out) {
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < remarks.size() && i < kShown; ++i) {
    *out += fmt::format("    {}: {}\n", remarks[i].path, remarks[i].reason);
  }
  if (remarks.size() > kShown) *out += fmt::format("    … {} more\n", remarks.size() - kShown);
}

// Describes a file of annotations by the first digits of its hash.
std::string annotations_text(const PackIdentity& identity) {
  if (!identity.annotations) return "without --annotations";
  return "--annotations with SHA-256 " + base::to_hex(*identity.annotations).substr(0, 12);
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void PackStats::add(const PackStats& other) {
  samples += other.samples;
  source_bytes += other.source_bytes;
  rewritten += other.rewritten;
  jpeg_bytes_in += other.jpeg_bytes_in;
  jpeg_bytes_out += other.jpeg_bytes_out;
  resized += other.resized;
  resized_bytes_in += other.resized_bytes_in;
  resized_bytes_out += other.resized_bytes_out;
  if (without_class == 0) first_without_class = other.first_without_class;
  without_class += other.without_class;
  for (const auto& [why, count] : other.kept) kept[why] += count;
  kept_jpegs.insert(kept_jpegs.end(), other.kept_jpegs.begin(), other.kept_jpegs.end());
  refused.insert(refused.end(), other.refused.begin(), other.refused.end());
}

json to_json(const PackStats& stats) {
  json out = {{"samples", stats.samples},
              {"source_bytes", stats.source_bytes},
              {"rewritten", stats.rewritten},
              {"jpeg_bytes_in", stats.jpeg_bytes_in},
              {"jpeg_bytes_out", stats.jpeg_bytes_out},
              {"kept", stats.kept},
              {"kept_jpegs", remarks_to_json(stats.kept_jpegs)},
              {"refused", remarks_to_json(stats.refused)}};
  if (stats.resized > 0) {
    out["resized"] = stats.resized;
    out["resized_bytes_in"] = stats.resized_bytes_in;
    out["resized_bytes_out"] = stats.resized_bytes_out;
  }
  if (stats.without_class > 0) {
    out["without_class"] = stats.without_class;
    out["first_without_class"] = stats.first_without_class;
  }
  return out;
}

json to_json(const PackIdentity& identity) {
  json out = {{"listing", base::to_hex(identity.listing)},
              {"chunk_bytes", identity.chunk_bytes},
              {"order", identity.shuffled ? "shuffled" : "listed"},
              {"seed", identity.seed},
              {"limit", identity.limit},
              {"tar_fields", identity.tar_fields},
              {"damaged", identity.keep_damaged ? "keep" : "refuse"}};
  if (identity.resize) {
    out["resize"] = identity.resize->short_side;
    out["quality"] = identity.resize->quality;
  }
  if (identity.annotations) out["annotations"] = base::to_hex(*identity.annotations);
  if (identity.masks) out["masks"] = true;
  return out;
}

json to_json(const PackReport& report) {
  json out = to_json(report.stats);
  out["forebay_report"] = 0;
  out["identity"] = to_json(report.identity);
  out["chunks"] = report.chunks;
  out["dataset_bytes"] = report.dataset_bytes;
  out["ignored"] = report.ignored;
  out["remarks"] = remarks_to_json(report.remarks);
  return out;
}

std::string dump_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<PackStats> stats_from_json(const json& value) {
  return guarded<PackStats>([&] {
    PackStats stats;
    stats.samples = count_of(value.at("samples"));
    stats.source_bytes = count_of(value.at("source_bytes"));
    stats.rewritten = count_of(value.at("rewritten"));
    stats.jpeg_bytes_in = count_of(value.at("jpeg_bytes_in"));
    stats.jpeg_bytes_out = count_of(value.at("jpeg_bytes_out"));
    if (value.contains("resized")) {
      stats.resized = count_of(value["resized"]);
      stats.resized_bytes_in = count_of(value.at("resized_bytes_in"));
      stats.resized_bytes_out = count_of(value.at("resized_bytes_out"));
    }
    if (value.contains("without_class")) {
      stats.without_class = count_of(value["without_class"]);
      stats.first_without_class = value.at("first_without_class").get<std::string>();
    }
    for (const auto& [why, count] : value.at("kept").items()) stats.kept[why] = count_of(count);
    stats.kept_jpegs = remarks_from_json(value.at("kept_jpegs"));
    stats.refused = remarks_from_json(value.at("refused"));
    return stats;
  });
}

Result<PackIdentity> identity_from_json(const json& value) {
  std::string listing;
  std::string annotations;
  ASSIGN_OR_RETURN(PackIdentity identity, guarded<PackIdentity>([&] {
                     PackIdentity out;
                     value.at("listing").get_to(listing);
                     out.chunk_bytes = count_of(value.at("chunk_bytes"));
                     out.seed = count_of(value.at("seed"));
                     out.limit = count_of(value.at("limit"));
                     value.at("tar_fields").get_to(out.tar_fields);
                     out.shuffled = value.at("order").get<std::string>() == "shuffled";
                     // Reports of earlier versions, which refused damaged images, lack this.
                     out.keep_damaged = value.value("damaged", "refuse") == "keep";
                     if (value.contains("resize")) {
                       out.resize = {.short_side = count_of(value["resize"]),
                                     .quality = count_of(value.at("quality"))};
                     }
                     annotations = value.value("annotations", "");
                     out.masks = value.value("masks", false);
                     return out;
                   }));
  ASSIGN_OR_RETURN(identity.listing, base::sha256_from_hex(listing));
  if (!annotations.empty()) {
    ASSIGN_OR_RETURN(identity.annotations, base::sha256_from_hex(annotations));
  }
  return identity;
}

Result<PackReport> report_from_json(Bytes text) {
  const json value = json::parse(text.begin(), text.end(), nullptr, false);
  if (!value.is_object() || !value.contains("identity")) {
    return fail(Code::kCorrupt, "not a report of pack");
  }
  PackReport report;
  ASSIGN_OR_RETURN(report.identity, identity_from_json(value["identity"]));
  ASSIGN_OR_RETURN(report.stats, stats_from_json(value));
  return guarded<PackReport>([&] {
    report.chunks = count_of(value.at("chunks"));
    report.dataset_bytes = count_of(value.at("dataset_bytes"));
    report.ignored = count_of(value.at("ignored"));
    report.remarks = remarks_from_json(value.value("remarks", json::array()));
    return report;
  });
}

std::string resize_text(const std::optional<image::Shrink>& resize) {
  if (!resize) return "without --resize";
  return fmt::format("--resize {} --quality {}", resize->short_side, resize->quality);
}

std::string first_difference(const PackIdentity& then, const PackIdentity& now) {
  const auto differs = [](std::string_view what, const auto& a, const auto& b) {
    return fmt::format("{} {}, now {}", what, a, b);
  };
  const auto order = [](const PackIdentity& id) { return id.shuffled ? "shuffled" : "listed"; };
  if (then.chunk_bytes != now.chunk_bytes) {
    return differs("--chunk-bytes", then.chunk_bytes, now.chunk_bytes);
  }
  if (then.shuffled != now.shuffled) return differs("--order", order(then), order(now));
  if (then.seed != now.seed) return differs("--seed", then.seed, now.seed);
  if (then.limit != now.limit) return differs("--limit", then.limit, now.limit);
  if (then.resize != now.resize) {
    return fmt::format("{}, now {}", resize_text(then.resize), resize_text(now.resize));
  }
  if (then.annotations != now.annotations) {
    return fmt::format("{}, now {}", annotations_text(then), annotations_text(now));
  }
  if (then.masks != now.masks) {
    const auto has = [](const PackIdentity& id) { return id.masks ? "with" : "without"; };
    return fmt::format("{} --masks, now {}", has(then), has(now));
  }
  if (then.keep_damaged != now.keep_damaged) {
    const auto way = [](const PackIdentity& id) { return id.keep_damaged ? "keep" : "refuse"; };
    return differs("--damaged", way(then), way(now));
  }
  if (then.tar_fields != now.tar_fields) {
    return differs("--tar-fields", then.tar_fields, now.tar_fields);
  }
  return "another source, or one that changed since";
}

std::string describe(const PackReport& report) {
  const PackStats& stats = report.stats;
  std::string out =
      fmt::format("{} in {}, {} (source: {})\n", base::counted(stats.samples, "sample"),
                  base::counted(report.chunks, "chunk"), base::human_bytes(report.dataset_bytes),
                  base::human_bytes(stats.source_bytes));
  out +=
      fmt::format("  rewritten: {}, {} -> {} ({:.1f} %)\n", base::counted(stats.rewritten, "JPEG"),
                  base::human_bytes(stats.jpeg_bytes_in), base::human_bytes(stats.jpeg_bytes_out),
                  share(stats.jpeg_bytes_out, stats.jpeg_bytes_in));
  if (stats.resized > 0) {
    out += fmt::format("  made smaller and encoded again (lossy): {}, {} -> {} ({:.1f} %)\n",
                       base::counted(stats.resized, "image"),
                       base::human_bytes(stats.resized_bytes_in),
                       base::human_bytes(stats.resized_bytes_out),
                       share(stats.resized_bytes_out, stats.resized_bytes_in));
  }
  for (const auto& [why, count] : stats.kept) {
    out += fmt::format("  kept as they were: {} ({})\n", count, why);
  }
  append_list(stats.kept_jpegs, &out);
  if (!stats.refused.empty()) {
    out += fmt::format("  refused: {}\n", stats.refused.size());
    append_list(stats.refused, &out);
  }
  const std::string classes =
      note_of_missing_classes(stats.without_class, stats.samples, stats.first_without_class);
  if (!classes.empty()) out += "  " + classes + "\n";
  if (report.ignored > 0) {
    out += fmt::format("  ignored, because the name is not that of an image: {}\n",
                       base::counted(report.ignored, "file"));
  }
  if (!report.remarks.empty()) {
    out += fmt::format("  look at these: {}\n", report.remarks.size());
    append_list(report.remarks, &out);
  }
  return out;
}

std::string report_path(const std::string& dataset, const base::Sha256& root) {
  return io::join_path(io::join_path(dataset, "snapshots"), base::to_hex(root) + ".report.json");
}

Result<std::optional<PackReport>> read_report(const io::Origin& origin, const std::string& dataset,
                                              const base::Sha256& root) {
  const std::string path = report_path(dataset, root);
  const auto text = origin.read_whole(path, base::kListingBytesMax);
  if (!text && text.error().code() == Code::kNotFound) return std::nullopt;
  RETURN_IF_ERROR(text);
  auto report = report_from_json(*text);
  if (!report) return tl::unexpected(report.error().at(path));
  return report;
}

}  // namespace forebay::store
