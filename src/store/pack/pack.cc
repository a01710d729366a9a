#include "store/pack/pack.h"

#include "base/limits.h"
#include "io/share_work.h"
#include "store/dataset.h"
#include "store/format/snapshot.h"
#include "store/pack/beside.h"
#include "store/pack/journal.h"
#include "store/pack/pack_job.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

Status check_resize(const image::Shrink& resize) {
  constexpr uint32_t kBestQuality = 100;
  if (resize.short_side < 1 || resize.short_side > base::kImageSideMax) {
    return fail(Code::kInvalid,
                "--resize {}: the short side of resized images has 1 to {} pixels; without "
                "--resize images are stored in their own sizes",
                resize.short_side, base::kImageSideMax);
  }
  if (resize.quality < 1 || resize.quality > kBestQuality) {
    return fail(Code::kInvalid, "--quality {}: resized images are encoded with quality 1 to {}",
                resize.quality, kBestQuality);
  }
  return {};
}

Status check_options(const std::string& dataset, const PackOptions& options) {
  if (dataset.empty()) return fail(Code::kInvalid, "the dataset's name is empty");
  if (options.threads < 0 || options.threads > base::kThreadsMax) {
    return fail(Code::kInvalid, "{} threads, 0 to {} are possible", options.threads,
                base::kThreadsMax);
  }
  const uint64_t largest = base::kChunkBytesMax / 2;  // a rewritten file may be larger than it was
  if (options.chunk_bytes < base::kChunkBytesMin || options.chunk_bytes > largest) {
    return fail(Code::kInvalid, "chunks of {} bytes, {} to {} are possible", options.chunk_bytes,
                base::kChunkBytesMin, largest);
  }
  if (options.resize && !(options.annotations.empty() && options.masks.empty())) {
    return fail(Code::kInvalid,
                "--resize with --annotations or --masks: boxes and masks are made for images of "
                "their own sizes, and would not fit smaller ones; leave out --resize, and let the "
                "loader resize images, boxes and masks together");
  }
  return options.resize ? check_resize(*options.resize) : Status();
}

Result<Listing> list_with_targets(const io::Origin& from, const std::string& source,
                                  const PackOptions& options) {
  ASSIGN_OR_RETURN(Listing listing, list_source(from, source));
  if (listing.has_classes_of_shards) {
    listing.remarks.push_back({"classes", std::string(kClassesOfShards)});
  }
  if (!options.labels.file.empty()) RETURN_IF_ERROR(add_labels(from, options.labels, &listing));
  if (!options.annotations.empty()) {
    RETURN_IF_ERROR(add_annotations(from, options.annotations, &listing));
  }
  if (!options.masks.empty()) {
    RETURN_IF_ERROR(add_masks(from, options.masks, options.mask_names, &listing));
  }
  return listing;
}

// Checks that no chunk of a dataset is missing, before the dataset is reported as complete.
Status check_chunks_are_there(const io::Origin& origin, const std::string& dataset) {
  constexpr size_t kQuestionsAtOnce = 16;
  ASSIGN_OR_RETURN(const auto opened, open_packed(origin, dataset));
  const auto check = [&](uint64_t i, uint64_t, size_t) -> Status {
    const auto number = static_cast<uint32_t>(i);
    const std::string path = opened->chunk_label(number);
    const auto info = origin.stat(path);
    if (info && info->size == opened->chunk(number).bytes) return {};
    if (!info && info.error().code() != Code::kNotFound) return info.error();
    return fail(Code::kCorrupt,
                "{}: {}; `forebay verify` lists all damage; to make the dataset anew, remove {}",
                path, info ? "not as long as when it was written" : "missing", dataset);
  };
  const size_t threads = origin.is_remote(dataset) ? kQuestionsAtOnce : 1;
  return io::share_work(opened->chunk_count(), 1, threads, check);
}

// Returns the report of a complete dataset, if its identity is the same. kExists if it is another
// dataset.
Result<PackReport> report_of_complete(const io::Origin& origin, const std::string& dataset,
                                      const PackIdentity& identity) {
  const std::string head_file = head_path(dataset);
  ASSIGN_OR_RETURN(const auto head, origin.read_whole(head_file, base::kHeadBytesMax));
  const auto root = decode_head(base::as_text(head));
  if (!root) return tl::unexpected(root.error().at(head_file));
  const auto other = [&](const std::string& why) {
    return fail(Code::kExists, "{} holds a complete dataset already ({}); choose another folder",
                dataset, why);
  };
  ASSIGN_OR_RETURN(auto report, read_report(origin, dataset, *root));
  if (!report) return other("not packed by one command");
  if (report->identity != identity) return other(first_difference(report->identity, identity));
  RETURN_IF_ERROR(check_chunks_are_there(origin, dataset));
  report->root = *root;
  report->was_complete = true;
  return *std::move(report);
}

Status check_file_is_ours(const std::string& dataset, const std::string& name, bool is_ours) {
  if (is_ours) return {};
  return fail(Code::kExists, "{} holds other files ({}); choose an empty or a new folder", dataset,
              name);
}

// Checks a folder that has neither HEAD nor journal. It may hold only files that a pack makes
// before its journal. Chunks are made after the journal, so any chunks belong to a dataset that
// lost its HEAD, or are not Forebay's.
Status check_folder_is_free(const io::Origin& origin, const std::string& dataset) {
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(origin, dataset));
  for (const auto& entry : entries) {
    if (io::join_path(dataset, entry.name) == copy_mark_path(dataset)) {
      return fail(Code::kExists,
                  "{} holds a copy that is not complete; run the same `forebay cp` again to go on "
                  "with it, or choose another folder",
                  dataset);
    }
    if (entry.name != "chunks" && entry.name != "snapshots" && entry.name != "journal") {
      const bool is_ours = entry.name == "LOCK" || io::is_unfinished_put(entry.name);
      RETURN_IF_ERROR(check_file_is_ours(dataset, entry.name, is_ours));
      continue;
    }
    ASSIGN_OR_RETURN(const auto inside,
                     io::list_if_there(origin, io::join_path(dataset, entry.name)));
    for (const auto& file : inside) {
      if (entry.name == "journal") {
        RETURN_IF_ERROR(
            check_file_is_ours(dataset, "journal/" + file.name, Journal::is_early(file.name)));
        continue;
      }
      return fail(
          Code::kExists,
          "{}/{} is not empty, and there is neither a HEAD nor the journal of an unfinished pack: "
          "choose another folder; or, if this dataset lost its HEAD, write HEAD again: one line, "
          "\"forebay 0 <hash>\", with the hash of a file snapshots/<hash>.root",
          dataset, entry.name);
    }
  }
  return {};
}

// Whether the folder has a dataset, or the journal of an unfinished one.
Result<bool> is_ours(const io::Origin& origin, const std::string& dataset) {
  ASSIGN_OR_RETURN(const bool begun, Journal::exists(origin, dataset));
  if (begun) return true;
  return io::exists(origin, head_path(dataset));
}

Status check_place(const io::Origin& origin, const std::string& dataset) {
  ASSIGN_OR_RETURN(const bool was_ours, is_ours(origin, dataset));
  if (was_ours) return {};
  const Status is_free = check_folder_is_free(origin, dataset);
  if (is_free.ok()) return {};
  // Without locks, another run of the same pack may have begun in between.
  ASSIGN_OR_RETURN(const bool is_ours_now, is_ours(origin, dataset));
  return is_ours_now ? Status() : is_free;
}

// Checks that the dataset's folder is not inside its own source, where it would become a class, and
// that no shard of the source is in the dataset's folder, which pack cleans up.
Status check_is_outside(const io::Origin& from, const Listing& listing, const io::Origin& to,
                        const std::string& dataset) {
  const bool is_folder = listing.kind == SourceKind::kFolder;
  if (!io::are_comparable(from, is_folder ? listing.root : listing.shards[0].path, to, dataset)) {
    return {};
  }
  const auto is_inside = [](const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder == "/" ? folder : folder + "/");
  };
  const std::string target = to.canonical(dataset);
  if (is_folder && is_inside(target, from.canonical(listing.root))) {
    return fail(Code::kInvalid, "the dataset {} is inside its source {}; choose a folder beside it",
                dataset, listing.root);
  }
  for (const SourceShard& shard : listing.shards) {
    if (!is_inside(from.canonical(shard.path), target)) continue;
    return fail(Code::kInvalid, "the source {} is inside the dataset {}; choose another folder",
                shard.path, dataset);
  }
  return {};
}

Result<PackReport> pack_locked(const io::Origin& from, const Listing& listing, io::FileSystem& fs,
                               const std::string& dataset, const PackOptions& options,
                               bool is_alone) {
  const base::ByteVector encoded = encode_listing(listing);
  const PackIdentity identity{.listing = base::sha256(encoded),
                              .chunk_bytes = options.chunk_bytes,
                              .seed = options.seed,
                              .limit = options.limit,
                              .shuffled = options.shuffled,
                              .tar_fields = options.tar_fields,
                              .keep_damaged = options.keep_damaged,
                              .resize = options.resize,
                              .annotations = listing.annotations,
                              .masks = !options.masks.empty()};
  ASSIGN_OR_RETURN(const bool begun, Journal::exists(fs, dataset));
  ASSIGN_OR_RETURN(const bool has_head, io::exists(fs, head_path(dataset)));
  if (!begun && has_head) {
    ASSIGN_OR_RETURN(PackReport complete, report_of_complete(fs, dataset, identity));
    // A run that was killed at its very end may have left a part of its journal.
    RETURN_IF_ERROR(Journal::remove(fs, dataset));
    return complete;
  }
  PackPlan plan =
      make_plan(listing, options.chunk_bytes, options.shuffled, options.seed, options.limit);
  PackJob job(from, listing, fs, dataset, std::move(plan), identity, options, is_alone);
  const auto run = [&]() -> Result<PackReport> {
    RETURN_IF_ERROR(job.prepare(encoded));
    RETURN_IF_ERROR(job.make_chunks());
    return job.finish();
  };
  auto report = run();
  if (!report) return tl::unexpected(job.explain(report.error()));
  return report;
}

}  // namespace

Result<PackReport> pack(const io::Origin& from, const std::string& source, io::FileSystem& to,
                        const std::string& dataset, const PackOptions& options) {
  const auto run = [&]() -> Result<PackReport> {
    RETURN_IF_ERROR(check_options(dataset, options));
    ASSIGN_OR_RETURN(const Listing listing, list_with_targets(from, source, options));
    for (const auto* lost : {&listing.refused, &listing.left_out}) {
      if (options.on_error != OnError::kStop || lost->empty()) continue;
      return fail(Code::kCorrupt, "{}: {}; --on-error skip leaves it out", lost->front().path,
                  lost->front().reason);
    }
    RETURN_IF_ERROR(check_is_outside(from, listing, to, dataset));
    // This comes before the lock, so that no lock file is made in a folder that is not ours.
    RETURN_IF_ERROR(check_place(to, dataset));
    ASSIGN_OR_RETURN(const auto lock, to.lock(io::join_path(dataset, "LOCK")));
    return pack_locked(from, listing, to, dataset, options, lock != nullptr);
  };
  auto report = run();
  if (!report) return tl::unexpected(report.error().at("pack"));
  return report;
}

}  // namespace forebay::store
