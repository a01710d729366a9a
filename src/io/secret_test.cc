#include "io/secret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace forebay::io {
namespace {

template <class T>
concept Streams = requires(std::ostream& out, const T& value) { out << value; };

static_assert(!fmt::is_formattable<Secret>::value);
static_assert(!Streams<Secret>);
static_assert(!std::is_convertible_v<Secret, std::string_view>);
static_assert(!std::is_convertible_v<std::string, Secret>);

TEST(Secret, GTestDoesNotPrintItEither) {
  EXPECT_EQ(testing::PrintToString(Secret("hush-hush-hush-hush")).find("hush"), std::string::npos);
}

TEST(Secret, TakingOverwritesTheSource) {
  std::string text = "hush-a-secret-that-is-longer-than-a-short-string";
  const char* const memory = text.data();
  const size_t bytes = text.size();
  const Secret secret = Secret::take(text);
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(std::string(memory + 1, bytes - 1), std::string(bytes - 1, '\0'));
  EXPECT_EQ(secret.reveal(), "hush-a-secret-that-is-longer-than-a-short-string");
}

TEST(Secret, CopiesMovesAndGrows) {
  Secret first("hush");
  Secret second = first;
  second.append("-more");
  EXPECT_EQ(first.reveal(), "hush");
  EXPECT_EQ(second.reveal(), "hush-more");
  const char* const memory = second.reveal().data();
  const Secret third = std::move(second);
  EXPECT_EQ(third.reveal().data(), memory);
  first = third;
  EXPECT_EQ(first, third);
  EXPECT_FALSE(first == Secret("hush"));
  EXPECT_TRUE(Secret().empty());
}

}  // namespace
}  // namespace forebay::io
