#include "io/http/url.h"

#include <gtest/gtest.h>

namespace forebay::io::http {
namespace {

TEST(Url, UsersAndPasswordsAreRemovedFromMessages) {
  const std::pair<const char*, const char*> cases[] = {
      {"Could not resolve proxy: proxy", "Could not resolve proxy: proxy"},
      {"'http://me:word@proxy:99999': bad", "'http://proxy:99999': bad"},
      {"(socks9://me:p@ss@proxy) and me:word@other:1", "(socks9://proxy) and other:1"},
      {"a@b", "b"},
      {"", ""},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(without_user(text), expected);
}

}  // namespace
}  // namespace forebay::io::http
