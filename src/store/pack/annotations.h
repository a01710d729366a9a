// Annotations in COCO's format, divided by image. The file is read once, from its beginning to its
// end, and is never in memory as a whole; each image keeps only its own JSON.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "image/codec/decode.h"
#include "io/origin.h"

namespace forebay::store {

using base::Result;
using base::Status;

struct AnnotatedImage {
  int64_t id = 0;
  std::string file_name;
  std::string entry;              // the image's own JSON
  std::string annotations;        // the JSON of its annotations, with commas between them
  std::set<int64_t> categories;   // the categories of its objects
  uint64_t annotation_count = 0;  // 0: the image has neither objects nor captions
  image::Size size = {};          // as the file says; {}: it does not
  image::Size runs_size = {};     // what its run-lengths were made for; {}: there are none
};

struct Annotations {
  std::vector<AnnotatedImage> images;
  std::map<int64_t, std::string> categories;  // the JSON of each
  uint64_t without_image = 0;                 // number of annotations whose image is not listed
  base::Sha256 hash{};                        // of the file

  // Returns JSON in COCO's format for this image alone.
  std::string document(const AnnotatedImage& image) const;
};

// Errors: kInvalid (the file is not in COCO's format, or the annotation that the message names is
// malformed), kTooBig, those of reading.
Result<Annotations> read_annotations(const io::Origin& origin, const std::string& path);

}  // namespace forebay::store
