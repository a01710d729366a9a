#include "store/check/verify.h"

#include <algorithm>
#include <deque>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/share_work.h"
#include "store/check/verify_chunk.h"
#include "store/format/snapshot.h"
#include "store/pack/journal.h"
#include "store/pack/report.h"
#include "store/second_read.h"
#include "store/stored_snapshot.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

struct Task {
  std::string path;
  base::Sha256 id{};
  int64_t number = -1;
};

// Returns the entries of a folder. If it cannot be listed, notes this in the report and returns
// nothing; a web server never lists.
Result<std::optional<std::vector<io::DirEntry>>> list_folder(const io::Origin& origin,
                                                             const std::string& folder,
                                                             VerifyReport* report) {
  auto entries = origin.list(folder);
  if (entries) return std::move(*entries);
  if (io::is_unanswered(entries.error().code())) return tl::unexpected(entries.error());
  if (entries.error().code() == Code::kUnsupported) {
    report->notes.push_back(folder +
                            ": not checked for other files, because the server does not list it");
  } else {
    report->damages.push_back({folder, -1, {}, -1, entries.error().message()});
  }
  return std::nullopt;
}

// Lists the chunks in the folder chunks/, whether the snapshot names them or not.
Result<std::vector<Task>> chunks_on_disk(const io::Origin& origin, const std::string& dataset,
                                         VerifyReport* report) {
  std::vector<Task> tasks;
  const std::string folder = io::join_path(dataset, "chunks");
  ASSIGN_OR_RETURN(const auto entries, list_folder(origin, folder, report));
  if (!entries) return tasks;
  for (const auto& entry : *entries) {
    const std::string path = io::join_path(folder, entry.name);
    const auto id = entry.name.ends_with(".tar")
                        ? base::sha256_from_hex(entry.name.substr(0, entry.name.size() - 4))
                        : base::sha256_from_hex("");
    if (id) {
      tasks.push_back({path, *id, -1});
    } else {
      report->leftovers.push_back(path);
    }
  }
  return tasks;
}

// Returns the paths of the files in snapshots/. If the folder cannot be listed, returns those of
// the current snapshot.
Result<std::vector<std::string>> snapshot_files(const io::Origin& origin,
                                                const std::string& dataset, VerifyReport* report) {
  std::vector<std::string> paths;
  const std::string folder = io::join_path(dataset, "snapshots");
  ASSIGN_OR_RETURN(const auto entries, list_folder(origin, folder, report));
  if (entries) {
    for (const io::DirEntry& entry : *entries) paths.push_back(io::join_path(folder, entry.name));
    return paths;
  }
  const auto snapshot = read_snapshot(origin, dataset);
  if (!snapshot && io::is_unanswered(snapshot.error().code())) {
    return tl::unexpected(snapshot.error());
  }
  if (!snapshot) return paths;  // verify() reports this error of open_packed()
  paths.push_back(root_path(dataset, snapshot->id));
  for (const PartRef& part : snapshot->root.parts) paths.push_back(part_path(dataset, part.id));
  return paths;
}

// Compares parts and roots with the SHA-256 in their names, which also covers the bytes outside all
// columns.
Status check_snapshot_files(const io::Origin& origin, const std::string& dataset,
                            VerifyReport* report) {
  ASSIGN_OR_RETURN(const auto paths, snapshot_files(origin, dataset, report));
  for (const std::string& path : paths) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name.size() < 64) continue;
    const std::string suffix = name.substr(64);
    if (suffix != ".part" && suffix != ".root") continue;
    const Status status = with_second_read(origin.is_remote(path), [&]() -> Status {
      ASSIGN_OR_RETURN(const auto data, origin.read_whole(path, base::kSnapshotFileBytesMax));
      if (base::to_hex(base::sha256(data)) == name.substr(0, 64)) return {};
      return fail(Code::kCorrupt, "its SHA-256 is not its name");
    });
    if (io::is_unanswered(status.code())) return status;
    if (!status.ok()) report->damages.push_back({path, -1, {}, -1, status.message()});
  }
  return {};
}

// Checks the report that pack wrote beside the root. A dataset that pack did not make has none.
Status check_report(const io::Origin& origin, const Dataset& dataset, std::vector<Damage>* out) {
  std::string path = head_path(dataset.path());
  const auto complain = [&](std::string what) {
    out->push_back({path, -1, {}, -1, std::move(what)});
    return Status();
  };
  const auto head = origin.read_whole(path, base::kHeadBytesMax);
  if (!head && io::is_unanswered(head.error().code())) return head.error();
  if (!head) return complain(head.error().message());
  const auto root = decode_head(base::as_text(*head));
  if (!root) return {};
  path = report_path(dataset.path(), *root);
  const auto text = origin.read_whole(path, base::kListingBytesMax);
  if (!text && text.error().code() == Code::kNotFound) return {};
  if (!text && io::is_unanswered(text.error().code())) return text.error();
  if (!text) return complain(text.error().message());
  const auto report = report_from_json(*text);
  if (!report) return complain(report.error().message());
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < dataset.chunk_count(); ++i) bytes += dataset.chunk(i).bytes;
  if (report->stats.samples != dataset.sample_count() || report->chunks != dataset.chunk_count() ||
      report->dataset_bytes != bytes || text->back() != '\n') {
    return complain(
        "its counts of samples, chunks or bytes differ from the snapshot's, or it is cut off");
  }
  return {};
}

// Compares the snapshot's columns with the chunk's own index.
Status check_columns(const Dataset& dataset, uint32_t number, const ChunkVerifier::Outcome& chunk,
                     std::vector<Damage>* out) {
  const ChunkInfo& info = dataset.chunk(number);
  const ChunkIndex& index = *chunk.index;
  const auto add = [&](const std::string& key, int64_t offset, std::string what) {
    out->push_back(
        {dataset.chunk_label(number), number, key, offset, "snapshot: " + std::move(what)});
  };
  if (info.bytes != chunk.bytes) {
    add({}, -1, fmt::format("{} bytes, but the file has {}", info.bytes, chunk.bytes));
  }
  if (info.samples != index.samples.size()) {
    add({}, -1,
        fmt::format("{} samples, but the chunk has {}", info.samples, index.samples.size()));
    return {};
  }
  if (!(index.schema == dataset.schema())) add({}, -1, "its schema differs from the chunk's");
  const auto keys = dataset.chunk_keys(number);
  if (!keys && io::is_unanswered(keys.error().code())) return keys.error();
  if (!keys) add({}, -1, "its keys cannot be read: " + keys.error().message());
  for (uint32_t i = 0; i < info.samples; ++i) {
    const IndexedSample& sample = index.samples[i];
    const Location location = dataset.location(info.first_sample + i);
    const StoredFile* image = image_file(index.schema, sample);
    if (image == nullptr) {
      add(sample.key, -1, "a sample without an image");
      continue;
    }
    const bool same = location.chunk == number && location.length == image->length &&
                      location.offset == image->offset && location.crc32c == image->crc32c &&
                      location.label == class_of(index.schema, sample);
    if (!same) {
      add(sample.key, static_cast<int64_t>(location.offset),
          "its place, length, checksum or label differs from the chunk's");
    }
    if (keys && (*keys)[i] != sample.key) {
      add(sample.key, -1, "its key is \"" + (*keys)[i] + "\" there");
    }
  }
  return {};
}

// The first half of a key's SHA-256, and the sample's number. Sorting these marks brings equal keys
// together. A mark takes 24 bytes.
struct KeyMark {
  uint64_t high = 0;
  uint64_t low = 0;
  uint64_t sample = 0;
  auto operator<=>(const KeyMark&) const = default;
};

std::vector<KeyMark> key_marks(const ChunkIndex& index, uint64_t first_sample) {
  std::vector<KeyMark> marks;
  for (uint64_t i = 0; i < index.samples.size(); ++i) {
    const base::Sha256 hash = base::sha256(base::as_bytes(index.samples[i].key));
    marks.push_back({base::load_le<uint64_t>(hash.data()), base::load_le<uint64_t>(hash.data() + 8),
                     first_sample + i});
  }
  return marks;
}

void check_keys_unique(const Dataset& dataset, std::vector<KeyMark> marks,
                       std::vector<Damage>* out) {
  std::sort(marks.begin(), marks.end());
  for (size_t i = 1; i < marks.size(); ++i) {
    const KeyMark& first = marks[i - 1];
    const KeyMark& second = marks[i];
    if (first.high != second.high || first.low != second.low) continue;
    const uint32_t chunk = dataset.chunk_of(second.sample);
    out->push_back({dataset.chunk_label(chunk), chunk, dataset.key(second.sample).value_or("?"), -1,
                    fmt::format("chunk {} has this key too; keys must be unique in a dataset",
                                dataset.chunk_of(first.sample))});
  }
}

class Verification {
 public:
  Verification(const io::Origin& origin, const VerifyOptions& options, std::vector<Task> tasks,
               std::shared_ptr<const Dataset> dataset)
      : origin_(origin), options_(options), tasks_(std::move(tasks)), dataset_(std::move(dataset)) {
    found_.resize(tasks_.size());
  }

  Status run(VerifyReport* report) {
    const size_t threads = std::min(io::threads_for(options_.threads), tasks_.size());
    std::deque<ChunkVerifier> verifiers;  // one for each thread
    for (size_t i = 0; i < threads; ++i) verifiers.emplace_back(origin_, options_.pixels);
    RETURN_IF_ERROR(
        io::share_work(tasks_.size(), 1, threads, [&](uint64_t task, uint64_t, size_t thread) {
          return check_chunk(task, &verifiers[thread]);
        }));
    base::MutexLock lock(mutex_);
    report->chunks = tasks_.size();
    report->samples = samples_;
    report->bytes = bytes_;
    report->images_decoded = images_decoded_;
    for (auto& damages : found_) {
      report->damages.insert(report->damages.end(), damages.begin(), damages.end());
    }
    if (dataset_ != nullptr) check_keys_unique(*dataset_, std::move(marks_), &report->damages);
    return {};
  }

 private:
  Status check_chunk(size_t i, ChunkVerifier* verifier) {
    const Task& task = tasks_[i];
    ASSIGN_OR_RETURN(auto outcome, verifier->check(task.path, task.id, task.number));
    std::vector<KeyMark> marks;
    if (task.number >= 0 && outcome.index) {
      const auto number = static_cast<uint32_t>(task.number);
      RETURN_IF_ERROR(check_columns(*dataset_, number, outcome, &outcome.damages));
      const ChunkInfo& info = dataset_->chunk(number);
      if (info.samples == outcome.index->samples.size()) {
        marks = key_marks(*outcome.index, info.first_sample);
      }
    }
    base::MutexLock lock(mutex_);
    marks_.insert(marks_.end(), marks.begin(), marks.end());
    found_[i] = std::move(outcome.damages);
    samples_ += outcome.index ? outcome.index->samples.size() : 0;
    bytes_ += outcome.bytes;
    images_decoded_ += outcome.images_decoded;
    ++done_;
    if (options_.progress) options_.progress(done_, tasks_.size());
    return {};
  }

  const io::Origin& origin_;
  const VerifyOptions& options_;
  const std::vector<Task> tasks_;
  const std::shared_ptr<const Dataset> dataset_;
  base::Mutex mutex_;
  std::vector<std::vector<Damage>> found_ GUARDED_BY(mutex_);
  std::vector<KeyMark> marks_ GUARDED_BY(mutex_);
  uint64_t samples_ GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t images_decoded_ GUARDED_BY(mutex_) = 0;
  uint64_t done_ GUARDED_BY(mutex_) = 0;
};

// Whether the folder is an unfinished dataset, or one that lost its HEAD, and so not data in place.
bool is_packed(const io::Origin& origin, const std::string& path) {
  const auto has = [&](const std::string& file) { return origin.stat(file).has_value(); };
  return has(journal_path(path)) || has(copy_mark_path(path)) ||
         (has(io::join_path(path, "chunks")) && has(io::join_path(path, "snapshots")));
}

}  // namespace

Result<VerifyReport> verify(const io::Origin& origin, const std::string& path,
                            const VerifyOptions& options) {
  const auto head = origin.stat(head_path(path));
  if (!head && head.error().code() == Code::kNotFound && !is_packed(origin, path)) {
    return verify_in_place(origin, path, options);
  }
  if (!head && head.error().code() == Code::kNotFound) {
    return fail(Code::kNotFound, "{} holds no complete dataset: {}", path, head.error().message());
  }
  RETURN_IF_ERROR(head);
  VerifyReport report;
  RETURN_IF_ERROR(check_snapshot_files(origin, path, &report).at("verify"));
  const auto dataset = open_packed(origin, path);
  if (!dataset && io::is_unanswered(dataset.error().code())) {
    return tl::unexpected(dataset.error().at("verify"));
  }
  ASSIGN_OR_RETURN(std::vector<Task> tasks, chunks_on_disk(origin, path, &report));
  if (!dataset) {
    // The chunks have indexes of their own, so they can still be checked.
    report.damages.push_back({path, -1, {}, -1, "snapshot: " + dataset.error().message()});
  } else {
    std::vector<Task> named;
    std::vector<base::Sha256> ids;
    for (uint32_t i = 0; i < (*dataset)->chunk_count(); ++i) {
      named.push_back({(*dataset)->chunk_label(i), (*dataset)->chunk(i).id, i});
      ids.push_back((*dataset)->chunk(i).id);
    }
    std::sort(ids.begin(), ids.end());
    for (const Task& task : tasks) {
      if (!std::binary_search(ids.begin(), ids.end(), task.id)) {
        report.leftovers.push_back(task.path);
      }
    }
    tasks = std::move(named);
    RETURN_IF_ERROR(check_report(origin, **dataset, &report.damages).at("verify"));
    add_note(note_of_missing_classes(**dataset), &report);
  }
  Verification verification(origin, options, std::move(tasks), dataset ? *dataset : nullptr);
  RETURN_IF_ERROR(verification.run(&report).at("verify"));
  return report;
}

std::string describe(const Damage& damage) {
  std::string out = damage.file + ": ";
  if (damage.offset >= 0) out += fmt::format("byte {}: ", damage.offset);
  if (!damage.sample.empty()) out += fmt::format("sample \"{}\": ", damage.sample);
  if (damage.chunk >= 0) out += fmt::format("(chunk {}) ", damage.chunk);
  return out + damage.what;
}

}  // namespace forebay::store
