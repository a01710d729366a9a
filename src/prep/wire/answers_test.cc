#include "prep/wire/answers.h"

#include <gtest/gtest.h>

namespace forebay::prep {
namespace {

const std::string kName(64, 'a');

TEST(Answers, AreReadAsTheyWereWritten) {
  for (const JobAnswer& answer :
       {JobAnswer{.job = kName, .keeps = 7},
        JobAnswer{.job = kName, .keeps_files = 9, .folder = "/mnt/ü", .mark = kName}}) {
    EXPECT_EQ(decode_job_answer(encode(answer)).value(), answer);
  }
  const FileAnswer file{.name = kName, .bytes = 1'000'000};
  EXPECT_EQ(decode_file_answer(encode(file)).value(), file);
}

TEST(Answers, OthersAreRefused) {
  for (const std::string text :
       {"", "x", "{}", "[]", R"({"job":1,"keeps":1,"keeps_files":0,"folder":"","mark":""})",
        R"({"job":"","keeps":1,"keeps_files":0,"folder":"/a","mark":""})",
        R"({"job":"","keeps":1,"keeps_files":0,"folder":"","mark":"","more":1})"}) {
    EXPECT_EQ(decode_job_answer(text).error().code(), base::Code::kCorrupt) << text;
    EXPECT_EQ(decode_file_answer(text).error().code(), base::Code::kCorrupt) << text;
  }
  // Names must not lead out of the folder.
  const JobAnswer relative{.job = kName, .folder = "mnt", .mark = kName};
  EXPECT_FALSE(decode_job_answer(encode(relative)));
  const JobAnswer outside{.job = kName, .folder = "/mnt", .mark = "../x"};
  EXPECT_FALSE(decode_job_answer(encode(outside)));
  EXPECT_FALSE(decode_file_answer(encode(FileAnswer{.name = "../../etc/passwd", .bytes = 1})));
}

}  // namespace
}  // namespace forebay::prep
