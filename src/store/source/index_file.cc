#include "store/source/index_file.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "io/share_work.h"
#include "store/format/snapshot.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

constexpr size_t kNameBytes = 255;  // the longest name of a file

// Refuses the samples whose class cannot be read.
void drop_bad_classes(Listing* listing) {
  std::vector<SourceSample> kept;
  kept.reserve(listing->samples.size());
  auto bad = listing->bad_classes.begin();
  for (size_t i = 0; i < listing->samples.size(); ++i) {
    SourceSample& sample = listing->samples[i];
    if (bad == listing->bad_classes.end() || bad->sample != i) {
      kept.push_back(std::move(sample));
      continue;
    }
    listing->refused.push_back({sample.source_path, bad->reason});
    ++bad;
  }
  listing->samples = std::move(kept);
  listing->bad_classes.clear();
}

// Equal data has an equal fingerprint, wherever it is stored, and whether it was indexed or listed.
base::Sha256 fingerprint_of(const Listing& listing) {
  base::Sha256Stream fingerprint;
  ByteVector lines;
  base::ByteWriter writer(&lines);
  const auto flush = [&](size_t keep) {
    if (lines.size() <= keep) return;
    fingerprint.add(lines);
    lines.clear();
  };
  for (const SourceShard& shard : listing.shards) writer.number(shard.bytes);
  for (const SourceSample& sample : listing.samples) {
    const SourceFile& image = sample.files[0];
    writer.sized(sample.key);
    writer.number(sample.label);
    writer.number(image.length);
    if (listing.kind == SourceKind::kWebDataset) {
      writer.number(image.shard);
      writer.number(image.offset);
    }
    flush(64 << 10);
  }
  flush(0);
  return fingerprint.finish();
}

void append_notes(const Listing& listing, std::vector<std::string>* notes) {
  const auto note = [&](const std::vector<Remark>& remarks, std::string_view what) {
    if (remarks.empty()) return;
    std::string text = fmt::format("{}: {}; the first, {}: {}; `forebay index` lists them", what,
                                   remarks.size(), remarks[0].path, remarks[0].reason);
    text.resize(std::min(text.size(), base::kInPlaceNoteBytesMax));
    notes->push_back(std::move(text));
  };
  note(listing.refused, "samples or files that are left out");
  // One remark for each reason.
  for (const auto* list : {&listing.left_out, &listing.hidden}) {
    for (const Remark& remark : *list) {
      std::string text = fmt::format("left out: {}: {}", remark.path, remark.reason);
      text.resize(std::min(text.size(), base::kInPlaceNoteBytesMax));
      notes->push_back(std::move(text));
    }
  }
  note(listing.remarks, "shards that may lack samples");
  if (listing.has_classes_of_shards) notes->emplace_back(kClassesOfShards);
}

}  // namespace

std::string index_path(const ResolvedSource& places) {
  std::string file(kOwnFilePrefix);
  for (const char c : places.name) {
    file += c == '/' ? "%2F" : c == '%' ? "%25" : std::string(1, c);
  }
  file += places.name.empty() ? "index" : ".index";
  // File systems take no longer names.
  if (file.size() > kNameBytes) {
    file = std::string(kOwnFilePrefix) + base::to_hex(base::sha256(base::as_bytes(places.name))) +
           ".index";
  }
  return io::join_path(places.folder, file);
}

InPlaceIndex index_of(const ResolvedSource& places, const Listing& listing) {
  InPlaceIndex index;
  index.kind = listing.kind;
  index.schema = listing.schema;
  index.fingerprint = fingerprint_of(listing);
  index.folders = listing.folders;
  append_notes(listing, &index.notes);
  for (const SourceShard& shard : listing.shards) {
    index.shards.push_back(
        {.path = places.below(shard.path), .bytes = shard.bytes, .modified_ns = shard.modified_ns});
  }
  index.samples.reserve(listing.samples.size());
  for (const SourceSample& sample : listing.samples) {
    const SourceFile& image = sample.files[0];
    index.add(sample.key, sample.source_path,
              {.offset = image.offset,
               .length = static_cast<uint32_t>(std::min<uint64_t>(image.length, UINT32_MAX)),
               .label = static_cast<int32_t>(sample.label)});
    if (!index.shards.empty()) ++index.shards[image.shard].samples;
  }
  return index;
}

Result<InPlaceIndex> make_index(const io::Origin& origin, const ResolvedSource& places,
                                OnBadShard on_bad_shard, IndexRemarks* remarks) {
  ASSIGN_OR_RETURN(
      Listing listing,
      list_places(origin, places, {.on_bad_shard = on_bad_shard, .read_classes = true}));
  if (!listing.bad_classes.empty()) drop_bad_classes(&listing);
  if (listing.samples.size() > UINT32_MAX) {
    return fail(Code::kTooBig, "{}: {} images, more than {}; pack them", places.source(),
                listing.samples.size(), UINT32_MAX);
  }
  if (listing.samples.empty() && on_bad_shard == OnBadShard::kFail) {
    return fail(Code::kInvalid, "{}: no sample whose class can be read; the first, {}: {}",
                places.source(), listing.refused[0].path, listing.refused[0].reason);
  }
  InPlaceIndex index = index_of(places, listing);
  *remarks = {.refused = std::move(listing.refused),
              .remarks = std::move(listing.remarks),
              .left_out = std::move(listing.left_out),
              .hidden = std::move(listing.hidden),
              .bad_shards = std::move(listing.bad_shards),
              .ignored = listing.ignored};
  return index;
}

namespace {

// Returns the first class's folder that was added or removed, with a verb; empty if there is none.
// Names are compared, because writing an index changes the time of the data's own folder.
std::string changed_class(const ResolvedSource& places, const InPlaceIndex& index) {
  if (index.kind != SourceKind::kFolder) return {};
  const auto& then = index.schema.classes;
  const auto [was, is] = std::ranges::mismatch(then, places.classes);
  const auto at = [&](const std::string& name) { return io::join_path(places.folder, name); };
  if (is != places.classes.end() && (was == then.end() || *is < *was))
    return at(*is) + " was added";
  return was == then.end() ? std::string() : at(*was) + " was removed";
}

// Returns the first shard that was added, removed or written to, with a verb; empty if there is
// none. A server is asked about many shards at the same time.
Result<std::string> changed_shard(const io::Origin& origin, const ResolvedSource& places,
                                  const InPlaceIndex& index) {
  constexpr size_t kQuestionsAtOnce = 16;
  const auto& then = index.shards;
  const auto& now = places.shards;
  std::vector<uint8_t> is_changed(std::min(then.size(), now.size()));
  const auto ask = [&](uint64_t i, uint64_t, size_t) -> Status {
    if (then[i].path != places.below(now[i])) return {};  // reported below
    ASSIGN_OR_RETURN(const io::FileInfo info, origin.stat(now[i]));
    is_changed[i] = info.size != then[i].bytes || info.modified_ns != then[i].modified_ns ? 1 : 0;
    return {};
  };
  const size_t threads = origin.is_remote(places.source()) ? kQuestionsAtOnce : 1;
  RETURN_IF_ERROR(io::share_work(is_changed.size(), 1, threads, ask));
  for (size_t i = 0; i < std::max(then.size(), now.size()); ++i) {
    if (i >= now.size()) return "the shard " + then[i].path + " was removed";
    if (i >= then.size() || then[i].path != places.below(now[i])) {
      return "the list of shards changed at " + now[i];
    }
    if (is_changed[i] != 0) return now[i] + " was written to";
  }
  return std::string();
}

// Describes the first change since the data was indexed; empty if there is none.
Result<std::string> what_changed(const io::Origin& origin, const ResolvedSource& places,
                                 const InPlaceIndex& index) {
  if (index.kind != places.kind) return "the kind of data changed";
  if (const std::string changed = changed_class(places, index); !changed.empty()) return changed;
  for (const SourceFolder& folder : index.folders) {
    const std::string path = io::join_path(places.folder, folder.path);
    if (origin.is_remote(path)) continue;  // it has no time of change; write_index() warned of this
    const auto info = origin.stat(path);
    if (!info && info.error().code() == Code::kNotFound) return path + " was removed";
    RETURN_IF_ERROR(info);
    if (info->modified_ns != folder.modified_ns) {
      return "files were added to or removed from " + path;
    }
  }
  return changed_shard(origin, places, index);
}

}  // namespace

Result<InPlaceIndex> read_index(const io::Origin& origin, const ResolvedSource& places) {
  const std::string path = index_path(places);
  ASSIGN_OR_RETURN(const ByteVector data, origin.read_whole(path, base::kInPlaceIndexBytesMax));
  auto index = decode_in_place_index(data);
  if (!index) return tl::unexpected(index.error().at(path));
  ASSIGN_OR_RETURN(const std::string changed, what_changed(origin, places, *index));
  if (changed.empty()) return index;
  return fail(Code::kInvalid, "{}: {} since it was made", path, changed);
}

namespace {

// Fills in the images' checksums, some images at a time.
class Checksummer {
 public:
  Checksummer(const io::Origin& origin, const ResolvedSource& places, const IndexOptions& options,
              InPlaceIndex* index)
      : origin_(origin), places_(places), options_(options), index_(*index) {
    uint64_t first = 0;
    for (const InPlaceShard& shard : index_.shards) firsts_.push_back(first += shard.samples);
  }

  Status run() {
    const size_t threads =
        origin_.is_remote(places_.source()) ? kReadsAtOnce : io::threads_for(options_.threads);
    return io::share_work(
        index_.samples.size(), kImagesATime, threads,
        [this](uint64_t begin, uint64_t end, size_t) { return add_images(begin, end); });
  }

 private:
  static constexpr uint64_t kImagesATime = 64;
  static constexpr size_t kReadsAtOnce = 32;  // for remote data

  Status add_images(uint64_t begin, uint64_t end) {
    ByteVector image;
    std::unique_ptr<io::ReadableFile> file;
    size_t shard = 0;
    for (uint64_t i = begin; i < end; ++i) {
      if (index_.kind == SourceKind::kFolder) {
        ASSIGN_OR_RETURN(file, open_image(i));
      } else if (file == nullptr || i >= firsts_[shard]) {
        shard = static_cast<size_t>(std::ranges::upper_bound(firsts_, i) - firsts_.begin());
        const InPlaceShard& listed = index_.shards[shard];
        const io::Identity known{.size = listed.bytes, .modified_ns = listed.modified_ns};
        ASSIGN_OR_RETURN(file, origin_.open(places_.shards[shard], {.known = known}));
      }
      RETURN_IF_ERROR(add(*file, i, &image));
    }
    count(end - begin);
    return {};
  }

  Result<std::unique_ptr<io::ReadableFile>> open_image(uint64_t number) {
    const uint64_t length = index_.samples[number].length;
    io::OpenOptions options;
    if (length < UINT32_MAX) options.known = io::Identity{.size = length};
    ASSIGN_OR_RETURN(auto file,
                     origin_.open(io::join_path(places_.folder, index_.path(number)), options));
    if (std::min<uint64_t>(file->identity().size, UINT32_MAX) != length) {
      return fail(Code::kInvalid, "{}: its size changed while it was indexed; index again",
                  file->path());
    }
    return file;
  }

  Status add(const io::ReadableFile& file, uint64_t number, ByteVector* image) {
    InPlaceSample& sample = index_.samples[number];
    if (sample.length > base::kImageBytesMax) return {};  // never read
    image->resize(sample.length);
    RETURN_IF_ERROR(file.read(sample.offset, *image));
    sample.crc32c = base::crc32c(*image);
    return {};
  }

  void count(uint64_t samples) {
    base::MutexLock lock(mutex_);
    done_ += samples;
    if (options_.progress) options_.progress(done_, index_.samples.size());
  }

  const io::Origin& origin_;
  const ResolvedSource& places_;
  const IndexOptions& options_;
  InPlaceIndex& index_;
  std::vector<uint64_t> firsts_;  // the first sample after each shard's own
  base::Mutex mutex_;
  uint64_t done_ GUARDED_BY(mutex_) = 0;
};

Result<IndexReport> write_locked(io::FileSystem& fs, const ResolvedSource& places,
                                 const IndexOptions& options) {
  if (places.kind == SourceKind::kFolder && places.classes.empty()) {
    return fail(
        Code::kUnsupported,
        "{}: an index is for folders by class and for shards; images that lie in the folder "
        "itself are listed at each opening",
        places.folder);
  }
  IndexReport report;
  report.path = index_path(places);
  IndexRemarks remarks;
  ASSIGN_OR_RETURN(InPlaceIndex index, make_index(fs, places, OnBadShard::kFail, &remarks));
  for (auto* list : {&remarks.refused, &remarks.left_out, &remarks.hidden, &remarks.remarks}) {
    std::ranges::move(*list, std::back_inserter(report.remarks));
  }
  if (places.kind == SourceKind::kFolder && fs.is_remote(places.folder)) {
    report.remarks.push_back(
        {places.folder,
         "an object store does not record when its folders change, so files that are added or "
         "removed later are not noticed; run `forebay index` again then"});
  }
  if (options.checksums) {
    index.has_checksums = true;
    RETURN_IF_ERROR(Checksummer(fs, places, options, &index).run());
  }
  const ByteVector data = encode_in_place_index(index);
  if (data.size() > base::kInPlaceIndexBytesMax) {
    return fail(Code::kTooBig, "an index of {}, more than {}; pack the data",
                base::human_bytes(data.size()), base::human_bytes(base::kInPlaceIndexBytesMax));
  }
  // A change after a folder was listed, but before the index is stored, would never be noticed
  // later.
  ASSIGN_OR_RETURN(const std::string changed, what_changed(fs, places, index));
  if (!changed.empty()) {
    return fail(Code::kInvalid, "{} while it was indexed; run the same command when it is complete",
                changed);
  }
  RETURN_IF_ERROR(fs.put(report.path, data));
  report.samples = index.samples.size();
  report.files = places.kind == SourceKind::kFolder ? report.samples : index.shards.size();
  for (const InPlaceSample& sample : index.samples) report.image_bytes += sample.length;
  report.index_bytes = data.size();
  return report;
}

}  // namespace

Result<IndexReport> write_index(io::FileSystem& fs, const std::string& source,
                                const IndexOptions& options) {
  const auto run = [&]() -> Result<IndexReport> {
    ASSIGN_OR_RETURN(const bool is_packed, io::exists(fs, head_path(source)));
    if (is_packed) {
      return fail(Code::kUnsupported, "{} is a packed dataset, which needs no other index", source);
    }
    ASSIGN_OR_RETURN(const ResolvedSource places, resolve_source(fs, source));
    const std::string lock_file = index_path(places) + ".lock";
    const auto lock = fs.lock(lock_file);
    if (!lock && lock.error().code() == Code::kIo) {
      return fail(Code::kIo,
                  "{}; the index is stored in the data's folder: run this where that folder can be "
                  "written (without an index the data is listed at each opening)",
                  lock.error().message());
    }
    RETURN_IF_ERROR(lock);
    auto report = write_locked(fs, places, options);
    // The data's folder should have no other new file than the index, but a lock file that cannot
    // be removed does no harm.
    if (*lock != nullptr) static_cast<void>(fs.remove(lock_file).ok());
    return report;
  };
  auto report = run();
  if (!report) return tl::unexpected(report.error().at("index"));
  return report;
}

}  // namespace forebay::store
