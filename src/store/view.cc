#include "store/view.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/bytes.h"

namespace forebay::store {

using base::Code;
using base::fail;
using base::Sha256;

namespace {

// A gap of up to this many bytes between two samples is read too, which costs less than a second
// read.
constexpr uint64_t kJoinedGapBytes = 256 << 10;

// The base class of all views.
class View : public Dataset {
 public:
  const std::string& path() const override { return path_; }
  const Schema& schema() const override { return schema_; }
  uint64_t sample_count() const override { return samples_; }
  uint32_t chunk_count() const override { return static_cast<uint32_t>(chunks_.size()); }
  const ChunkInfo& chunk(uint32_t number) const override { return chunks_.at(number); }
  uint32_t chunk_of(uint64_t sample) const override {
    FOREBAY_CHECK(sample < samples_);
    return store::chunk_of(chunks_, sample);
  }
  Result<std::optional<uint64_t>> find(std::string_view key) const override {
    ASSIGN_OR_RETURN(const auto found, find_all(key));
    return found.empty() ? std::nullopt : std::optional(found.front());
  }
  const Sha256& fingerprint() const override { return fingerprint_; }
  Result<ChunkIndex> read_chunk_index(uint32_t number, const io::ReadOptions&) const override {
    return fail(Code::kUnsupported, "{}: a view of a dataset has no chunk indexes of its own",
                chunk_label(number));
  }

 protected:
  Status add_chunk(const ChunkInfo& chunk) {
    if (chunks_.size() == UINT32_MAX) {
      return fail(Code::kTooBig, "{}: more than {} pieces", path_, UINT32_MAX);
    }
    chunks_.push_back(chunk);
    chunks_.back().first_sample = samples_;
    samples_ += chunk.samples;
    return {};
  }

  std::string path_;
  Schema schema_;
  Sha256 fingerprint_{};

 private:
  std::vector<ChunkInfo> chunks_;
  uint64_t samples_ = 0;
};

class Selection final : public View {
 public:
  static Result<std::shared_ptr<const Dataset>> make(std::shared_ptr<const Dataset> base,
                                                     std::vector<uint64_t> samples) {
    // The division into chunks depends on the samples' locations.
    RETURN_IF_ERROR(base->load_all_locations({}));
    auto out = std::make_shared<Selection>(std::move(base), std::move(samples));
    RETURN_IF_ERROR(out->find_chunks());
    return out;
  }

  Selection(std::shared_ptr<const Dataset> base, std::vector<uint64_t> samples)
      : base_(std::move(base)), samples_(std::move(samples)) {
    path_ = base_->path();
    schema_ = base_->schema();
  }

  std::string chunk_label(uint32_t number) const override {
    return base_->chunk_label(base_chunk_.at(number));
  }
  Result<std::unique_ptr<io::ReadableFile>> open_chunk(uint32_t number,
                                                       Caching caching) const override {
    return base_->open_chunk(base_chunk_.at(number), caching);
  }
  ChunkOrigin origin(uint32_t number) const override {
    return base_->origin(base_chunk_.at(number));
  }
  Result<ChunkIndex> read_stored_index(uint32_t number,
                                       const io::ReadOptions& options) const override {
    return base_->read_stored_index(base_chunk_.at(number), options);
  }
  std::string chunk_name(uint32_t number) const override {
    return base_->chunk_name(base_chunk_.at(number));
  }
  const io::KeptFiles* kept(uint32_t number) const override {
    return base_->kept(base_chunk_.at(number));
  }
  std::optional<Selected> selected() const override { return Selected{base_, samples_}; }
  bool in_place() const override { return base_->in_place(); }
  Location location(uint64_t sample) const override {
    Location location = base_->location(samples_.at(sample));
    location.chunk = chunk_of(sample);
    return location;
  }
  Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const override {
    return base_->key(samples_.at(sample), options);
  }
  std::string source_path(uint64_t sample) const override {
    return base_->source_path(samples_.at(sample));
  }
  Result<std::vector<uint64_t>> find_all(std::string_view key) const override {
    ASSIGN_OR_RETURN(const auto found, base_->find_all(key));
    std::vector<uint64_t> out;
    for (uint64_t i = 0; i < samples_.size() && !found.empty(); ++i) {
      if (std::ranges::binary_search(found, samples_[i])) out.push_back(i);
    }
    return out;
  }

 private:
  // Divides the samples into chunks, and hashes their numbers for the fingerprint.
  Status find_chunks() {
    base::Sha256Stream fingerprint;
    fingerprint.add(base::as_bytes("selection"));
    fingerprint.add(base_->fingerprint());
    base::ByteVector number;
    Location last;
    ChunkInfo chunk;
    uint64_t end_of_chunk = 0;  // where the base's chunk ends
    for (const uint64_t sample : samples_) {
      if (sample >= base_->sample_count()) {
        return fail(Code::kInvalid, "{}: no sample {}; it has {} samples", path_, sample,
                    base_->sample_count());
      }
      number.clear();
      base::ByteWriter(&number).number(sample);
      fingerprint.add(number);
      const Location next = base_->location(sample);
      const uint64_t end = last.offset + last.length;
      const bool joins = chunk.samples > 0 && next.chunk == last.chunk && next.offset >= end &&
                         next.offset - end <= kJoinedGapBytes;
      if (!joins) {
        RETURN_IF_ERROR(close_chunk(chunk, last, end_of_chunk));
        chunk = base_->chunk(next.chunk);
        end_of_chunk = chunk.offset + chunk.bytes;
        chunk.offset = std::min(next.offset, end_of_chunk);
        chunk.samples = 0;
      }
      last = next;
      ++chunk.samples;
    }
    fingerprint_ = fingerprint.finish();
    return close_chunk(chunk, last, end_of_chunk);
  }

  // Adds a chunk of the view. `last`: the location of its last sample; `end_max`: where the base's
  // chunk ends.
  Status close_chunk(ChunkInfo chunk, const Location& last, uint64_t end_max) {
    if (chunk.samples == 0) return {};
    chunk.bytes = std::clamp(last.offset + last.length, chunk.offset, end_max) - chunk.offset;
    base_chunk_.push_back(last.chunk);
    return add_chunk(chunk);
  }

  const std::shared_ptr<const Dataset> base_;
  const std::vector<uint64_t> samples_;  // sample numbers in the base, by number in the view
  std::vector<uint32_t> base_chunk_;     // chunk numbers in the base, by number in the view
};

class Concatenation final : public View {
 public:
  static Result<std::shared_ptr<const Dataset>> make(
      const std::vector<std::shared_ptr<const Dataset>>& parts, Classes classes) {
    auto out = std::make_shared<Concatenation>(classes);
    base::Sha256Stream fingerprint;
    fingerprint.add(base::as_bytes("concatenation"));
    for (const auto& part : parts) {
      RETURN_IF_ERROR(out->add(part));
      fingerprint.add(part->fingerprint());
    }
    out->fingerprint_ = fingerprint.finish();
    return out;
  }

  explicit Concatenation(Classes classes) : has_classes_(classes == Classes::kMerged) {}

  std::string chunk_label(uint32_t number) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->chunk_label(number - placed.first_chunk);
  }
  Result<std::unique_ptr<io::ReadableFile>> open_chunk(uint32_t number,
                                                       Caching caching) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->open_chunk(number - placed.first_chunk, caching);
  }
  ChunkOrigin origin(uint32_t number) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->origin(number - placed.first_chunk);
  }
  Result<ChunkIndex> read_stored_index(uint32_t number,
                                       const io::ReadOptions& options) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->read_stored_index(number - placed.first_chunk, options);
  }
  Status load_locations(std::span<const uint32_t> chunks,
                        const io::ReadOptions& options) const override {
    for (const Placed& placed : parts_) {
      std::vector<uint32_t> of_part;
      for (const uint32_t chunk : chunks) {
        if (&part_of_chunk(chunk) == &placed) of_part.push_back(chunk - placed.first_chunk);
      }
      RETURN_IF_ERROR(placed.dataset->load_locations(of_part, options));
    }
    return {};
  }
  Status load_all_locations(const io::ReadOptions& options) const override {
    for (const Placed& placed : parts_) {
      RETURN_IF_ERROR(placed.dataset->load_all_locations(options));
    }
    return {};
  }
  bool knows_locations(uint32_t number) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->knows_locations(number - placed.first_chunk);
  }
  const io::KeptFiles* kept(uint32_t number) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->kept(number - placed.first_chunk);
  }
  std::string chunk_name(uint32_t number) const override {
    const Placed& placed = part_of_chunk(number);
    return fmt::format("{}: {}", &placed - parts_.data(),
                       placed.dataset->chunk_name(number - placed.first_chunk));
  }
  Result<std::vector<std::string>> chunk_keys(uint32_t number) const override {
    const Placed& placed = part_of_chunk(number);
    return placed.dataset->chunk_keys(number - placed.first_chunk);
  }
  Location location(uint64_t sample) const override {
    const Placed& placed = part_of(sample);
    Location location = placed.dataset->location(sample - placed.first_sample);
    location.chunk += placed.first_chunk;
    if (!has_classes_) location.label = -1;
    const auto label = static_cast<size_t>(location.label);
    if (location.label >= 0 && label < placed.labels.size()) location.label = placed.labels[label];
    return location;
  }
  Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const override {
    const Placed& placed = part_of(sample);
    return placed.dataset->key(sample - placed.first_sample, options);
  }
  std::string source_path(uint64_t sample) const override {
    const Placed& placed = part_of(sample);
    return placed.dataset->source_path(sample - placed.first_sample);
  }
  Result<std::vector<uint64_t>> find_all(std::string_view key) const override {
    std::vector<uint64_t> out;
    for (const Placed& placed : parts_) {
      ASSIGN_OR_RETURN(const auto found, placed.dataset->find_all(key));
      for (const uint64_t sample : found) out.push_back(placed.first_sample + sample);
    }
    return out;
  }

 private:
  struct Placed {
    std::shared_ptr<const Dataset> dataset;
    uint64_t first_sample = 0;
    uint32_t first_chunk = 0;
    std::vector<int32_t> labels = {};  // the view's class numbers, by the part's class numbers
  };

  const Placed& part_of(uint64_t sample) const {
    FOREBAY_CHECK(sample < sample_count());
    return *std::prev(std::ranges::upper_bound(parts_, sample, {},
                                               [](const Placed& p) { return p.first_sample; }));
  }

  const Placed& part_of_chunk(uint32_t number) const {
    return *std::prev(std::ranges::upper_bound(parts_, number, {},
                                               [](const Placed& p) { return p.first_chunk; }));
  }

  Status add(const std::shared_ptr<const Dataset>& part) {
    if (parts_.empty()) schema_.fields = part->schema().fields;
    if (has_classes_ && !parts_.empty() &&
        part->schema().classes.empty() != schema_.classes.empty()) {
      return fail(Code::kInvalid,
                  "concat: {} and {}: only one of them has class names, so their class numbers "
                  "cannot be combined",
                  path_, part->path());
    }
    Placed placed{.dataset = part, .first_sample = sample_count(), .first_chunk = chunk_count()};
    for (const std::string& name : part->schema().classes) {
      if (!has_classes_) break;
      const auto [entry, is_new] =
          classes_.try_emplace(name, static_cast<int32_t>(schema_.classes.size()));
      if (is_new) schema_.classes.push_back(name);
      placed.labels.push_back(entry->second);
    }
    // Each path appears once. Otherwise the path would double with every concatenation of a
    // concatenation with itself.
    if (paths_.insert(part->path()).second) path_ += (parts_.empty() ? "" : " + ") + part->path();
    for (uint32_t number = 0; number < part->chunk_count(); ++number) {
      RETURN_IF_ERROR(add_chunk(part->chunk(number)));
    }
    parts_.push_back(std::move(placed));
    return {};
  }

  const bool has_classes_;
  std::vector<Placed> parts_;
  std::set<std::string> paths_;
  std::map<std::string, int32_t> classes_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> select(std::shared_ptr<const Dataset> base,
                                              std::vector<uint64_t> samples) {
  return Selection::make(std::move(base), std::move(samples));
}

Result<std::shared_ptr<const Dataset>> concat(
    const std::vector<std::shared_ptr<const Dataset>>& parts, Classes classes) {
  return Concatenation::make(parts, classes);
}

}  // namespace forebay::store
