// The named fields of samples, and the classes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace forebay::store {

// Indexes store these values, so they never change.
enum class FieldKind : uint8_t {
  kImage = 1,  // an encoded image, a file of the chunk's tar
  kBytes = 2,  // any other file of the chunk's tar
  kClass = 3,  // a class's number, from 0; Schema::classes has the names, if the source has them
  kJson = 4,   // JSON text, in the chunk's index
  kText = 5,   // UTF-8 text, in the chunk's index
};

// Whether values of this kind are stored in the chunk indexes.
constexpr bool is_scalar(FieldKind kind) {
  return kind == FieldKind::kClass || kind == FieldKind::kJson || kind == FieldKind::kText;
}

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kImage;
  bool operator==(const Field&) const = default;
};

// The fields of a dataset, in order. A sample may lack any field except its image. The first field
// of kind kImage is what a feed decodes, and the first of kind kClass is the label.
struct Schema {
  std::vector<Field> fields;
  std::vector<std::string> classes;
  bool operator==(const Schema&) const = default;
};

}  // namespace forebay::store
