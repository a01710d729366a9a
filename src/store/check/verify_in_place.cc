// verify() for data in place, whose files are not Forebay's own: decodes every image.
#include <algorithm>
#include <deque>

#include "base/mutex.h"
#include "image/codec/decode.h"
#include "io/share_work.h"
#include "store/check/verify_chunk.h"
#include "store/in_place_dataset.h"
#include "store/source/index_file.h"

namespace forebay::store {

using base::Code;

namespace {

constexpr uint32_t kFilesATime = 32;  // for a folder, in which each chunk is a single image

class Verification {
 public:
  Verification(const Dataset& dataset, const VerifyOptions& options)
      : dataset_(dataset), options_(options) {}

  Result<VerifyReport> run() {
    const size_t threads =
        std::min<size_t>(io::threads_for(options_.threads), dataset_.chunk_count());
    std::deque<Worker> workers(threads);
    const uint64_t step = dataset_.chunk_count() == dataset_.sample_count() ? kFilesATime : 1;
    const auto check = [&](uint64_t begin, uint64_t end, size_t thread) -> Status {
      for (uint64_t i = begin; i < end; ++i) {
        RETURN_IF_ERROR(check_chunk(static_cast<uint32_t>(i), &workers[thread]));
      }
      take(std::exchange(workers[thread].found, {}));
      return {};
    };
    RETURN_IF_ERROR(io::share_work(dataset_.chunk_count(), step, threads, check));
    base::MutexLock lock(mutex_);
    std::ranges::sort(report_.damages, {},
                      [](const Damage& damage) { return std::pair(damage.chunk, damage.offset); });
    return std::move(report_);
  }

 private:
  // The state of one thread.
  struct Worker {
    image::ImageDecoder decoder;
    base::Pixels pixels;
    base::ByteVector image;
    VerifyReport found;
  };

  Status check_chunk(uint32_t number, Worker* worker) {
    ++worker->found.chunks;
    const ChunkInfo& info = dataset_.chunk(number);
    const std::string path = dataset_.chunk_label(number);
    const auto add = [&](std::string key, int64_t offset, const Status& why) {
      if (io::is_unanswered(why.code())) return why;
      worker->found.damages.push_back({path, number, std::move(key), offset, why.message()});
      return Status();
    };
    const auto file = dataset_.open_chunk(number);
    if (!file) return add({}, -1, file.error());
    for (uint64_t i = info.first_sample; i < info.first_sample + info.samples; ++i) {
      const Location location = dataset_.location(i);
      const Status status = check_image(**file, location, worker);
      if (!status.ok()) {
        RETURN_IF_ERROR(
            add(dataset_.key(i).value_or("?"), static_cast<int64_t>(location.offset), status));
      }
      ++worker->found.samples;
      worker->found.bytes += location.length;
    }
    return {};
  }

  Status check_image(const io::ReadableFile& file, const Location& location, Worker* worker) const {
    RETURN_IF_ERROR(check_length(location));
    RETURN_IF_ERROR(check_inside(file, location.offset, location.length));
    worker->image.resize(location.length);
    RETURN_IF_ERROR(file.read(location.offset, worker->image));
    RETURN_IF_ERROR(check_file(worker->image, location));
    ++worker->found.images_decoded;
    return worker->decoder.decode(worker->image, std::nullopt, &worker->pixels);
  }

  void take(VerifyReport found) {
    base::MutexLock lock(mutex_);
    report_.chunks += found.chunks;
    report_.samples += found.samples;
    report_.bytes += found.bytes;
    report_.images_decoded += found.images_decoded;
    std::ranges::move(found.damages, std::back_inserter(report_.damages));
    if (options_.progress) options_.progress(report_.chunks, dataset_.chunk_count());
  }

  const Dataset& dataset_;
  const VerifyOptions& options_;
  base::Mutex mutex_;
  VerifyReport report_ GUARDED_BY(mutex_);
};

// Adds the damage that was found during listing.
void add_damages(const ResolvedSource& places, const IndexRemarks& remarks,
                 std::vector<Damage>* out) {
  for (const Remark& shard : remarks.bad_shards) {
    const std::string& reason = shard.reason;
    const std::string prefix = shard.path + ": ";
    out->push_back({shard.path,
                    -1,
                    {},
                    -1,
                    reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason});
  }
  for (const Remark& refused : remarks.refused) {
    if (places.kind == SourceKind::kFolder) {
      out->push_back({io::join_path(places.folder, refused.path), -1, {}, -1, refused.reason});
    } else {
      out->push_back({places.source(), -1, refused.path, -1, refused.reason});
    }
  }
}

void add_notes(const IndexRemarks& remarks, std::vector<std::string>* out) {
  for (const auto* list : {&remarks.left_out, &remarks.hidden, &remarks.remarks}) {
    for (const Remark& remark : *list) out->push_back(remark.path + ": " + remark.reason);
  }
  if (remarks.ignored > 0) {
    out->push_back(fmt::format("not checked, because the name is not that of an image: {}",
                               base::counted(remarks.ignored, "file")));
  }
}

Result<VerifyReport> verify_places(const io::Origin& origin, const std::string& source,
                                   const VerifyOptions& options) {
  ASSIGN_OR_RETURN(const ResolvedSource places, resolve_source(origin, source));
  // The source is listed even if there is an index, because the index does not name all samples
  // that it leaves out.
  IndexRemarks remarks;
  ASSIGN_OR_RETURN(InPlaceIndex index, make_index(origin, places, OnBadShard::kNote, &remarks));
  auto stored = read_index(origin, places);
  const bool is_stored = stored.has_value();
  if (!is_stored && io::is_unanswered(stored.error().code())) return tl::unexpected(stored.error());
  if (is_stored) index = std::move(*stored);
  VerifyReport report;
  if (!index.samples.empty()) {
    const auto dataset = make_in_place(origin, std::move(index), is_stored, source, places);
    ASSIGN_OR_RETURN(report, Verification(*dataset, options).run());
    add_note(note_of_missing_classes(*dataset), &report);
  }
  add_damages(places, remarks, &report.damages);
  add_notes(remarks, &report.notes);
  if (!is_stored && stored.error().code() != Code::kNotFound) {
    report.notes.push_back(fmt::format(
        "{}; so neither the index nor its checksums were used: run `forebay index {}` again",
        stored.error().message(), source));
  }
  return report;
}

}  // namespace

Result<VerifyReport> verify_in_place(const io::Origin& origin, const std::string& source,
                                     const VerifyOptions& options) {
  auto report = verify_places(origin, source, options);
  if (!report) return tl::unexpected(report.error().at("verify"));
  return report;
}

}  // namespace forebay::store
