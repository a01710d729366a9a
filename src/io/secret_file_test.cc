#include "io/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/checksum.h"
#include "io/file_system.h"

namespace forebay::io {
namespace {

using base::Code;
using base::Status;
using testing::HasSubstr;

class SecretFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override {
    std::filesystem::remove_all(root_);
    ::unsetenv("XDG_STATE_HOME");
  }
  std::string path(const std::string& name) const { return join_path(root_, name); }

  const std::string root_ =
      std::filesystem::temp_directory_path() / fmt::format("forebay_secret_test_{}", ::getpid());
};

TEST_F(SecretFileTest, ANewFileIsForThisUserAlone) {
  ASSERT_TRUE(make_secret_file(path("secret")).ok());
  struct stat info{};
  ASSERT_EQ(::stat(path("secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto secret = read_secret_file(path("secret"));
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->size(), 64u);
  const Status again = make_secret_file(path("secret"));
  EXPECT_EQ(again.code(), Code::kExists);
  EXPECT_THAT(again.message(), HasSubstr("secret is there already; name a new file"));
  EXPECT_EQ(*read_secret_file(path("secret")), *secret) << "the file was replaced";
  ASSERT_TRUE(make_secret_file(path("other")).ok());
  EXPECT_NE(*read_secret_file(path("other")), *secret);
  EXPECT_EQ(make_secret_file(path("none/secret")).code(), Code::kNotFound);
}

TEST_F(SecretFileTest, AFileThatOthersCanReadIsRefused) {
  ASSERT_TRUE(make_secret_file(path("secret")).ok());
  for (const mode_t mode : {0644U, 0640U, 0604U, 0620U, 0602U}) {
    ASSERT_EQ(::chmod(path("secret").c_str(), mode), 0);
    const auto secret = read_secret_file(path("secret"));
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().code(), Code::kInvalid);
    EXPECT_NE(secret.error().message().find("chmod 600"), std::string::npos);
  }
  ASSERT_EQ(::chmod(path("secret").c_str(), 0400), 0);
  EXPECT_TRUE(read_secret_file(path("secret")));
}

TEST_F(SecretFileTest, LineBreaksAtTheEndAreNoPartOfIt) {
  ASSERT_TRUE(posix_file_system().put(path("secret"), base::as_bytes("a secret \n\r\n")).ok());
  ASSERT_EQ(::chmod(path("secret").c_str(), 0600), 0);
  EXPECT_EQ(read_secret_file(path("secret"))->reveal(), "a secret ");
}

TEST_F(SecretFileTest, TheUsersOwnSecretIsMadeOnce) {
  ::setenv("XDG_STATE_HOME", root_.c_str(), 1);
  EXPECT_EQ(own_secret(false).error().code(), Code::kNotFound);
  const auto made = own_secret(true);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->size(), 64u);
  EXPECT_EQ(*own_secret(true), *made);
  EXPECT_EQ(*own_secret(false), *made);
  EXPECT_EQ(posix_file_system().list(path("forebay"))->size(), 1u) << "unfinished files are left";
}

TEST(Stretched, IsTheSameForTheSameSecretOnly) {
  const auto one = stretched(Secret("correct horse battery staple"));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->size(), 32u);
  EXPECT_EQ(*stretched(Secret("correct horse battery staple")), *one);
  EXPECT_NE(*stretched(Secret("correct horse battery stapl")), *one);
  // Computed with Python's hashlib.scrypt(b"correct horse battery staple", salt=b"forebay secret
  // 1", n=32768, r=8, p=1, maxmem=64 << 20, dklen=32).
  EXPECT_EQ(base::to_hex(base::as_bytes(one->reveal())),
            "90783ce193f46c6ec6b7e155d21263e5227c2ba1ff789187a0cf720ffe3607f4");
}

TEST(Stretched, TokensDifferByPurpose) {
  const Secret secret("the secret of this test");
  EXPECT_EQ(token_of(secret, "pages").size(), 64u);
  EXPECT_NE(token_of(secret, "pages"), token_of(secret, "other"));
}

}  // namespace
}  // namespace forebay::io
