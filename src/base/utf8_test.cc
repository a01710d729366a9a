// Text that is not UTF-8 is recognised and shown by its bytes.
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

TEST(Utf8, WhatIsNoneIsShownByItsBytes) {
  for (const std::string_view good : {"", "plain", "\u00fcmlaut/\u65e5\u672c \U0001f600"}) {
    EXPECT_TRUE(is_utf8(good));
    EXPECT_EQ(to_utf8(good), good);
  }
  // The texts are, in order: Latin-1; an overlong slash; a surrogate; a code point beyond the last
  // one; a truncated character.
  EXPECT_EQ(to_utf8("caf\xe9.jpg"), "caf\\xe9.jpg");
  for (const std::string_view bad : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe6\x97"}) {
    EXPECT_FALSE(is_utf8(bad));
    EXPECT_TRUE(is_utf8(to_utf8(bad)));
  }
}

}  // namespace
}  // namespace forebay::base
