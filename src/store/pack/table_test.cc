#include "store/pack/table.h"

#include <gmock/gmock.h>

#include "io/testing/memory.h"

namespace forebay::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Row = Table::Row;

Result<Table> read(const std::string& name, const std::string& text) {
  io::MemoryFileSystem fs;
  EXPECT_TRUE(fs.put(name, base::as_bytes(text)).ok());
  return read_table(fs, name);
}

// RFC 4180, and what spreadsheets add: a byte order mark, line ends of both kinds, empty lines.
TEST(Table, IsCsv) {
  const auto found = read("t.csv",
                          "\xEF\xBB\xBFid,\"a \"\"name\"\"\",\r\n"
                          "1,\"x,\ny\",\n\n2,,\"\"\r\n3, z ,é");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(found->columns, ElementsAre("id", "a \"name\"", ""));
  EXPECT_THAT(found->rows, ElementsAre(Row{"1", "x,\ny", std::nullopt},
                                       Row{"2", std::nullopt, std::nullopt}, Row{"3", " z ", "é"}));
  EXPECT_EQ(found->column("a \"name\""), 1u);
  EXPECT_EQ(found->column("b"), std::nullopt);
  EXPECT_THAT(read("t.TSV", "a\tb\n1,2\t3\n")->rows, ElementsAre(Row{"1,2", "3"}));
}

TEST(Table, IsJsonLines) {
  const auto found = read("t.jsonl",
                          "{\"a\": \"x\", \"b\": 1.5}\n\n{\"c\": [1, \"é\"], \"a\": null, \"b\": "
                          "true}\r\n");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(found->columns, ElementsAre("a", "b", "c"));
  EXPECT_THAT(found->rows,
              ElementsAre(Row{"x", "1.5", std::nullopt}, Row{std::nullopt, "true", "[1,\"é\"]"}));
}

TEST(Table, SaysWhatIsMalformed) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"t.csv", "", "it has no rows"},
      {"t.csv", "a,b\n", "it has no rows"},
      {"t.csv", "a,a\n1,2\n", "line 1 must name the columns, each once"},
      {"t.csv", "a,b\n1,2\n1\n", "line 3 has 1 field, but line 1 names 2 columns"},
      {"t.csv", "a,b\n1,\"2\n\n", "line 2: a quote that does not end"},
      {"t.csv", "a,b\n\"1\" ,2\n", "line 2: text after the end of a quote"},
      {"t.csv", "a,b\n1,\xFF\n", "it is not UTF-8"},
      {"t.jsonl", "{\"a\": 1}\n[1]\n", "line 2 is no JSON object"},
      {"t.jsonl", "{\"a\": 1\n", "line 1 is no JSON object"},
      {"t.jsonl", "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}\n",
       "line 1 has more than 64 nested lists"},
      {"t.xlsx", "a,b\n1,2\n", "a table is a file named .csv"},
  };
  for (const auto& [name, text, message] : cases) {
    const auto found = read(name, text);
    ASSERT_FALSE(found) << text;
    EXPECT_THAT(found.error().message(), HasSubstr(message));
    EXPECT_THAT(found.error().message(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace forebay::store
