// Annotations in COCO's format, divided by image. The file is read once from its beginning to its
// end, and never lies in memory as a whole: of each image there is the JSON that concerns it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "io/origin.h"

namespace forebay::store {

using base::Result;
using base::Status;

struct AnnotatedImage {
  int64_t id = 0;
  std::string file_name;
  std::string entry;              // its own JSON
  std::string annotations;        // their JSON, with commas between them
  std::set<int64_t> categories;   // of its objects
  uint64_t annotation_count = 0;  // 0: it has no objects and no captions
};

struct Annotations {
  std::vector<AnnotatedImage> images;
  std::map<int64_t, std::string> categories;  // the JSON of each
  uint64_t without_image = 0;                 // annotations whose image the file does not have
  base::Sha256 hash{};                        // of the file

  // JSON in COCO's format of this image alone.
  std::string document(const AnnotatedImage& image) const;
};

// Errors: kInvalid where the file is not in COCO's format or an annotation makes no sense, which
// the message names; kTooBig; those of reading.
Result<Annotations> read_annotations(const io::Origin& origin, const std::string& path);

}  // namespace forebay::store
