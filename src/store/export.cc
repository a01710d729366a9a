#include "store/export.h"

#include <array>
#include <map>

#include "base/mutex.h"
#include "io/ascii.h"
#include "io/blocking_file.h"
#include "io/share_work.h"
#include "store/source/source.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

// Paths come from the dataset, which may be hostile: an absolute path, "." or "..", and an empty
// component are refused.
Status check_path(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) {
    return fail(Code::kCorrupt, "a zero byte in a source path");
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return fail(Code::kCorrupt, "the source path \"{}\" leads out of the folder", path);
    }
    begin = end + 1;
  }
  return {};
}

// How many chunks are exported at the same time; each remote one is in memory as a whole.
constexpr size_t kChunksAtOnce = 2;
// How many files of a chunk are written at the same time to a server, which answers for each file.
constexpr size_t kSamplesAtOnce = 16;
constexpr uint64_t kLoadBytes = 8 << 20;  // a remote chunk is loaded in parallel reads of this size

constexpr std::string_view kMade = ".forebay-made";  // a temporary file; writing it makes a folder

class Exporter {
 public:
  Exporter(io::FileSystem& fs, const Dataset& dataset, std::string folder,
           const ExportOptions& options)
      : fs_(fs),
        dataset_(dataset),
        folder_(std::move(folder)),
        options_(options),
        samples_at_once_(fs.is_remote(folder_) ? kSamplesAtOnce : io::threads_for(0)) {}

  Result<ExportReport> run() {
    const auto write = [this](uint64_t number, uint64_t, size_t) {
      return or_lost(write_chunk(static_cast<uint32_t>(number)), {number, 0});
    };
    RETURN_IF_ERROR(io::share_work(dataset_.chunk_count(), 1, kChunksAtOnce, write));
    RETURN_IF_ERROR(make_empty_classes());
    base::MutexLock lock(mutex_);
    for (auto& [at, what] : lost_) report_.lost.push_back(std::move(what));
    return report_;
  }

 private:
  // With their empty folders, all classes keep their numbers when the folder is read again. Object
  // stores have no folders.
  Status make_empty_classes() {
    if (fs_.is_remote(folder_)) return {};
    for (const std::string& name : dataset_.schema().classes) {
      RETURN_IF_ERROR(check_path(name));
      const std::string path = io::join_path(folder_, name);
      if (fs_.stat(path)) continue;
      const std::string inside = io::join_path(path, kMade);
      RETURN_IF_ERROR(fs_.put(inside, {}, {.durable = false}));
      RETURN_IF_ERROR(fs_.remove(inside));
    }
    return {};
  }

  using SampleNumber =
      std::pair<uint64_t, uint64_t>;  // the numbers of a chunk and of a sample in it

  // Turns damage into an entry of the report's list, so that all other files are still exported.
  Status or_lost(const Status& status, const SampleNumber& at) EXCLUDES(mutex_) {
    if (status.code() != Code::kCorrupt && status.code() != Code::kNotFound) return status;
    base::MutexLock lock(mutex_);
    lost_.emplace(at, status.message());
    return {};
  }

  Status write_chunk(uint32_t number) {
    ASSIGN_OR_RETURN(const ChunkIndex index, dataset_.read_chunk_index(number));
    ASSIGN_OR_RETURN(const auto chunk, dataset_.open_chunk(number));
    if (!dataset_.is_remote(number)) return write_samples(number, *chunk, index);
    // A few requests for the whole chunk take much less time than one request for each of its
    // files.
    ByteVector loaded(dataset_.chunk(number).bytes);
    RETURN_IF_ERROR(load(*chunk, loaded));
    return write_samples(number, io::LoadedFile(chunk->path(), loaded), index);
  }

  static Status load(const io::ReadableFile& chunk, base::MutableBytes out) {
    const uint64_t count = (out.size() + kLoadBytes - 1) / kLoadBytes;
    const auto read = [&](uint64_t i, uint64_t, size_t) {
      const uint64_t at = i * kLoadBytes;
      return chunk.read(at, out.subspan(at, std::min(kLoadBytes, out.size() - at)));
    };
    return io::share_work(count, 1, count, read);
  }

  Status write_samples(uint64_t number, const io::ReadableFile& chunk, const ChunkIndex& index) {
    const auto write = [&](uint64_t i, uint64_t, size_t) {
      return write_sample(chunk, index.schema, index.samples[i], {number, i});
    };
    return io::share_work(index.samples.size(), 1, samples_at_once_, write);
  }

  Status write_sample(const io::ReadableFile& chunk, const Schema& schema,
                      const IndexedSample& sample, const SampleNumber& at) {
    if (options_.stop != nullptr && *options_.stop) {
      return fail(Code::kCancelled,
                  "stopped; {} is not complete: remove it, and run the command again", folder_);
    }
    const StoredFile* image = image_file(schema, sample);
    if (image == nullptr) {
      return fail(Code::kCorrupt, "{}: sample \"{}\" has no image", chunk.path(), sample.key);
    }
    std::string path = sample.source_path;
    // The source paths of tar shards need not begin with the class.
    if (const int64_t label = class_of(schema, sample); label >= 0) {
      const std::string folder = folder_of_class(schema, label);
      if (schema.classes.empty() || !path.starts_with(folder)) path = folder + path;
    }
    RETURN_IF_ERROR(check_path(path).at(chunk.path()));
    RETURN_IF_ERROR(write_file(chunk, *image, path + changed_extension(path, *image), at));
    if (!options_.all_fields) return {};
    const std::string stem = path.substr(0, path.size() - file_extension(path).size());
    for (const StoredFile& file : sample.files) {
      if (&file == image) continue;
      RETURN_IF_ERROR(write_file(chunk, file, stem + file.suffix, at));
    }
    for (const ScalarValue& scalar : sample.scalars) {
      RETURN_IF_ERROR(write_scalar(schema.fields[scalar.field], scalar, stem));
    }
    return {};
  }

  static std::string folder_of_class(const Schema& schema, int64_t label) {
    const auto number = static_cast<size_t>(label);
    return (number < schema.classes.size() ? schema.classes[number] : std::to_string(label)) + "/";
  }

  // Returns the new extension of an image that pack converted to another format, because the
  // source's extension would be wrong; empty for all other images. The caller appends it instead of
  // replacing the old one, because another sample may already have the resulting name.
  static std::string changed_extension(const std::string& path, const StoredFile& image) {
    return io::lower(file_extension(path)) == image.suffix ? "" : "." + image.suffix;
  }

  static std::string_view file_extension(std::string_view path) {
    return split_extension(path).second;
  }

  Status write_scalar(const Field& field, const ScalarValue& scalar, const std::string& stem) {
    if (const auto* text = std::get_if<std::string>(&scalar.value)) {
      const std::string suffix = field.kind == FieldKind::kText ? "txt" : field.name;
      return write(stem + suffix, base::as_bytes(*text));
    }
    const std::string number = std::to_string(std::get<int64_t>(scalar.value));
    return write(stem + "cls", base::as_bytes(number));
  }

  Status write_file(const io::ReadableFile& chunk, const StoredFile& file, const std::string& path,
                    const SampleNumber& at) {
    ByteVector data(file.length);
    Status status = chunk.read(file.offset, data);
    if (status.ok() && base::crc32c(data) != file.crc32c) {
      status = fail(Code::kCorrupt, "{}: byte {}: its checksum does not match", chunk.path(),
                    file.offset);
    }
    if (!status.ok()) return or_lost(status.at(path), at);
    return write(path, data);
  }

  // Each file appears whole or not at all, so a kill leaves no partial file. Two samples with the
  // same path must not be put at the same time, because a disk would not notice that both exist.
  Status write(const std::string& path, Bytes data) EXCLUDES(mutex_) {
    RETURN_IF_ERROR(check_path(path));
    const std::string target = io::join_path(folder_, path);
    base::MutexLock turn(turns_[std::hash<std::string>()(path) % turns_.size()]);
    const Status status = fs_.put(target, data, {.when = io::PutIf::kAbsent, .durable = false});
    if (status.code() == Code::kExists && fs_.stat(target)) {
      return fail(Code::kExists, "two samples have the source path {}", path);
    }
    RETURN_IF_ERROR(status);
    base::MutexLock lock(mutex_);
    ++report_.files;
    report_.bytes += data.size();
    return {};
  }

  io::FileSystem& fs_;
  const Dataset& dataset_;
  const std::string folder_;
  const ExportOptions& options_;
  const size_t samples_at_once_;
  std::array<base::Mutex, 64> turns_;  // by the hash of a path
  base::Mutex mutex_;
  ExportReport report_ GUARDED_BY(mutex_);
  std::multimap<SampleNumber, std::string> lost_ GUARDED_BY(mutex_);  // the report's, in order
};

}  // namespace

Result<ExportReport> export_dataset(const io::Origin& from, const std::string& path,
                                    io::FileSystem& to, const std::string& folder,
                                    const ExportOptions& options) {
  ASSIGN_OR_RETURN(const auto dataset, open_packed(from, path));
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(to, folder));
  // A link in a folder that is there already could lead anywhere.
  if (!entries.empty()) {
    return fail(Code::kExists, "{} is not empty; choose an empty or a new folder", folder);
  }
  Exporter exporter(to, *dataset, folder, options);
  auto report = exporter.run();
  if (!report) return tl::unexpected(report.error().at("export"));
  return report;
}

}  // namespace forebay::store
