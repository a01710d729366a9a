#include "store/pack/beside.h"

#include <algorithm>
#include <iterator>

#include "base/limits.h"
#include "store/format/schema_codec.h"
#include "store/format/target_fields.h"
#include "store/pack/annotations.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kAnnotationsOption = "--annotations";
constexpr std::string_view kMasksOption = "--masks";

bool has_field(const Listing& listing, std::string_view name) {
  return std::ranges::any_of(listing.schema.fields,
                             [&](const Field& field) { return field.name == name; });
}

Status check_absent(const Listing& listing, std::string_view field, std::string_view option) {
  if (!has_field(listing, field)) return {};
  return fail(Code::kExists,
              "samples of the source have .{} already; leave out {} to pack these files", field,
              option);
}

// Returns the number of the new field.
Result<uint16_t> add_field(std::string_view name, FieldKind kind, Listing* listing) {
  const auto number = static_cast<uint16_t>(listing->schema.fields.size());
  listing->schema.fields.push_back({std::string(name), kind});
  RETURN_IF_ERROR(check_schema(listing->schema));
  return number;
}

// Returns for each sample the number of its image, or kNoSample.
Result<std::vector<uint64_t>> match(const Annotations& annotations, Listing* listing) {
  if (annotations.images.empty()) return fail(Code::kInvalid, "its list \"images\" is empty");
  std::vector<std::string> file_names;
  for (const AnnotatedImage& image : annotations.images) file_names.push_back(image.file_name);
  ASSIGN_OR_RETURN(const auto samples, ImageNames(names_of(*listing)).match(file_names));
  std::vector<uint64_t> image_of(listing->samples.size(), kNoSample);
  for (uint64_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != kNoSample) image_of[samples[i]] = i;
  }
  const auto missing = static_cast<uint64_t>(std::ranges::count(samples, kNoSample));
  if (missing == 0) return image_of;
  const auto first = std::ranges::find(samples, kNoSample) - samples.begin();
  const std::string& first_missing = file_names[static_cast<size_t>(first)];
  if (missing == samples.size()) {
    return fail(Code::kInvalid,
                "none of its {} images is in the source (the first is \"{}\"); the file name of an "
                "image, without its suffix, must be the key of a sample, such as {}",
                missing, first_missing, listing->samples[0].key);
  }
  listing->remarks.push_back({std::string(kAnnotationsOption),
                              fmt::format("{} of its {} images are not in the source, such as {}",
                                          missing, samples.size(), first_missing)});
  return image_of;
}

// Adds each sample's annotations to the listing, and counts samples without annotations. Drops each
// image after it has been added, so that no text is in memory twice.
Status add_documents(Annotations annotations, const std::vector<uint64_t>& image_of, uint16_t field,
                     Listing* listing) {
  uint64_t empty = 0;
  for (uint64_t i = 0; i < image_of.size(); ++i) {
    if (image_of[i] == kNoSample || annotations.images[image_of[i]].annotation_count == 0) ++empty;
    if (image_of[i] == kNoSample) continue;
    const AnnotatedImage image = std::move(annotations.images[image_of[i]]);
    std::string text = annotations.document(image);
    if (text.size() > base::kScalarBytesMax) {
      return fail(Code::kTooBig,
                  "the annotations of {} take {} bytes, more than the limit of {} for a sample; "
                  "simplify its outlines, or leave the image out",
                  listing->samples[i].source_path, text.size(), base::kScalarBytesMax);
    }
    listing->samples[i].files.push_back({.suffix = std::string(kAnnotationsField),
                                         .field = field,
                                         .shard = kNoShard,
                                         .offset = listing->texts.size(),
                                         .length = text.size()});
    listing->texts.push_back(std::move(text));
  }
  if (empty > 0) {
    listing->remarks.push_back(
        {std::string(kAnnotationsOption),
         fmt::format("{} of {} samples have no annotations", empty, image_of.size())});
  }
  return {};
}

// Adds the files or shards of the masks to the shards of the samples' listing, and returns the
// SourceFile of a mask there.
class MaskPlaces {
 public:
  MaskPlaces(const Listing& masks, Listing* listing)
      : masks_(masks), shards_(listing->shards), first_(static_cast<uint32_t>(shards_.size())) {
    if (masks.kind == SourceKind::kWebDataset)
      std::ranges::copy(masks.shards, std::back_inserter(shards_));
  }

  SourceFile file_of(const SourceSample& mask) {
    SourceFile file = mask.files[0];
    if (masks_.kind == SourceKind::kWebDataset) {
      file.shard += first_;
    } else {
      file.shard = static_cast<uint32_t>(shards_.size());
      shards_.push_back({.path = io::join_path(masks_.root, mask.source_path),
                         .bytes = file.length,
                         .modified_ns = mask.modified_ns});
    }
    return file;
  }

 private:
  const Listing& masks_;
  std::vector<SourceShard>& shards_;
  const uint32_t first_;
};

std::string rule(const NamePatterns& names) {
  if (names.are_plain()) {
    return "a mask must be a PNG with the name of its image, except for the suffix";
  }
  return fmt::format("the mask of an image {} must be a PNG {} (--mask-names)", names.own.text(),
                     names.other.text());
}

Status add_listed_masks(const Listing& masks, const std::string& source, const NamePatterns& names,
                        uint16_t field, Listing* listing) {
  const auto is_png = [](const SourceSample& mask) { return mask.files[0].suffix == "png"; };
  Listing pngs;
  std::ranges::copy_if(masks.samples, std::back_inserter(pngs.samples), is_png);
  ASSIGN_OR_RETURN(const auto mask_of, same_names(names_of(*listing), names_of(pngs), names));
  const auto missing = std::ranges::count(mask_of, kNoSample);
  if (missing > 0) {
    const auto first = std::ranges::find(mask_of, kNoSample) - mask_of.begin();
    return fail(Code::kInvalid, "{} has no mask for {} of {} images, such as {}; {}", source,
                missing, listing->samples.size(), listing->samples[static_cast<size_t>(first)].key,
                rule(names));
  }
  MaskPlaces places(masks, listing);
  for (size_t i = 0; i < mask_of.size(); ++i) {
    SourceFile file = places.file_of(pngs.samples[mask_of[i]]);
    file.suffix = kMaskFields[0];
    file.field = field;
    listing->samples[i].files.push_back(std::move(file));
  }
  return {};
}

}  // namespace

Status add_annotations(const io::Origin& origin, const std::string& path, Listing* listing) {
  const auto add = [&]() -> Status {
    RETURN_IF_ERROR(check_absent(*listing, kAnnotationsField, kAnnotationsOption));
    ASSIGN_OR_RETURN(Annotations annotations, read_annotations(origin, path));
    listing->annotations = annotations.hash;
    if (annotations.without_image > 0) {
      listing->remarks.push_back(
          {std::string(kAnnotationsOption),
           fmt::format("{} of images that the file does not list",
                       base::counted(annotations.without_image, "annotation"))});
    }
    const auto image_of = match(annotations, listing);
    if (!image_of) return image_of.error().at(path);
    ASSIGN_OR_RETURN(const uint16_t field, add_field(kAnnotationsField, FieldKind::kJson, listing));
    return add_documents(std::move(annotations), *image_of, field, listing).at(path);
  };
  return add().at(kAnnotationsOption);
}

Status add_masks(const io::Origin& origin, const std::string& source, const NamePatterns& names,
                 Listing* listing) {
  const auto add = [&]() -> Status {
    for (const std::string_view name : kMaskFields) {
      RETURN_IF_ERROR(check_absent(*listing, name, kMasksOption));
    }
    ASSIGN_OR_RETURN(const Listing masks, list_source(origin, source));
    if (masks.root == listing->root && masks.kind == SourceKind::kFolder) {
      return fail(Code::kInvalid,
                  "{} is the folder of the images themselves, so its masks would be samples too; "
                  "put the masks into a folder of their own",
                  source);
    }
    ASSIGN_OR_RETURN(const uint16_t field, add_field(kMaskFields[0], FieldKind::kImage, listing));
    return add_listed_masks(masks, source, names, field, listing);
  };
  return add().at(kMasksOption);
}

}  // namespace forebay::store
