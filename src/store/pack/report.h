// The report of a pack, for people and for programs; stored as snapshots/<root>.report.json. It
// does not depend on times, threads or places, so equal packs have equal reports.
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
  uint64_t jpeg_bytes_out = 0;           // bytes of the rewritten JPEGs after the rewrite
  uint64_t resized = 0;                  // images that were made smaller; not among the rewritten
  uint64_t resized_bytes_in = 0;         // bytes of these images in the source
  uint64_t resized_bytes_out = 0;        // bytes of these images in the dataset
  uint64_t without_class = 0;            // samples
  std::string first_without_class = {};  // its key, in the dataset's order
  std::map<std::string, uint64_t> kept;  // images stored unchanged, by reason: a few fixed texts
  std::vector<Remark> kept_jpegs;        // JPEGs that could not be rewritten, with the reason
  std::vector<Remark> refused;           // samples that were left out, with the reason
  bool operator==(const PackStats&) const = default;

  void add(const PackStats& other);
};

// Everything that decides a dataset's bytes. A pack resumes only with an equal identity.
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
  uint64_t ignored = 0;         // files of the source whose names are not those of images
  std::vector<Remark> remarks;  // folders that were left out, shards that may lack samples
  base::Sha256 root{};          // the snapshot's root; not stored, because it names the stored file
  bool was_complete = false;    // whether the dataset was complete before; not stored
  uint64_t chunks_resumed = 0;  // chunks of an earlier run; not stored
};

// Names that are not UTF-8 are stored with replacement characters.
nlohmann::json to_json(const PackStats& stats);
nlohmann::json to_json(const PackIdentity& identity);
nlohmann::json to_json(const PackReport& report);
// Returns one line. Never throws, whatever bytes a name has.
std::string dump_json(const nlohmann::json& value);
Result<PackStats> stats_from_json(const nlohmann::json& value);
Result<PackIdentity> identity_from_json(const nlohmann::json& value);
Result<PackReport> report_from_json(Bytes text);

// Returns the options for making images smaller in the form of the command line.
std::string resize_text(const std::optional<image::Shrink>& resize);

// Describes the first option that differs, for messages.
std::string first_difference(const PackIdentity& then, const PackIdentity& now);

// Returns several lines for people.
std::string describe(const PackReport& report);

std::string report_path(const std::string& dataset, const base::Sha256& root);
// Reads the report of the snapshot with this root; returns nothing if there is none. Errors:
// kCorrupt, and those of the origin.
Result<std::optional<PackReport>> read_report(const io::Origin& origin, const std::string& dataset,
                                              const base::Sha256& root);

}  // namespace forebay::store
