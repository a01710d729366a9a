// Lists what pack reads, once and in a fixed order: a folder by class (folder_source.cc) or
// WebDataset shards (webdataset_source.cc). A listing holds names and sizes, never contents.
//
// Keys. A sample's key is what a WebDataset reader makes of its name in the chunk's tar: everything
// up to the first dot of the last path component. So a key's last component has no dot: in a
// folder source, "." becomes "%2E" and "%" becomes "%25" there. A WebDataset reader would skip a
// key that begins with "__", so "__" at the beginning becomes "%5F_" (and "%" becomes "%25"). Keys
// of WebDataset shards are those of their members. If a key occurs in several shards, all keys
// begin with their shard's name (shard_names.h): "shard-000/000000". Two files of a folder that
// differ only in the extension get the keys "a" and "a_png" in listed order ("a_png_2" if that is
// taken too). SourceSample::source_path keeps the unchanged name.
#pragma once

#include <optional>

#include "io/origin.h"
#include "store/format/listing.h"
#include "store/source/left_out.h"

namespace forebay::store {

using base::Result;
using base::Status;

// The files and folders that a source's name stands for, before their contents are listed.
struct ResolvedSource {
  SourceKind kind = SourceKind::kFolder;
  std::string folder;  // the folder that holds all of it
  std::string name;    // the .tar or range below that folder; empty for the whole folder
  std::vector<std::string> shards;   // for WebDataset, the shards' paths
  std::vector<std::string> classes;  // for a folder source, its subfolders' names, sorted
  uint64_t files = 0;                // for a folder source, the number of files beside subfolders
  LeftOut left_out;                  // of that folder itself
  bool has_old_index = false;        // there is a folder ".forebay", where indexes once were

  // Returns the source's name.
  std::string source() const;
  // Returns a shard's path below the folder, which differs from those of the other shards.
  std::string below(const std::string& path) const;
};

// Finds what `source` is: a folder of folders of images; a folder of *.tar; one .tar file; or a
// brace range, "x-{000..010}.tar". Lists one folder at most.
Result<ResolvedSource> resolve_source(const io::Origin& origin, const std::string& source);

// What to do about a shard that is missing or cannot be read to its end. kFail: return an error.
// kNote: take the samples before that place, and add the shard and the reason to
// Listing::bad_shards; the listing may then be empty. An origin that does not answer
// (io::is_unanswered) is always an error.
enum class OnBadShard : uint8_t { kFail, kNote };

struct ListOptions {
  OnBadShard on_bad_shard = OnBadShard::kFail;
  // Whether to read the .cls files of shards and set SourceSample::label. A sample whose class
  // cannot be read is added to Listing::bad_classes, but is also among the samples.
  bool read_classes = false;
};

// Errors name the file (and offset) that cannot be taken.
Result<Listing> list_source(const io::Origin& origin, const std::string& source);
Result<Listing> list_places(const io::Origin& origin, const ResolvedSource& places,
                            const ListOptions& options = {});

// Adds advice to an error of reading `path` of a source, unless a server's error already has some.
Status advise(const io::Origin& origin, const std::string& path, const Status& error);

// Whether torchvision's ImageFolder takes this extension: jpg jpeg png ppm bmp pgm tif tiff webp.
bool is_image_extension(std::string_view lower_case);
// "Cat.v2.JPG" gives {"Cat.v2", "JPG"}; without a dot the extension is empty.
std::pair<std::string_view, std::string_view> split_extension(std::string_view base_name);

// Escapes the beginning of a key: WebDataset readers skip a key that begins with "__", and a key
// that begins with "%" could be taken for an escape.
std::string escape_key(std::string key);
// Turns a file's name without its extension into the last component of a key, which has no dots.
// Different names give different results.
std::string escape_stem(std::string_view stem);
// Reads a .cls file: a number from 0 to 2^31 - 1 with blanks around it. Errors: kCorrupt.
Result<int64_t> parse_class(Bytes file);

// Forebay writes hidden files with this prefix into the data's folder; earlier versions wrote a
// folder. A cache may lie in it, too. None of them is part of any source.
inline constexpr std::string_view kOwnFilePrefix = ".forebay-";
inline constexpr std::string_view kOldIndexFolder = ".forebay";
inline constexpr std::string_view kCacheFolder = "forebay-cache";
inline bool is_own(const io::DirEntry& entry) {
  return entry.type == io::FileType::kDirectory
             ? entry.name == kOldIndexFolder || entry.name == kCacheFolder
             : entry.name.starts_with(kOwnFilePrefix);
}

// List one kind of source each; list_places() chooses between them.
Result<Listing> list_folder(const io::Origin& origin, const ResolvedSource& places);
Result<Listing> list_webdataset(const io::Origin& origin, const ResolvedSource& places,
                                const ListOptions& options);
// "x-{08..10}.tar" gives x-08.tar, x-09.tar, x-10.tar; several ranges multiply.
Result<std::vector<std::string>> expand_braces(const std::string& pattern);

}  // namespace forebay::store
