#include "prep/wire/tables.h"

#include <cmath>

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::Status;

namespace {

enum class Kind : uint32_t { kWeights = 1, kList = 2, kTargets = 3, kSelected = 4 };

class TableWriter {
 public:
  explicit TableWriter(Kind kind) { writer_.number(static_cast<uint32_t>(kind)); }

  void add(uint64_t number) { writer_.number(number); }
  template <class T>
  void add(std::span<const T> column) {
    static_assert(std::has_unique_object_representations_v<T> || sizeof(T) % sizeof(float) == 0);
    add(uint64_t{column.size()});
    writer_.bytes({reinterpret_cast<const uint8_t*>(column.data()), column.size_bytes()});
  }
  template <class T>
  void add(const std::vector<T>& column) {
    add(std::span<const T>(column));
  }
  Table finish() {
    std::string name = base::to_hex(base::sha256(bytes_));
    return {.name = std::move(name), .bytes = std::make_shared<ByteVector>(std::move(bytes_))};
  }

 private:
  ByteVector bytes_;
  base::ByteWriter writer_{&bytes_};
};

class TableReader {
 public:
  TableReader(Bytes bytes, Kind kind) : in_(bytes) {
    is_other_ = in_.number<uint32_t>() != static_cast<uint32_t>(kind);
  }

  uint64_t number() { return in_.number<uint64_t>(); }
  template <class T>
  void read(std::vector<T>* column) {
    const auto count = number();
    const Bytes bytes = in_.bytes(base::checked_mul(count, sizeof(T)).value_or(~uint64_t{0}));
    if (!in_.ok()) return;
    column->resize(count);
    std::ranges::copy(bytes, reinterpret_cast<uint8_t*>(column->data()));
  }
  Status finish() const {
    if (is_other_) return fail(Code::kInvalid, "a table has another kind than expected");
    if (in_.ok() && in_.remaining() == 0) return {};
    return fail(Code::kInvalid, "a table {}, at byte {}", in_.ok() ? "is too long" : "is cut off",
                in_.position());
  }

 private:
  base::ByteReader in_;
  bool is_other_ = false;
};

bool is_place(double number) {
  constexpr double kFar = 1e9;  // pixels
  return std::abs(number) <= kFar;
}

// Refuses numbers that Python never puts into targets, and that other code does not check for.
Status check_numbers(const feed::Targets& targets) {
  const bool fits = std::ranges::all_of(targets.boxes,
                                        [](const image::Bounds& box) {
                                          return is_place(box.left) && is_place(box.top) &&
                                                 is_place(box.right) && is_place(box.bottom);
                                        }) &&
                    std::ranges::all_of(targets.points, [](const image::Point& point) {
                      return is_place(point.x) && is_place(point.y) && is_place(point.visibility);
                    });
  if (!fits) return fail(Code::kInvalid, "a table has boxes or keypoints beyond 1e9 pixels");
  constexpr int32_t kFar = 1 << 29;
  if (!targets.outlines) return {};
  if (!std::ranges::all_of(targets.outlines->numbers,
                           [](int32_t number) { return number <= kFar && number >= -kFar; })) {
    return fail(Code::kInvalid, "a table has outlines with numbers beyond 2^29");
  }
  if (std::ranges::all_of(targets.outlines->fractions, is_place)) return {};
  return fail(Code::kInvalid, "a table has outlines with fractions beyond 1e9");
}

}  // namespace

Table table_of(const feed::SampleWeights& weights) {
  TableWriter out(Kind::kWeights);
  out.add(weights.ends());
  return out.finish();
}

Table table_of(const feed::SampleList& list) {
  const auto& [samples, drawn_for, step_ends] = list;
  TableWriter out(Kind::kList);
  out.add(samples);
  out.add(drawn_for);
  out.add(step_ends);
  return out.finish();
}

Table table_of(std::span<const uint64_t> selected) {
  TableWriter out(Kind::kSelected);
  out.add(selected);
  return out.finish();
}

// The structured bindings here fail to compile if a field is added that is not written.
Table table_of(const feed::Targets& targets) {
  const auto& [first, boxes, are_fractions, points_each, points, pairs, outlines, sizes, drawn_on,
               maps, map_of, palette] = targets;
  TableWriter out(Kind::kTargets);
  out.add(first);
  out.add(boxes);
  out.add(uint64_t{points_each});
  out.add(points);
  out.add(pairs);
  out.add(sizes);
  out.add(static_cast<uint64_t>(drawn_on));
  out.add(uint64_t{are_fractions});
  out.add(uint64_t{outlines.has_value()});
  if (!outlines) return out.finish();
  const auto& [first_part, first_number, is_runs, numbers, fractions] = *outlines;
  out.add(first_part);
  out.add(first_number);
  out.add(is_runs);
  out.add(numbers);
  out.add(fractions);
  return out.finish();
}

Result<feed::SampleWeights> decode_weights(Bytes bytes) {
  std::vector<uint64_t> ends;
  TableReader in(bytes, Kind::kWeights);
  in.read(&ends);
  RETURN_IF_ERROR(in.finish());
  return feed::SampleWeights::from_ends(std::move(ends));
}

Result<feed::SampleList> decode_list(Bytes bytes) {
  feed::SampleList out;
  TableReader in(bytes, Kind::kList);
  in.read(&out.samples);
  in.read(&out.drawn_for);
  in.read(&out.step_ends);
  RETURN_IF_ERROR(in.finish());
  return out;
}

Result<std::vector<uint64_t>> decode_selected(Bytes bytes) {
  std::vector<uint64_t> out;
  TableReader in(bytes, Kind::kSelected);
  in.read(&out);
  RETURN_IF_ERROR(in.finish());
  return out;
}

Result<feed::Targets> decode_targets(Bytes bytes) {
  feed::Targets out;
  TableReader in(bytes, Kind::kTargets);
  in.read(&out.first);
  in.read(&out.boxes);
  const uint64_t points_each = in.number();
  in.read(&out.points);
  in.read(&out.pairs);
  in.read(&out.sizes);
  const uint64_t drawn_on = in.number();
  const uint64_t are_fractions = in.number();
  const uint64_t has_outlines = in.number();
  if (has_outlines != 0) {
    out.outlines.emplace();
    in.read(&out.outlines->first_part);
    in.read(&out.outlines->first_number);
    in.read(&out.outlines->is_runs);
    in.read(&out.outlines->numbers);
    in.read(&out.outlines->fractions);
  }
  RETURN_IF_ERROR(in.finish());
  if (points_each > UINT32_MAX || has_outlines > 1 || are_fractions > 1) {
    return fail(Code::kInvalid,
                "a table has {} keypoints for each box, outlines: {}, and fractions: {} (0 or 1)",
                points_each, has_outlines, are_fractions);
  }
  out.are_fractions = are_fractions == 1;
  if (drawn_on > static_cast<uint64_t>(image::DrawnOn::kShown)) {
    return fail(Code::kInvalid, "a table has annotations drawn on an image of kind {}", drawn_on);
  }
  out.drawn_on = static_cast<image::DrawnOn>(drawn_on);
  out.points_each = static_cast<uint32_t>(points_each);
  RETURN_IF_ERROR(check_numbers(out));
  return out;
}

}  // namespace forebay::prep
