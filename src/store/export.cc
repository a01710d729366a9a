#include "store/export.h"

#include "io/blocking_file.h"
#include "store/source/source.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

// Paths come from the dataset, and so from anyone. An absolute path, "..", and an empty component
// are refused.
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

class Exporter {
 public:
  Exporter(io::FileSystem& fs, const Dataset& dataset, std::string folder,
           const ExportOptions& options)
      : fs_(fs), dataset_(dataset), folder_(std::move(folder)), options_(options) {}

  Result<ExportReport> run() {
    for (uint32_t number = 0; number < dataset_.chunk_count(); ++number) {
      RETURN_IF_ERROR(or_lost(write_chunk(number)));
    }
    return report_;
  }

 private:
  // Damage costs what it hit and no more.
  Status or_lost(const Status& status) {
    if (status.code() != Code::kCorrupt && status.code() != Code::kNotFound) return status;
    report_.lost.push_back(status.message());
    return {};
  }

  Status write_chunk(uint32_t number) {
    ASSIGN_OR_RETURN(const ChunkIndex index, dataset_.read_chunk_index(number));
    ASSIGN_OR_RETURN(const auto chunk, dataset_.open_chunk(number));
    if (!dataset_.is_remote(number)) return write_samples(*chunk, index);
    // One request for the chunk takes much less time than one for each of its files.
    loaded_.resize(dataset_.chunk(number).bytes);
    RETURN_IF_ERROR(chunk->read(0, loaded_));
    return write_samples(io::LoadedFile(chunk->path(), loaded_), index);
  }

  Status write_samples(const io::ReadableFile& chunk, const ChunkIndex& index) {
    for (const IndexedSample& sample : index.samples) {
      RETURN_IF_ERROR(write_sample(chunk, index.schema, sample));
    }
    return {};
  }

  Status write_sample(const io::ReadableFile& chunk, const Schema& schema,
                      const IndexedSample& sample) {
    const StoredFile* image = image_file(schema, sample);
    if (image == nullptr) {
      return fail(Code::kCorrupt, "{}: sample \"{}\" has no image", chunk.path(), sample.key);
    }
    std::string path = sample.source_path;
    // Source paths of shards need not begin with the class.
    if (const int64_t label = class_of(schema, sample); label >= 0) {
      const std::string folder = folder_of_class(schema, label);
      if (schema.classes.empty() || !path.starts_with(folder)) path = folder + path;
    }
    RETURN_IF_ERROR(check_path(path).at(chunk.path()));
    RETURN_IF_ERROR(write_file(chunk, *image, path));
    if (!options_.all_fields) return {};
    const std::string stem = path.substr(0, path.size() - file_extension(path).size());
    for (const StoredFile& file : sample.files) {
      if (&file == image) continue;
      RETURN_IF_ERROR(write_file(chunk, file, stem + file.suffix));
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

  static std::string_view file_extension(std::string_view path) {
    return split_extension(path).second;
  }

  Status write_scalar(const Field& field, const ScalarValue& scalar, const std::string& stem) {
    if (const auto* text = std::get_if<std::string>(&scalar.value)) {
      const std::string suffix = field.kind == FieldKind::kText ? "txt" : "json";
      return write(stem + suffix, base::as_bytes(*text));
    }
    const std::string number = std::to_string(std::get<int64_t>(scalar.value));
    return write(stem + "cls", base::as_bytes(number));
  }

  Status write_file(const io::ReadableFile& chunk, const StoredFile& file,
                    const std::string& path) {
    ByteVector data(file.length);
    Status status = chunk.read(file.offset, data);
    if (status.ok() && base::crc32c(data) != file.crc32c) {
      status = fail(Code::kCorrupt, "{}: byte {}: its checksum does not match", chunk.path(),
                    file.offset);
    }
    if (!status.ok()) return or_lost(status.at(path));
    return write(path, data);
  }

  // Each file appears whole or not at all, so a kill leaves no half file that looks whole.
  Status write(const std::string& path, Bytes data) {
    RETURN_IF_ERROR(check_path(path));
    const std::string target = io::join_path(folder_, path);
    const Status status = fs_.put(target, data, {.when = io::PutIf::kAbsent, .durable = false});
    if (status.code() == Code::kExists && fs_.stat(target)) {
      return fail(Code::kExists, "two samples have the source path {}", path);
    }
    RETURN_IF_ERROR(status);
    ++report_.files;
    report_.bytes += data.size();
    return {};
  }

  io::FileSystem& fs_;
  const Dataset& dataset_;
  const std::string folder_;
  const ExportOptions& options_;
  ByteVector loaded_;  // the current chunk, where it comes over a network
  ExportReport report_;
};

}  // namespace

Result<ExportReport> export_dataset(io::FileSystem& fs, const std::string& path,
                                    const std::string& folder, const ExportOptions& options) {
  ASSIGN_OR_RETURN(const auto dataset, open_packed(fs, path));
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(fs, folder));
  // A link in a folder that is there already could lead anywhere.
  if (!entries.empty()) {
    return fail(Code::kExists, "{} is not empty; choose an empty or a new folder", folder);
  }
  Exporter exporter(fs, *dataset, folder, options);
  auto report = exporter.run();
  if (!report) return tl::unexpected(report.error().at("export"));
  return report;
}

}  // namespace forebay::store
