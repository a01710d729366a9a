// Lists a folder by class in the same way as torchvision's ImageFolder: the classes are the sorted
// names of the direct subfolders. A class's samples are all images below its folder: folders in the
// order of their whole paths, files by name. Symbolic links are followed. Two things differ from
// ImageFolder: an empty class is not an error and keeps its number, and hidden files and folders
// (is_hidden()) are passed over. If a folder has no subfolders, its own images are the samples,
// without classes.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/share_work.h"
#include "store/format/target_fields.h"
#include "store/source/source.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

constexpr size_t kQuestionsAtOnce = 16;  // because each answer of a network file system takes time
constexpr size_t kRemoteQuestionsAtOnce = 64;
constexpr size_t kClassesAtOnce = 256;  // how many classes' folders are in memory at the same time

// All folders of a class.
struct ClassFolders {
  std::vector<SourceFolder> noted;
  std::vector<std::string> hidden;                         // paths of hidden folders
  std::map<std::string, std::vector<io::DirEntry>> files;  // by the folders' paths below the root
};

// Lists a folder below the root, and notes the folder with its time of change. The time is read
// before the files, so that a file that is added or removed later changes it. Folders of an object
// store have no such time.
Result<std::vector<io::DirEntry>> list_noted(const io::Origin& origin, const std::string& root,
                                             const std::string& folder, ClassFolders* out) {
  const std::string path = io::join_path(root, folder);
  int64_t modified_ns = 0;
  if (!origin.is_remote(path)) {
    ASSIGN_OR_RETURN(const io::FileInfo info, origin.stat(path));
    modified_ns = info.modified_ns;
  }
  out->noted.push_back({folder, modified_ns});
  ASSIGN_OR_RETURN(auto entries, origin.list(path));
  std::erase_if(entries, [&](const io::DirEntry& entry) {
    if (is_own(entry)) return true;
    if (entry.type != io::FileType::kDirectory || !is_hidden(entry.name)) return false;
    out->hidden.push_back(io::join_path(folder, entry.name));
    return true;
  });
  return entries;
}

Status walk(const io::Origin& origin, const std::string& root, const std::string& folder, int depth,
            ClassFolders* out) {
  if (depth > base::kFolderDepthMax) {
    return fail(Code::kUnsupported,
                "{}: more than {} folders deep; does a symbolic link lead back to a folder above?",
                io::join_path(root, folder), base::kFolderDepthMax);
  }
  ASSIGN_OR_RETURN(auto entries, list_noted(origin, root, folder, out));
  for (const auto& entry : entries) {
    if (entry.type != io::FileType::kDirectory) continue;
    RETURN_IF_ERROR(walk(origin, root, io::join_path(folder, entry.name), depth + 1, out));
  }
  std::erase_if(entries, [](const auto& e) { return e.type == io::FileType::kDirectory; });
  out->files.emplace(folder, std::move(entries));
  return {};
}

class FolderLister {
 public:
  FolderLister(const LeftOut& left_out, Listing* out) : out_(out), left_out_(left_out) {}

  Status add_folder(const std::string& folder, const std::vector<io::DirEntry>& entries,
                    int64_t label) {
    // All plain stems are reserved first, so that a changed key never takes that of another file.
    taken_.clear();
    images_.clear();
    for (const auto& entry : entries) {
      const auto [stem, extension] = split_extension(entry.name);
      taken_.insert(escape_stem(stem));
      if (is_image_extension(io::lower(extension))) images_.insert(std::string(stem));
    }
    used_.clear();
    for (const auto& entry : entries) {
      RETURN_IF_ERROR(add_file(folder, entry, label));
    }
    return {};
  }

  LeftOut& left_out() { return left_out_; }
  // The samples whose sizes and times are not part of the folders' listings.
  const std::vector<uint64_t>& unmeasured() const { return unmeasured_; }

 private:
  Status add_file(const std::string& folder, const io::DirEntry& entry, int64_t label) {
    const auto [stem, extension] = split_extension(entry.name);
    const std::string suffix = io::lower(extension);
    if (!is_image_extension(suffix) || is_mask(entry.name) || is_hidden(entry.name)) {
      ++out_->ignored;
      const std::string path = io::join_path(folder, entry.name);
      if (!is_image_extension(suffix)) {
        left_out_.add_if_data(path);
      } else if (is_hidden(entry.name)) {
        left_out_.add_hidden(path, kHiddenFile);
      }
      return {};
    }
    SourceSample sample;
    sample.source_path = io::join_path(folder, entry.name);
    if (entry.type != io::FileType::kFile) {
      out_->refused.push_back({sample.source_path, "not a regular file"});
      return {};
    }
    sample.key = escape_key(io::join_path(folder, free_name(escape_stem(stem), suffix)));
    if (sample.key.size() > base::kKeyBytesMax) {
      return fail(Code::kTooBig, "{}: its name makes a key of {} bytes, the limit is {}",
                  sample.source_path, sample.key.size(), base::kKeyBytesMax);
    }
    if (out_->samples.size() >= base::kSourceEntriesMax) {
      return fail(Code::kTooBig, "{}: more than {} images", out_->root, base::kSourceEntriesMax);
    }
    sample.label = label;
    sample.files.push_back({.suffix = suffix});
    if (entry.info) {
      sample.modified_ns = entry.info->modified_ns;
      sample.files[0].length = entry.info->size;
    } else {
      unmeasured_.push_back(out_->samples.size());
    }
    out_->samples.push_back(std::move(sample));
    return {};
  }

  // Whether a file's name is that of the mask of an image in the same folder, in the form that
  // `forebay export --all-fields` writes.
  bool is_mask(std::string_view name) const {
    return std::ranges::any_of(kMaskFields, [&](std::string_view field) {
      if (!name.ends_with(field) || name.size() == field.size()) return false;
      const std::string_view before = name.substr(0, name.size() - field.size());
      return before.ends_with('.') && images_.contains(std::string(before, 0, before.size() - 1));
    });
  }

  std::string free_name(const std::string& stem, const std::string& suffix) {
    if (used_.insert(stem).second) return stem;
    const std::string base = stem + "_" + suffix;
    std::string name = base;
    for (int n = 2; taken_.contains(name) || !used_.insert(name).second; ++n) {
      name = fmt::format("{}_{}", base, n);
    }
    return name;
  }

  Listing* out_;
  LeftOut left_out_;
  std::vector<uint64_t> unmeasured_;
  std::unordered_set<std::string> taken_;
  std::unordered_set<std::string> images_;  // the stems of the folder's images
  std::unordered_set<std::string> used_;
};

constexpr uint64_t kFilesATime = 512;

// Gets the sizes and times of these samples' files, many at once.
Status measure_files(const io::Origin& origin, const std::vector<uint64_t>& samples, Listing* out) {
  const auto measure = [&](uint64_t begin, uint64_t end, size_t) -> Status {
    for (uint64_t i = begin; i < end; ++i) {
      SourceSample& sample = out->samples[samples[i]];
      ASSIGN_OR_RETURN(const io::FileInfo info,
                       origin.stat(io::join_path(out->root, sample.source_path)));
      sample.modified_ns = info.modified_ns;
      sample.files[0].length = info.size;
    }
    return {};
  };
  return io::share_work(samples.size(), kFilesATime, kQuestionsAtOnce, measure);
}

// Adds the classes [first, end), whose folders are listed at the same time.
Status add_classes(const io::Origin& origin, size_t first, size_t end, FolderLister* lister,
                   Listing* out) {
  std::vector<ClassFolders> classes(end - first);
  const auto list = [&](uint64_t i, uint64_t, size_t) {
    return walk(origin, out->root, out->schema.classes[first + i], 0, &classes[i]);
  };
  const size_t at_once = origin.is_remote(out->root) ? kRemoteQuestionsAtOnce : kQuestionsAtOnce;
  RETURN_IF_ERROR(io::share_work(classes.size(), 1, at_once, list));
  for (size_t i = 0; i < classes.size(); ++i) {
    std::ranges::move(classes[i].noted, std::back_inserter(out->folders));
    for (const std::string& folder : classes[i].hidden) {
      lister->left_out().add_hidden(folder, kHiddenFolder);
    }
    const size_t before = out->samples.size();
    for (const auto& [folder, files] : classes[i].files) {
      RETURN_IF_ERROR(lister->add_folder(folder, files, static_cast<int64_t>(first + i)));
    }
    if (out->samples.size() == before) {
      lister->left_out().add(out->schema.classes[first + i],
                             "a folder without an image; it is a "
                             "class without samples");
    }
  }
  return {};
}

// Adds the images in the source's folder itself, which have no class.
Status add_root(const io::Origin& origin, FolderLister* lister, Listing* out) {
  ASSIGN_OR_RETURN(auto entries, origin.list(out->root));
  std::erase_if(entries, is_own);
  const std::vector<io::DirEntry> hidden = entries;
  std::erase_if(entries,
                [](const io::DirEntry& entry) { return entry.type == io::FileType::kDirectory; });
  out->ignored = 0;  // add_folder() counts the ignored files
  lister->left_out() = {};
  for (const io::DirEntry& entry : hidden) {
    if (entry.type == io::FileType::kDirectory)
      lister->left_out().add_hidden(entry.name, kHiddenFolder);
  }
  return lister->add_folder("", entries, -1);
}

}  // namespace

Result<Listing> list_folder(const io::Origin& origin, const ResolvedSource& places) {
  const std::string& root = places.folder;
  Listing listing;
  listing.root = root;
  listing.ignored = places.files;
  listing.schema.fields = {{"image", FieldKind::kImage}, {"class", FieldKind::kClass}};
  listing.schema.classes = places.classes;
  FolderLister lister(places.left_out, &listing);
  if (places.classes.empty()) RETURN_IF_ERROR(add_root(origin, &lister, &listing));
  if (places.classes.size() > base::kClassesMax) {
    return fail(Code::kTooBig, "{}: more than {} classes", root, base::kClassesMax);
  }
  const size_t classes = places.classes.size();
  for (size_t first = 0; first < classes; first += kClassesAtOnce) {
    const size_t end = std::min(first + kClassesAtOnce, classes);
    RETURN_IF_ERROR(add_classes(origin, first, end, &lister, &listing));
  }
  if (listing.samples.empty()) {
    return fail(Code::kInvalid, "{}: no images, no subfolders with images and no .tar files", root);
  }
  RETURN_IF_ERROR(measure_files(origin, lister.unmeasured(), &listing));
  listing.left_out = lister.left_out().data();
  listing.hidden = lister.left_out().hidden();
  return listing;
}

}  // namespace forebay::store
