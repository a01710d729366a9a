// What pack did, for people and for programs; stored as snapshots/<root>.report.json. A report does
// not mention times, threads or places, so equal packs have equal reports.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>

#include "base/checksum.h"
#include "image/shrink.h"
#include "store/source/source.h"

namespace forebay::store {

// Counts of one chunk, or their sums over chunks.
struct PackStats {
  uint64_t samples = 0;                  // in the dataset
  uint64_t source_bytes = 0;             // bytes of all files read, including refused ones
  uint64_t rewritten = 0;                // JPEGs, without loss
  uint64_t jpeg_bytes_in = 0;            // bytes of the rewritten JPEGs before the rewrite
  uint64_t jpeg_bytes_out = 0;           // and after it
  uint64_t resized = 0;                  // images that were made smaller; not among the rewritten
  uint64_t resized_bytes_in = 0;         // bytes of their files in the source
  uint64_t resized_bytes_out = 0;        // and in the dataset
  std::map<std::string, uint64_t> kept;  // images kept as they were, by reason: a few fixed texts
  std::vector<Remark> kept_jpegs;        // kept images that are JPEGs which could not be rewritten
  std::vector<Remark> refused;           // samples that are not in the dataset
  bool operator==(const PackStats&) const = default;

  void add(const PackStats& other);
};

// What decides a dataset's bytes. A pack goes on only with an equal identity.
struct PackIdentity {
  base::Sha256 listing{};  // the hash of encode_listing()
  uint64_t chunk_bytes = 0;
  uint64_t seed = 0;
  uint64_t limit = 0;  // 0 means none
  bool shuffled = true;
  bool tar_fields = false;
  bool keep_damaged = false;
  std::optional<image::Shrink> resize = {};
  std::optional<base::Sha256> annotations = {};  // the hash of the file
  bool masks = false;
  bool operator==(const PackIdentity&) const = default;
};

struct PackReport {
  PackIdentity identity;
  PackStats stats;
  uint64_t chunks = 0;
  uint64_t dataset_bytes = 0;   // bytes of the chunks
  uint64_t ignored = 0;         // files of the source that are no images by their names
  std::vector<Remark> remarks;  // folders that were left out, shards that may lack something
  base::Sha256 root{};          // the snapshot's root; not stored, because it names the stored file
  bool was_complete = false;    // whether there was nothing to do; not stored
  uint64_t chunks_resumed = 0;  // chunks of an earlier run; not stored
};

// Names that are not UTF-8 are stored with replacement characters.
nlohmann::json to_json(const PackStats& stats);
nlohmann::json to_json(const PackIdentity& identity);
nlohmann::json to_json(const PackReport& report);
// Gives one line. Never throws, whatever bytes a name holds.
std::string dump_json(const nlohmann::json& value);
Result<PackStats> stats_from_json(const nlohmann::json& value);
Result<PackIdentity> identity_from_json(const nlohmann::json& value);
Result<PackReport> report_from_json(Bytes text);

// Names the options of making images smaller, as the command line does.
std::string resize_text(const std::optional<image::Shrink>& resize);

// Says in words which option differs.
std::string first_difference(const PackIdentity& then, const PackIdentity& now);

// Gives several lines for people.
std::string describe(const PackReport& report);

std::string report_path(const std::string& dataset, const base::Sha256& root);
// Reads the report of the snapshot with this root; nothing where there is none. Errors: kCorrupt,
// and those of the origin.
Result<std::optional<PackReport>> read_report(const io::Origin& origin, const std::string& dataset,
                                              const base::Sha256& root);

}  // namespace forebay::store
