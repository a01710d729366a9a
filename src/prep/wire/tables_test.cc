#include "prep/wire/tables.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/checksum.h"

namespace forebay::prep {
namespace {

using base::Code;

feed::SampleWeights weights() {
  const std::vector<double> given = {0.5, 0, 1e-9, 3};
  return feed::SampleWeights::make(given).value();
}

feed::Targets targets() {
  feed::Targets out;
  out.first = {0, 2};
  out.boxes = {{1, 2, 3, 4}, {0, 0, 9, 9}};
  out.points_each = 2;
  out.points = {{5, 6, 2}, {7, 8, 1}, {1, 2, 0}, {3, 4, 0}};
  out.pairs = {{0, 1}};
  out.drawn_on = image::DrawnOn::kShown;
  out.outlines = feed::Outlines{{0, 1, 1}, {0, 4}, {0}, {1, 2, 3, 4}};
  out.sizes = {{7, 8}};
  return out;
}

feed::Targets fractions() {
  feed::Targets out;
  out.first = {0, 1};
  out.boxes = {{0.25, 0.5, 0.75, 1}};
  out.are_fractions = true;
  out.outlines = feed::Outlines{{0, 1}, {0, 4}, {0}, {}, {0.1, 0.2, 0.3, 1}};
  return out;
}

TEST(Tables, ComeBackWithFractions) {
  const Table table = table_of(fractions());
  const feed::Targets back = decode_targets(*table.bytes).value();
  EXPECT_TRUE(back.are_fractions);
  EXPECT_EQ(back.outlines->fractions, fractions().outlines->fractions);
  EXPECT_EQ(table_of(back).name, table.name);
  feed::Targets hostile = fractions();
  hostile.outlines->fractions[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(base::status_of(decode_targets(*table_of(hostile).bytes)).code(), Code::kInvalid);
}

TEST(Tables, FractionsAreCheckedLikePixels) {
  EXPECT_TRUE(check_targets(fractions(), 1).ok());
  const std::vector<std::function<void(feed::Targets&)>> changes = {
      [](auto& t) { t.are_fractions = false; },
      [](auto& t) { t.outlines->is_runs = {1}; },
      [](auto& t) { t.outlines->numbers = {1}; },
      [](auto& t) { t.outlines->fractions.pop_back(); },
  };
  for (const auto& change : changes) {
    feed::Targets changed = fractions();
    change(changed);
    EXPECT_EQ(check_targets(changed, 1).code(), Code::kInvalid);
  }
}

TEST(Tables, ComeBack) {
  const Table of_weights = table_of(weights());
  EXPECT_EQ(of_weights.name, base::to_hex(base::sha256(*of_weights.bytes)));
  const feed::SampleWeights drawn = decode_weights(*of_weights.bytes).value();
  for (uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(drawn.draw(1, 2, position), weights().draw(1, 2, position));
  }
  const std::vector<uint64_t> selected = {5, 0, 5};
  EXPECT_EQ(decode_selected(*table_of(selected).bytes).value(), selected);
  const feed::SampleList list{.samples = {3, 1, 3}, .drawn_for = {3, 1, 7}, .step_ends = {1, 3}};
  const feed::SampleList list_back = decode_list(*table_of(list).bytes).value();
  EXPECT_EQ(list_back.samples, list.samples);
  EXPECT_EQ(list_back.drawn_for, list.drawn_for);
  EXPECT_EQ(list_back.step_ends, list.step_ends);
  for (const bool has_outlines : {true, false}) {
    feed::Targets given = targets();
    if (!has_outlines) given.outlines.reset();
    const Table of_targets = table_of(given);
    const feed::Targets back = decode_targets(*of_targets.bytes).value();
    EXPECT_EQ(back.boxes, given.boxes);
    EXPECT_EQ(back.points, given.points);
    EXPECT_EQ(back.pairs, given.pairs);
    EXPECT_EQ(back.drawn_on, given.drawn_on);
    EXPECT_EQ(back.outlines.has_value(), has_outlines);
    EXPECT_EQ(table_of(back).name, of_targets.name);
  }
}

TEST(Tables, OtherBytesAreRefused) {
  const ByteVector tables[] = {
      *table_of(weights()).bytes,
      *table_of(feed::SampleList{.samples = {1, 2}, .drawn_for = {}, .step_ends = {}}).bytes,
      *table_of(targets()).bytes, *table_of(std::vector<uint64_t>{4, 2}).bytes};
  const std::function<Code(Bytes)> decoders[] = {
      [](Bytes bytes) { return base::status_of(decode_weights(bytes)).code(); },
      [](Bytes bytes) { return base::status_of(decode_list(bytes)).code(); },
      [](Bytes bytes) { return base::status_of(decode_targets(bytes)).code(); },
      [](Bytes bytes) { return base::status_of(decode_selected(bytes)).code(); },
  };
  for (size_t kind = 0; kind < 4; ++kind) {
    const ByteVector& whole = tables[kind];
    EXPECT_EQ(decoders[kind](whole), Code::kOk);
    EXPECT_EQ(decoders[(kind + 1) % 4](whole), Code::kInvalid);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(decoders[kind](Bytes(whole).first(size)), Code::kInvalid) << kind << " " << size;
    }
    ByteVector longer = whole;
    longer.push_back(0);
    EXPECT_EQ(decoders[kind](longer), Code::kInvalid);
    ByteVector many = whole;  // its first column claims 2^64 - 1 numbers
    std::fill_n(many.begin() + 4, 8, uint8_t{255});
    EXPECT_EQ(decoders[kind](many), Code::kInvalid);
  }
}

TEST(Tables, NumbersThatAreNoPixelsAreRefused) {
  const std::function<void(feed::Targets&)> changes[] = {
      [](auto& t) { t.boxes[1].top = std::numeric_limits<float>::quiet_NaN(); },
      [](auto& t) { t.boxes[0].right = std::numeric_limits<float>::infinity(); },
      [](auto& t) { t.points[0].x = -1e30F; },
      [](auto& t) { t.outlines->numbers[2] = std::numeric_limits<int32_t>::min(); },
  };
  for (const auto& change : changes) {
    feed::Targets changed = targets();
    change(changed);
    EXPECT_EQ(base::status_of(decode_targets(*table_of(changed).bytes)).code(), Code::kInvalid);
  }
}

TEST(Tables, SumsOfWeightsGrow) {
  for (const std::vector<uint64_t>& ends :
       std::vector<std::vector<uint64_t>>{{}, {0, 0}, {2, 1}, {5, 3, 9}}) {
    EXPECT_FALSE(feed::SampleWeights::from_ends(ends));
  }
  EXPECT_EQ(feed::SampleWeights::from_ends({0, 4}).value().draw(1, 0, 0), 1u);
}

}  // namespace
}  // namespace forebay::prep
