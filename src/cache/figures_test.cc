#include "cache/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/limits.h"

namespace forebay::cache {
namespace {

using base::Code;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Figures some_figures() {
  return {.machine = "host",
          .address = "10.0.0.1:7400",
          .folder = "/nvme/forebay-cache",
          .datasets = {"s3://bucket/set/", "/data/<b>\"set\"</b>/"},
          .trouble = "No space left\non the disk",
          .uptime_ms = 12'345,
          .members = 2,
          .disk_held_bytes = 5,
          .origin_bytes = UINT64_MAX};
}

TEST(FiguresTest, OthersReadWhatIsTold) {
  const std::string text = padded_figures(some_figures());
  EXPECT_EQ(text.size(), base::kFiguresBytesMax);
  const auto read = decode_figures(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, some_figures());
}

TEST(FiguresTest, TheWorstTextsHaveRoom) {
  Figures figures = some_figures();
  figures.machine = figures.address = figures.folder = figures.trouble = std::string(5000, '\x01');
  figures.datasets.assign(100, std::string(5000, '\xff'));
  const auto read = decode_figures(padded_figures(figures));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->trouble, std::string(base::kFiguresTextBytesMax, '\x01'));
  EXPECT_EQ(read->datasets.size(), base::kFiguresDatasetsMax);
  EXPECT_THAT(read->datasets[0], StartsWith("\xef\xbf\xbd\xef\xbf\xbd"));
}

TEST(FiguresTest, WhatIsNotExactlyThatIsRefused) {
  const auto code = [](const std::string& text) {
    return base::status_of(decode_figures(text)).code();
  };
  const nlohmann::json good = encode_figures(some_figures());
  EXPECT_EQ(code(good.dump()), Code::kOk);
  for (const char* text : {"", "{}", "[]", "null", "{", "\xff", "{\"machine\": \"x\"}"}) {
    EXPECT_EQ(code(text), Code::kCorrupt) << text;
  }
  EXPECT_EQ(code(std::string(base::kFiguresBytesMax, '[')), Code::kCorrupt);
  EXPECT_EQ(code(good.dump() + std::string(base::kFiguresBytesMax, ' ')), Code::kCorrupt);
  for (const auto& [name, value] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(name);
    EXPECT_EQ(code(bad.dump()), Code::kCorrupt) << name;
    bad["other"] = value;
    EXPECT_EQ(code(bad.dump()), Code::kCorrupt) << name;
    for (const nlohmann::json& other : {nlohmann::json(-1), nlohmann::json(1.5),
                                        nlohmann::json(nullptr), nlohmann::json{{"a", 1}}}) {
      bad = good;
      bad[name] = other;
      EXPECT_EQ(code(bad.dump()), Code::kCorrupt) << name << " " << other;
    }
  }
  nlohmann::json bad = good;
  bad["trouble"] = std::string(3 * base::kFiguresTextBytesMax + 1, 'x');
  EXPECT_EQ(code(bad.dump()), Code::kCorrupt);
  bad = good;
  bad["datasets"] = std::vector<std::string>(base::kFiguresDatasetsMax + 1, "x");
  EXPECT_EQ(code(bad.dump()), Code::kCorrupt);
  bad["datasets"] = {1, 2};
  EXPECT_EQ(code(bad.dump()), Code::kCorrupt);
}

TEST(FiguresTest, PrometheusHasEachMetricOnce) {
  const std::string text = metrics_text(some_figures());
  EXPECT_THAT(text, HasSubstr("# TYPE forebay_cache_read_bytes_total counter\n"
                              "forebay_cache_read_bytes_total{from=\"memory\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("{from=\"origin\"} 18446744073709551615\n"));
  EXPECT_THAT(text, HasSubstr("forebay_cache_uptime_seconds 12.345\n"));
  EXPECT_THAT(text, HasSubstr("forebay_cache_trouble 1\n"));
  // No name of a machine, and no message, is in it.
  EXPECT_EQ(text.find("host"), std::string::npos);
  EXPECT_EQ(text.find("No space"), std::string::npos);
}

}  // namespace
}  // namespace forebay::cache
