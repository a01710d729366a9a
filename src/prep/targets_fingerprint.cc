#include <span>

#include "base/checksum.h"
#include "prep/job.h"

namespace forebay::prep {
namespace {

// Adds tables to a checksum. Their lengths come before them, so that different tables never give
// the same bytes.
class Tables {
 public:
  template <class T>
  void add(const std::vector<T>& table) {
    static_assert(std::has_unique_object_representations_v<T> || sizeof(T) % sizeof(float) == 0);
    add(uint64_t{table.size()});
    sum_.add({reinterpret_cast<const uint8_t*>(table.data()), table.size() * sizeof(T)});
  }
  void add(uint64_t number) {
    std::array<uint8_t, sizeof number> bytes;
    base::store_le(bytes.data(), number);
    sum_.add(bytes);
  }
  void add(const std::string& text) {
    add(uint64_t{text.size()});
    sum_.add(base::as_bytes(text));
  }
  std::string finish() { return base::to_hex(sum_.finish()); }

 private:
  base::Sha256Stream sum_;
};

}  // namespace

// The bindings fail to compile when a table is added that is not covered here.
std::string targets_fingerprint(const feed::Targets& targets) {
  const auto& [first, boxes, points_each, points, outlines, sizes, maps, map_of] = targets;
  Tables tables;
  tables.add(first);
  tables.add(boxes);
  tables.add(uint64_t{points_each});
  tables.add(points);
  tables.add(uint64_t{outlines.has_value()});
  if (outlines) {
    const auto& [first_part, first_number, is_runs, numbers] = *outlines;
    tables.add(first_part);
    tables.add(first_number);
    tables.add(is_runs);
    tables.add(numbers);
  }
  tables.add(sizes);
  tables.add(uint64_t{maps != nullptr});
  if (maps != nullptr) {
    tables.add(base::to_hex(maps->fingerprint()));
    // Datasets of several fields of masks (store/field_files.h) differ in nothing else.
    tables.add(uint64_t{maps->schema().fields.size()});
    for (const store::Field& field : maps->schema().fields) tables.add(field.name);
    tables.add(map_of);
  }
  return tables.finish();
}

}  // namespace forebay::prep
