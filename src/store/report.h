// What pack did, for people and for programs; stored as snapshots/<root>.report.json. It holds
// nothing of time, threads or places, so equal packs have equal reports.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>

#include "store/source.h"

namespace forebay::store {

// Of one chunk, or summed over chunks.
struct PackStats {
  uint64_t samples = 0;        // in the dataset
  uint64_t source_bytes = 0;   // of all files read, those refused among them
  uint64_t rewritten = 0;      // JPEGs
  uint64_t jpeg_bytes_in = 0;  // of those rewritten
  uint64_t jpeg_bytes_out = 0;
  std::map<std::string, uint64_t> kept;  // images kept as they were, by why: few fixed texts
  std::vector<Remark> kept_jpegs;        // of these, the JPEGs that could not be rewritten
  std::vector<Remark> refused;           // samples that are not in the dataset
  bool operator==(const PackStats&) const = default;

  void add(const PackStats& other);
};

// What decides a dataset's bytes; a pack goes on only with the same.
struct PackIdentity {
  base::Sha256 listing{};  // of encode_listing()
  uint64_t chunk_bytes = 0;
  uint64_t seed = 0;
  uint64_t limit = 0;  // 0: none
  bool shuffled = true;
  bool tar_fields = false;
  bool keep_damaged = false;
  bool operator==(const PackIdentity&) const = default;
};

struct PackReport {
  PackIdentity identity;
  PackStats stats;
  uint64_t chunks = 0;
  uint64_t dataset_bytes = 0;   // of the chunks
  uint64_t ignored = 0;         // files of the source that are no images by their names
  std::vector<Remark> remarks;  // folders that were left out, shards that may lack something
  base::Sha256 root{};          // of the snapshot; not in the stored form, whose name it is
  bool was_complete = false;    // there was nothing to do; not stored
  uint64_t chunks_resumed = 0;  // were there from an earlier run; not stored
};

// Names that are not UTF-8 are stored with replacement characters.
nlohmann::json to_json(const PackStats& stats);
nlohmann::json to_json(const PackIdentity& identity);
nlohmann::json to_json(const PackReport& report);
// One line. Never throws for what a name holds.
std::string dump_json(const nlohmann::json& value);
Result<PackStats> stats_from_json(const nlohmann::json& value);
Result<PackIdentity> identity_from_json(const nlohmann::json& value);
Result<PackReport> report_from_json(Bytes text);

// For a person: which option differs.
std::string first_difference(const PackIdentity& then, const PackIdentity& now);

// Several lines, for a person.
std::string describe(const PackReport& report);

std::string report_path(const std::string& dataset, const base::Sha256& root);

}  // namespace forebay::store
