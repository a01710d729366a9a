#include "prep/wire/paths.h"

#include <gtest/gtest.h>

namespace forebay::prep {
namespace {

TEST(Paths, ComeBack) {
  for (const auto& [asked, end] : kStepEnds) {
    const auto step = parse_step(text_of({.job = "ab", .epoch = 3, .step = 17, .asked = asked}));
    ASSERT_TRUE(step) << end;
    EXPECT_EQ(std::tie(step->job, step->epoch, step->step, step->asked),
              std::make_tuple("ab", 3u, 17u, asked));
  }
  EXPECT_EQ(parse_stay(stay_path("ab")), "ab");
  const auto piece = parse_piece(text_of(TablePiece{.table = "ff", .bytes = 9, .offset = 4}));
  ASSERT_TRUE(piece);
  EXPECT_EQ(std::tie(piece->table, piece->bytes, piece->offset), std::make_tuple("ff", 9u, 4u));
  for (const std::string table : {"ff", ""}) {
    const auto list = parse_list(text_of(ListPath{.job = "ab", .epoch = 2, .table = table}));
    ASSERT_TRUE(list);
    EXPECT_EQ(std::tie(list->job, list->epoch, list->table), std::make_tuple("ab", 2u, table));
  }
}

TEST(Paths, OthersAreNone) {
  for (const char* path : {"",
                           "/",
                           "/prep/",
                           "/prep/ab",
                           "/prep/ab/",
                           "/prep/ab/1",
                           "/prep/ab/1/",
                           "/prep/ab/1/x",
                           "/prep/ab/1/-2",
                           "/prep/ab/1/2/",
                           "/prep/ab/1/2/sent",
                           "/prep/ab/1/2/file/",
                           "/other/ab/1/2",
                           "/prep/ab/99999999999999999999/2",
                           "/prep/ab/4294967296/2",
                           "/prep/tables/ff/9",
                           "/prep/tables/ff/9/x",
                           "/prep/other/ff/9/4",
                           "/prep/ab/x/list/ff",
                           "/prep/ab/1/lists/ff",
                           "/prep/ab/1/list",
                           "/prep/ab/1/list/ff/g",
                           "/prep/ab/stay/1"}) {
    EXPECT_FALSE(parse_step(path) || parse_stay(path) || parse_piece(path) || parse_list(path))
        << path;
  }
}

}  // namespace
}  // namespace forebay::prep
