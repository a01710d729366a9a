#include "store/pack/annotations.h"

#include <istream>
#include <streambuf>
#include <unordered_map>

#include "base/limits.h"
#include "store/pack/check_annotation.h"
#include "store/pack/json_guard.h"
#include "store/source/image_names.h"

namespace forebay::store {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

// Feeds a file to the parser block by block, and hashes it.
class FileBlocks : public std::streambuf {
 public:
  explicit FileBlocks(const io::ReadableFile& file) : file_(file) {}

  const Status& status() const { return status_; }
  base::Sha256 finish() { return hash_.finish(); }

 private:
  static constexpr uint64_t kBlockBytes = 4 << 20;

  int_type underflow() override {
    const uint64_t left = file_.identity().size - at_;
    if (left == 0 || !status_.ok()) return traits_type::eof();
    block_.resize(std::min(left, kBlockBytes));
    status_ = file_.read(at_, block_);
    if (!status_.ok()) return traits_type::eof();
    hash_.add(block_);
    at_ += block_.size();
    auto* const first = reinterpret_cast<char*>(block_.data());
    setg(first, first, first + block_.size());
    return traits_type::to_int_type(*first);
  }

  const io::ReadableFile& file_;
  uint64_t at_ = 0;
  base::ByteVector block_;
  base::Sha256Stream hash_;
  Status status_;
};

// Divides the entries of the file's lists by image, one entry after the other, as the parser
// completes them.
class Divider {
 public:
  // For nlohmann's parser; returns whether the value is kept in memory.
  bool on_event(int depth, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth <= base::kAnnotationDepthMax) return error_.ok();
      note(fail(Code::kTooBig, "more than {} nested lists or objects", base::kAnnotationDepthMax));
      return false;
    }
    if (event == json::parse_event_t::key) {
      if (depth == 1) list_ = value.get<std::string>();
      return true;
    }
    if (depth == 1) note(end_list(event, value));
    const bool is_entry = depth == 2;
    if (is_entry && error_.ok()) note(take(value));
    return !is_entry && error_.ok();
  }

  Result<Annotations> finish() {
    RETURN_IF_ERROR(error_);
    if (!has_images_) {
      return fail(Code::kInvalid, "it has no list \"images\", so it is not in COCO's format");
    }
    std::erase_if(out_.images, [&](const AnnotatedImage& image) {
      if (image.entry.empty()) out_.without_image += image.annotation_count;
      return image.entry.empty();
    });
    for (const AnnotatedImage& image : out_.images) RETURN_IF_ERROR(check_runs(image));
    return std::move(out_);
  }

 private:
  void note(const Status& status) {
    if (error_.ok()) error_ = status;
  }

  Status end_list(json::parse_event_t event, const json& value) {
    const bool is_list = event == json::parse_event_t::array_end;
    if (is_list && list_ == "images") has_images_ = true;
    if (is_list || list_ != "annotations") return {};
    return fail(Code::kInvalid, "annotations is {}, but must be a list", shown(value));
  }

  Status take(const json& entry) {
    const uint64_t place = places_[list_]++;
    if (list_ == "images") return take_image(entry, place);
    if (list_ == "annotations") return take_annotation(entry, place);
    if (list_ != "categories" || !entry.is_object()) return {};
    const auto id = whole_of("id", entry.value("id", json()));
    if (id) out_.categories[*id] = entry.dump();
    return {};
  }

  static image::Size size_of(const json& entry) {
    const auto width = whole_of("width", entry.value("width", json()));
    const auto height = whole_of("height", entry.value("height", json()));
    const auto is_side = [](const auto& side) { return side && *side > 0 && *side <= INT32_MAX; };
    if (!is_side(width) || !is_side(height)) return {};
    return {static_cast<uint32_t>(*width), static_cast<uint32_t>(*height)};
  }

  // Returns the image with an id. Adds it if needed, because annotations may come before the
  // images.
  AnnotatedImage& image(int64_t id) {
    const auto [found, is_new] = numbers_.try_emplace(id, out_.images.size());
    if (is_new) out_.images.emplace_back().id = id;
    return out_.images[found->second];
  }

  Status take_image(const json& entry, uint64_t place) {
    if (!entry.is_object() || !entry.contains("id") || !entry.contains("file_name")) {
      return fail(Code::kInvalid, "image {} has no id or no file_name", place);
    }
    ASSIGN_OR_RETURN(const int64_t id, whole_of(fmt::format("image {}: id", place), entry["id"]));
    const json& name = entry["file_name"];
    if (!name.is_string() || !ImageNames::is_file_name(name.get_ref<const std::string&>())) {
      return fail(Code::kInvalid, "image {}: file_name is {}", id, shown(name));
    }
    AnnotatedImage& to = image(id);
    if (!to.entry.empty()) return fail(Code::kInvalid, "image {} comes more than once", id);
    to.file_name = name.get<std::string>();
    to.size = size_of(entry);
    to.entry = entry.dump();
    return {};
  }

  Status take_annotation(const json& entry, uint64_t place) {
    if (!entry.is_object() || !entry.contains("image_id")) {
      return fail(Code::kInvalid, "annotation {} has no image_id", place);
    }
    ASSIGN_OR_RETURN(const int64_t id, whole_of(fmt::format("annotation {}: image_id",
                                                            shown(entry.value("id", json()))),
                                                entry["image_id"]));
    RETURN_IF_ERROR(check_annotation(entry));
    AnnotatedImage& to = image(id);
    RETURN_IF_ERROR(note_runs(entry, &to));
    if (to.annotation_count++ > 0) to.annotations += ',';
    to.annotations += entry.dump();
    if (entry.contains("category_id")) {
      const auto category = whole_of("category_id", entry["category_id"]);
      if (category) to.categories.insert(*category);
    }
    return {};
  }

  // Notes what size the run-lengths of an image say that it has, which must be the same for all.
  static Status note_runs(const json& entry, AnnotatedImage* to) {
    ASSIGN_OR_RETURN(const auto size, size_of_runs(value_or(entry, "segmentation", {})));
    if (!size) return {};
    if (to->runs_size == image::Size{}) to->runs_size = *size;
    if (to->runs_size == *size) return {};
    return fail(Code::kInvalid,
                "annotation {}: its run-lengths are for an image of {} x {} pixels, but others of "
                "image {} for {} x {}",
                shown(entry.value("id", json())), size->width, size->height, to->id,
                to->runs_size.width, to->runs_size.height);
  }

  static Status check_runs(const AnnotatedImage& image) {
    if (image.size == image::Size{} || image.runs_size == image::Size{} ||
        image.size == image.runs_size) {
      return {};
    }
    return fail(Code::kInvalid,
                "image {} ({}): it has {} x {} pixels, but its run-lengths are for {} x {} "
                "(segmentation.size is height, width)",
                image.id, image.file_name, image.size.width, image.size.height,
                image.runs_size.width, image.runs_size.height);
  }

  Annotations out_;
  Status error_;
  std::string list_;  // the name of the list that is being read
  bool has_images_ = false;
  std::map<std::string, uint64_t> places_;  // the number of entries taken of each list
  std::unordered_map<int64_t, size_t> numbers_;
};

Result<Annotations> divide(const io::ReadableFile& file) {
  FileBlocks blocks(file);
  std::istream stream(&blocks);
  Divider divider;
  const auto each = [&](int depth, json::parse_event_t event, json& value) {
    return divider.on_event(depth, event, value);
  };
  const auto parsed = guarded<bool>([&] { return json::parse(stream, each).is_object(); });
  RETURN_IF_ERROR(blocks.status());
  if (!parsed) return fail(Code::kInvalid, "{}", parsed.error().message());
  ASSIGN_OR_RETURN(Annotations out, divider.finish());
  out.hash = blocks.finish();
  return out;
}

}  // namespace

std::string Annotations::document(const AnnotatedImage& image) const {
  std::string of_image;
  for (const int64_t id : image.categories) {
    const auto found = categories.find(id);
    if (found == categories.end()) continue;
    if (!of_image.empty()) of_image += ',';
    of_image += found->second;
  }
  return fmt::format(R"({{"images":[{}],"annotations":[{}],"categories":[{}]}})", image.entry,
                     image.annotations, of_image);
}

Result<Annotations> read_annotations(const io::Origin& origin, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, origin.open(path));
  const uint64_t bytes = file->identity().size;
  if (bytes > base::kAnnotationsBytesMax) {
    return fail(Code::kTooBig, "{}: {} bytes, more than {}", path, bytes,
                base::kAnnotationsBytesMax);
  }
  auto out = divide(*file);
  if (!out) return tl::unexpected(out.error().at(path));
  return out;
}

}  // namespace forebay::store
