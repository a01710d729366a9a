// Adds the labels of a table to the listing of a source (docs/labels.md).
#pragma once

#include "store/source/source.h"

namespace forebay::store {

struct LabelOptions {
  std::string file;    // a table (pack/table.h); empty: there are no labels
  std::string key;     // the column with the samples' names; empty: "file_name", or the first one
  std::string column;  // the column with each sample's class; empty: "label", "labels", or the only
                       // other one
  std::vector<std::string> keep;  // columns that become fields of kind kText
  bool drops_missing = false;     // whether samples without a row or class are left out
};

// Gives each sample the class that its row of the table has, and its other texts. Whole numbers are
// class numbers; other texts are classes' names, which are numbered in the order of their bytes.
// They replace the classes of folders. The listing's remarks count rows without a sample, and
// samples that were left out. Errors: kExists (samples have .cls files, or a field of the name of a
// kept column), kInvalid (no such column, samples without a row, rows that fit several samples),
// kTooBig, those of read_table().
Status add_labels(const io::Origin& origin, const LabelOptions& options, Listing* listing);

}  // namespace forebay::store
