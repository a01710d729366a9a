// Lists WebDataset shards. A sample is a run of neighbouring members with the same key. The rule
// for names is webdataset's (src/webdataset/tariterators.py): `^((?:.*/|)[^.]+)[.]([^/]*)$`, with
// the field in lower case. Other names, and `__name__` at the top, are ignored. This is stricter
// than webdataset: a key that occurs twice in its shard, a name that leads out of the archive, and
// links or devices are errors that name the member and its offset, because the resulting dataset
// would not be the intended one. Keys and classes that depend on all samples are in shard_names.h.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/share_work.h"
#include "store/format/tar.h"
#include "store/format/target_fields.h"
#include "store/source/shard_names.h"
#include "store/source/source.h"
#include "store/source/tar_reader.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

struct Name {
  std::string key;
  std::string field;
};

// Whether a name begins with `__[^/]*__($|/)`.
bool is_meta(std::string_view name) {
  const std::string_view top = name.substr(0, name.find('/'));
  return top.size() >= 4 && top.starts_with("__") && top.ends_with("__");
}

std::optional<Name> split_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  return Name{std::string(name.substr(0, dot)), io::lower(name.substr(dot + 1))};
}

// Which of a sample's plain images becomes its image: the first one in this order.
constexpr std::array<std::string_view, 9> kImagePreference = {"jpg", "jpeg", "png", "webp", "ppm",
                                                              "bmp", "pgm",  "tif", "tiff"};

FieldKind kind_of(const std::string& suffix) {
  if (suffix == "cls") return FieldKind::kClass;
  if (suffix == "json" || suffix == kAnnotationsField) return FieldKind::kJson;
  if (suffix == "txt") return FieldKind::kText;
  const auto extension = split_extension(suffix).second;
  return is_image_extension(extension.empty() ? std::string_view(suffix) : extension)
             ? FieldKind::kImage
             : FieldKind::kBytes;
}

// What to say of a sample without an image, of which some files are images by their last suffix.
std::string_view advice_on_dots(const SourceSample& sample) {
  const auto is_image = [](const SourceFile& file) {
    return kind_of(file.suffix) == FieldKind::kImage;
  };
  if (std::ranges::none_of(sample.files, is_image)) return "";
  return "; a sample's name ends at the first dot, so an image's name must have no further dots";
}

std::string field_name(const std::string& suffix, bool is_image_of_sample) {
  if (is_image_of_sample) return "image";
  if (suffix == "cls") return "class";
  if (suffix == "txt") return "text";
  // A suffix that happens to be one of these names must not become that field, and "image_file"
  // must not become the same field as "image".
  std::string_view stem = suffix;
  while (stem.ends_with("_file")) stem.remove_suffix(5);
  if (stem == "image" || stem == "class" || stem == "text") return suffix + "_file";
  return suffix;
}

struct ShardMember {
  TarMember tar;
  std::optional<Result<int64_t>> label = {};  // the class of a .cls file, if it was read
};

// The members of a shard, by its headers.
struct ShardMembers {
  SourceShard shard;
  std::vector<ShardMember> members;  // up to the first error
  bool has_end_mark = false;
  Status status = {};
};

constexpr size_t kShardsAtOnce = 16;
// Large reads, because a request to a server costs more than the bytes between a few headers.
constexpr uint64_t kRemoteReadBytes = 2 << 20;

std::string_view without_dots(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return name;
}

bool is_class(const TarMember& member) {
  const std::string_view name = without_dots(member.name);
  if (member.type != TarType::kFile || is_meta(name)) return false;
  const auto split = split_name(name);
  return split && split->field == "cls";
}

// Reads a .cls file. Errors: kCorrupt or kTooBig if its content is wrong; those of reading.
Result<int64_t> read_class(TarReader& reader, const TarMember& member) {
  if (member.size > base::kScalarBytesMax) {
    return fail(Code::kTooBig, ".cls: {} bytes, more than {}", member.size, base::kScalarBytesMax);
  }
  base::ByteVector text(member.size);
  RETURN_IF_ERROR(reader.read(member.offset, text));
  auto label = parse_class(text);
  if (!label) return tl::unexpected(label.error().at(".cls"));
  return label;
}

Status read_members(const io::Origin& origin, bool read_classes, ShardMembers* out) {
  const std::string& path = out->shard.path;
  ASSIGN_OR_RETURN(const io::FileInfo info, origin.stat(path));
  if (info.type != io::FileType::kFile) {
    return fail(Code::kUnsupported, "{}: not a regular file", path);
  }
  out->shard = {path, info.size, info.modified_ns};
  const io::Identity known{.size = info.size, .modified_ns = info.modified_ns};
  ASSIGN_OR_RETURN(const auto file, origin.open(path, {.known = known}));
  TarReader reader(*file, origin.is_remote(path) ? kRemoteReadBytes : kTarBlockBytes);
  for (;;) {
    auto next = reader.next();
    if (!next)
      return next.error().message().starts_with(path) ? next.error() : next.error().at(path);
    if (!*next) break;
    ShardMember& member = out->members.emplace_back(ShardMember{.tar = std::move(**next)});
    if (!read_classes || !is_class(member.tar)) continue;
    member.label = read_class(reader, member.tar);
    const Status status = base::status_of(*member.label);
    if (status.code() != Code::kCorrupt && status.code() != Code::kTooBig) RETURN_IF_ERROR(status);
  }
  out->has_end_mark = reader.has_end_mark();
  return {};
}

std::string_view advice_for(TarType type) {
  if (type == TarType::kHardLink) {
    return "; make the archive with copies of linked files, for GNU tar with --hard-dereference";
  }
  if (type == TarType::kSymbolicLink) {
    return "; make the archive with the files that links name, for GNU tar with --dereference";
  }
  return "";
}

class ShardLister {
 public:
  ShardLister(const ResolvedSource& places, const ListOptions& options, Listing* out)
      : places_(places), options_(options), out_(out) {}

  Status add_shard(const ShardMembers& shard) {
    const std::string& path = shard.shard.path;
    out_->shards.push_back(shard.shard);
    Status status = add_members(shard);
    if (status.ok() || options_.on_bad_shard == OnBadShard::kFail ||
        status.code() == Code::kNoMemory) {
      return status;
    }
    sample_ = {};  // the current sample may lack files
    names_.clear();
    label_.reset();
    out_->bad_shards.push_back({path, status.message()});
    return {};
  }

  // Decides what depends on all samples: classes, fields, and whether keys need their shard's name.
  Status finish() {
    const bool has_classes = fields_.contains("class");
    if (!has_classes && (label_by_folders(out_) || label_by_shards(out_))) {
      fields_.emplace("class", FieldKind::kClass);
    }
    RETURN_IF_ERROR(number_fields());
    return keys_come_again_ ? qualify_keys(places_, out_) : Status();
  }

 private:
  // The last shard with a key, and whether a sample with an image has this key.
  struct KeyUse {
    uint32_t shard = 0;
    bool has_image = false;
  };

  Status add_members(const ShardMembers& shard) {
    const std::string& path = shard.shard.path;
    for (const ShardMember& member : shard.members) {
      RETURN_IF_ERROR(add_member(path, member.tar));
      if (member.label) label_ = member.label;
    }
    RETURN_IF_ERROR(shard.status);
    if (!shard.has_end_mark) {
      out_->remarks.push_back({path.substr(path.rfind('/') + 1),
                               "the two zero blocks at its end are missing: its writer leaves them "
                               "out, or it was cut off and samples are missing"});
    }
    return finish_sample();
  }

  // Numbers the fields: first the image, then the class, then the others by name.
  Status number_fields() {
    auto& fields = out_->schema.fields;
    fields.push_back({"image", FieldKind::kImage});
    if (const auto found = fields_.find("class"); found != fields_.end()) {
      fields.push_back({"class", found->second});
    }
    for (const auto& [name, kind] : fields_) {
      if (name != "image" && name != "class") fields.push_back({name, kind});
    }
    if (fields.size() > base::kFieldsMax) {
      return fail(Code::kTooBig, "the samples have {} different fields, the limit is {}",
                  fields.size(), base::kFieldsMax);
    }
    for (size_t i = 0; i < out_->samples.size(); ++i) {
      auto& files = out_->samples[i].files;
      for (size_t f = 0; f < files.size(); ++f) {
        const std::string name = field_name(files[f].suffix, f == 0);
        const auto at = std::find_if(fields.begin(), fields.end(),
                                     [&](const Field& field) { return field.name == name; });
        files[f].field = static_cast<uint16_t>(at - fields.begin());
      }
    }
    return {};
  }

  Status add_member(const std::string& path, const TarMember& member) {
    const std::string_view name = without_dots(member.name);
    const auto refuse = [&](std::string_view why) -> Status {
      return fail(Code::kUnsupported, "{}: member {} at byte {}: {}", path, member.name,
                  member.offset, why);
    };
    if (leads_out(name)) {
      return refuse(
          "a name that leads out of the archive; make the archive with relative names, for GNU tar "
          "with -C FOLDER and without -P");
    }
    if (member.type == TarType::kDirectory) return {};
    if (member.type != TarType::kFile) {
      return refuse(fmt::format("{}, but only files can be read{}", tar_type_name(member.type),
                                advice_for(member.type)));
    }
    auto split = is_meta(name) ? std::nullopt : split_name(name);
    if (!split) {
      ++out_->ignored;
      return {};
    }
    if (split->key != sample_.key || sample_.files.empty()) {
      RETURN_IF_ERROR(finish_sample());
      if (split->key.size() > base::kKeyBytesMax) return refuse("a key that is too long");
      const auto shard = static_cast<uint32_t>(out_->shards.size() - 1);
      const auto [use, is_new] = uses_.emplace(split->key, KeyUse{.shard = shard});
      if (!is_new && use->second.shard == shard) {
        return refuse(
            "its key came before in this shard; the files of a sample must stand together");
      }
      use->second.shard = shard;
      sample_.key = split->key;
    }
    if (split->field.empty())
      return refuse("a name that ends in a dot, so that its field has no name");
    if (split->field.size() > base::kFieldNameBytesMax) return refuse("a field name too long");
    for (const SourceFile& file : sample_.files) {
      if (file.suffix == split->field) return refuse("the sample has this field already");
    }
    if (sample_.files.size() >= base::kFieldsMax) return refuse("too many fields");
    sample_.files.push_back({.suffix = std::move(split->field),
                             .shard = static_cast<uint32_t>(out_->shards.size() - 1),
                             .offset = member.offset,
                             .length = member.size});
    names_.emplace_back(name);
    return {};
  }

  // Moves the sample's image to the front; a sample without an image is refused.
  Status finish_sample() {
    if (sample_.files.empty()) return {};
    SourceSample sample = std::exchange(sample_, {});
    const std::vector<std::string> names = std::exchange(names_, {});
    const std::optional<Result<int64_t>> label = std::exchange(label_, {});
    size_t image = sample.files.size();
    for (const std::string_view wanted : kImagePreference) {
      for (size_t i = 0; i < sample.files.size() && image == sample.files.size(); ++i) {
        if (sample.files[i].suffix == wanted) image = i;
      }
    }
    if (image == sample.files.size()) {
      std::string fields;
      for (const SourceFile& file : sample.files) fields += " ." + file.suffix;
      out_->refused.push_back(
          {sample.key, fmt::format("no image: it has{}, none of .{}{}", fields,
                                   fmt::join(kImagePreference, " ."), advice_on_dots(sample))});
      return {};
    }
    if (out_->samples.size() >= base::kSourceEntriesMax) {
      return fail(Code::kTooBig, "more than {} samples", base::kSourceEntriesMax);
    }
    keys_come_again_ |= std::exchange(uses_[sample.key].has_image, true);
    sample.source_path = names[image];
    std::rotate(sample.files.begin(), sample.files.begin() + static_cast<ptrdiff_t>(image),
                sample.files.begin() + static_cast<ptrdiff_t>(image) + 1);
    for (size_t i = 0; i < sample.files.size(); ++i) {
      const std::string& suffix = sample.files[i].suffix;
      fields_.emplace(field_name(suffix, i == 0), kind_of(suffix));
    }
    if (label && *label) sample.label = **label;
    if (label && !*label) {
      out_->bad_classes.push_back({out_->samples.size(), label->error().message()});
    }
    out_->samples.push_back(std::move(sample));
    return {};
  }

  const ResolvedSource& places_;
  const ListOptions& options_;
  Listing* out_;
  SourceSample sample_;
  std::vector<std::string> names_;        // the names of sample_.files
  std::optional<Result<int64_t>> label_;  // the class in its .cls file
  std::unordered_map<std::string, KeyUse> uses_;
  bool keys_come_again_ = false;  // a key has images in several shards
  std::map<std::string, FieldKind> fields_;
};

}  // namespace

Result<Listing> list_webdataset(const io::Origin& origin, const ResolvedSource& places,
                                const ListOptions& options) {
  const std::vector<std::string>& shards = places.shards;
  Listing listing;
  listing.kind = SourceKind::kWebDataset;
  ShardLister lister(places, options, &listing);
  for (size_t first = 0; first < shards.size(); first += kShardsAtOnce) {
    std::vector<ShardMembers> some(std::min(kShardsAtOnce, shards.size() - first));
    const auto read = [&](uint64_t i, uint64_t, size_t) -> Status {
      some[i].shard.path = shards[first + i];
      some[i].status = read_members(origin, options.read_classes, &some[i]);
      return io::is_unanswered(some[i].status.code()) ? some[i].status : Status();
    };
    RETURN_IF_ERROR(io::share_work(some.size(), 1, kShardsAtOnce, read));
    for (const ShardMembers& shard : some) RETURN_IF_ERROR(lister.add_shard(shard));
  }
  if (listing.samples.empty() && !listing.bad_shards.empty()) {
    listing.schema.fields = {{"image", FieldKind::kImage}};
    return listing;
  }
  if (listing.samples.empty()) {
    const std::string where =
        shards.size() == 1 ? shards[0] : fmt::format("{} shards", shards.size());
    if (listing.refused.empty()) return fail(Code::kInvalid, "{}: no samples in it", where);
    const Remark& first = listing.refused[0];
    return fail(Code::kInvalid, "{}: no sample with an image in it; the first, \"{}\": {}", where,
                first.path, first.reason);
  }
  RETURN_IF_ERROR(lister.finish());
  return listing;
}

}  // namespace forebay::store
