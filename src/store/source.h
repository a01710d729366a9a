// What pack reads, listed once and in a fixed order: a folder by class (folder_source.cc) or
// WebDataset shards (webdataset_source.cc). A listing holds names and sizes, never contents.
//
// Keys. A sample's key is what a WebDataset reader makes of its name in the chunk's tar: everything
// up to the first dot of the last path component. So a key's last component has no dot: in a
// folder source, "." becomes "%2E" and "%" becomes "%25" there, and a key that begins with "__",
// which a WebDataset reader would skip, begins with "%5F_" (one that begins with "%", with "%25").
// Keys of WebDataset shards are those of their members; where one comes in several shards, all
// begin with their shard's name (shard_names.h): "shard-000/000000". Two files of a folder that
// differ in nothing but the extension get the keys "a" and "a_png" (in listed order; "a_png_2"
// where that is taken too). SourceSample::source_path keeps the name as it was.
#pragma once

#include <optional>

#include "base/checksum.h"
#include "io/file_system.h"
#include "store/schema.h"

namespace forebay::store {

using base::Bytes;
using base::Result;
using base::Status;

// A file of a sample, before it is read.
struct SourceFile {
  std::string suffix;   // in the chunk's tar, lower case: "jpg", "seg.png"
  uint16_t field = 0;   // in the listing's schema
  uint32_t shard = 0;   // WebDataset: in the listing's shards
  uint64_t offset = 0;  // WebDataset: of its first byte in the shard
  uint64_t length = 0;
  bool operator==(const SourceFile&) const = default;
};

struct SourceSample {
  std::string key;
  // The path of its image below the folder, or the name of its member in its shard, with the
  // shard's own name before it where keys have it.
  std::string source_path;
  int64_t label = -1;  // by its folder; that of a .cls file is read with its files
  int64_t modified_ns = 0;
  std::vector<SourceFile> files;
  bool operator==(const SourceSample&) const = default;
};

struct SourceShard {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
};

// Something of the source that is not in the dataset, or a sample's file that was kept as it is.
struct Remark {
  std::string path;
  std::string reason;
  bool operator==(const Remark&) const = default;
};

// A folder that was listed.
struct SourceFolder {
  std::string path;  // below the root
  // Read before the listing: what came or went since then has changed it.
  int64_t modified_ns = 0;
  bool operator==(const SourceFolder&) const = default;
};

// Stored in indexes, so values never change.
enum class SourceKind : uint8_t { kFolder = 0, kWebDataset = 1 };

// What a source's name stands for, before anything in it is listed.
struct SourcePlaces {
  SourceKind kind = SourceKind::kFolder;
  std::string folder;  // that holds all of it
  std::string name;    // of the .tar or the range, below that folder; empty for the whole folder
  std::vector<std::string> shards;   // WebDataset: paths
  std::vector<std::string> classes;  // a folder source: its subfolders' names, sorted
  uint64_t files = 0;                // a folder source: files beside those
  std::vector<Remark> left_out;      // WebDataset: folders beside the shards
  bool has_old_index = false;        // a folder ".forebay", where indexes were once

  // The source's name again.
  std::string source() const;
  // A shard's path below the folder; shards of one source have different ones.
  std::string below(const std::string& path) const;
};

struct Listing {
  SourceKind kind = SourceKind::kFolder;
  std::string root;                   // a folder source's
  std::vector<SourceFolder> folders;  // a folder source's, all below the root
  std::vector<SourceShard> shards;
  Schema schema;
  std::vector<SourceSample> samples;
  std::vector<Remark> refused;     // samples: not regular files, or without an image
  std::vector<Remark> remarks;     // shards that were taken and may lack something
  std::vector<Remark> left_out;    // folders beside shards
  std::vector<Remark> bad_shards;  // with OnBadShard::kNote: why one was not read to its end
  uint64_t ignored = 0;            // files that are no images by their names
};

// `source`: a folder of folders of images; a folder of *.tar; one .tar file; or a brace range,
// "x-{000..010}.tar". Lists one folder at most.
Result<SourcePlaces> find_source(const io::FileSystem& fs, const std::string& source);

// What to do about a shard that is not there or cannot be read to its end: it is an error, or it is
// noted, what came before is taken, and the listing may be empty.
enum class OnBadShard : uint8_t { kFail, kNote };

// Errors name the file (and offset) that cannot be taken.
Result<Listing> list_source(const io::FileSystem& fs, const std::string& source);
Result<Listing> list_places(const io::FileSystem& fs, const SourcePlaces& places,
                            OnBadShard on_bad_shard = OnBadShard::kFail);

// The bytes of one file. kCorrupt and kTooBig mean the content, all else the disk; a file that is
// no longer as listed (its size, its time of change, or that it is there) is kInvalid.
Result<base::ByteVector> read_source_file(const io::FileSystem& fs, const Listing& listing,
                                          const SourceSample& sample, const SourceFile& file);

// Everything that decides what a pack writes: kinds, names, sizes and times of change; not where
// the source lies. Equal sources encode equally.
base::ByteVector encode_listing(const Listing& listing);

// For a person: the first difference between a stored encoding and the listing of today.
std::string first_difference(Bytes stored, const Listing& listing);

// The extensions that torchvision's ImageFolder takes: jpg jpeg png ppm bmp pgm tif tiff webp.
bool is_image_extension(std::string_view lower_case);
std::string lower_case(std::string_view text);  // ASCII
// "Cat.v2.JPG" gives {"Cat.v2", "JPG"}; without a dot the extension is empty.
std::pair<std::string_view, std::string_view> split_extension(std::string_view base_name);

// Escapes the beginning of a key: WebDataset readers pass over one that begins with "__", and one
// that begins with "%" could be taken for an escape.
std::string escape_key(std::string key);
// Whether a path inside an archive is absolute or has a component "..".
bool leads_out(std::string_view name);

// What a .cls file says: a number from 0 to 2^31 - 1, blanks around it. Errors: kCorrupt.
Result<int64_t> parse_class(Bytes file);

// Forebay writes plain hidden files into the data's folder, whose names begin like this; it once
// wrote a folder. Neither is part of any source.
inline constexpr std::string_view kOwnFilePrefix = ".forebay-";
inline constexpr std::string_view kOldIndexFolder = ".forebay";
inline bool is_own(const io::DirEntry& entry) {
  return entry.type == io::FileType::kDirectory ? entry.name == kOldIndexFolder
                                                : entry.name.starts_with(kOwnFilePrefix);
}

// The two listers; list_places() chooses.
Result<Listing> list_folder(const io::FileSystem& fs, const SourcePlaces& places);
Result<Listing> list_webdataset(const io::FileSystem& fs, const SourcePlaces& places,
                                OnBadShard on_bad_shard);
// "x-{08..10}.tar" gives x-08.tar, x-09.tar, x-10.tar; several ranges multiply.
Result<std::vector<std::string>> expand_braces(const std::string& pattern);

}  // namespace forebay::store
