// Without TLS, a process of a job serves only processes of its own user, which read the secret in
// the machine's folder.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/checksum.h"
#include "cache/cache.h"
#include "cache/cached_origin.h"
#include "cache/members/machine_folder.h"
#include "cache/peers/file_name.h"
#include "cache/peers/peers.h"
#include "io/serve/own_user.h"
#include "io/testing/comes_true.h"
#include "io/testing/far_origin.h"
#include "io/testing/http_listener.h"
#include "io/testing/memory.h"
#include "io/testing/raw_client.h"

namespace forebay::cache {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kPath = "/set/chunk.tar";

class LocalSecretTest : public ::testing::Test {
 protected:
  LocalSecretTest()
      : folder_(::testing::TempDir() + "/local_secret_test_" + std::to_string(::getpid())) {
    EXPECT_TRUE(disk_.put(kPath, base::as_bytes("these are the job's data")).ok());
  }
  ~LocalSecretTest() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<Cache> start(bool is_daemon) {
    auto cache =
        Cache::open({.folder = folder_, .disk_bytes_max = 1'000'000, .for_all_jobs = is_daemon});
    EXPECT_TRUE(cache.has_value()) << base::status_of(cache).message();
    origin_ = std::make_unique<CachedOrigin>(far_, *cache, "/set");
    return *cache;
  }
  Notice notice() const { return *MachineFolder::open(folder_).value()->read(); }
  static std::string ask(uint16_t port, const std::string& path, const std::string& headers) {
    const std::string target =
        path == kFiguresTarget ? path : encode_target({.path = path, .identity = {.size = 24}});
    return io::testing::exchange(port, fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}"
                                                   "Range: bytes=0-9\r\n\r\n",
                                                   target, headers));
  }
  static std::string bearer(const io::Secret& secret) {
    return fmt::format("Authorization: Bearer {}\r\n", io::serve::proofs_from(secret).of_client);
  }

  const std::string folder_;
  io::MemoryFileSystem disk_;
  std::shared_ptr<io::FarOrigin> far_ = std::make_shared<io::FarOrigin>(disk_);
  std::unique_ptr<CachedOrigin> origin_;
};

TEST_F(LocalSecretTest, OnlyWhoHasTheSecretIsServed) {
  for (const bool is_daemon : {false, true}) {
    const auto cache = start(is_daemon);
    const Notice notice = this->notice();
    const auto proofs = io::serve::proofs_from(notice.local_secret);
    std::vector<uint16_t> ports = {notice.machine.port};
    if (is_daemon) ports.push_back(notice.local_port);
    for (const uint16_t port : ports) {
      for (const std::string& path : {std::string(kPath), std::string(kFiguresTarget)}) {
        for (const std::string& headers :
             {std::string(), bearer(io::Secret("another")),
              std::string("Authorization: Bearer \r\n"),
              fmt::format("Authorization: Bearer {}\r\n", notice.local_secret.reveal()),
              fmt::format("Authorization: Bearer {}\r\n", proofs.of_server),
              fmt::format("Authorization: {}\r\n", proofs.of_client),
              fmt::format("Authorization: Bearer {}\r\n", proofs.of_client.substr(0, 63))}) {
          const std::string answer = ask(port, path, headers);
          EXPECT_THAT(answer, StartsWith("HTTP/1.1 401")) << headers;
          EXPECT_THAT(answer, Not(HasSubstr(proofs.of_server)));
        }
        EXPECT_THAT(ask(port, path, bearer(notice.local_secret)), StartsWith("HTTP/1.1 206"));
      }
    }
    EXPECT_THAT(ask(ports.back(), kPath, bearer(notice.local_secret)), HasSubstr("these are "));
    origin_.reset();
  }
}

TEST_F(LocalSecretTest, EachServerHasASecretOfItsOwn) {
  auto cache = start(false);
  const io::Secret first = notice().local_secret;
  EXPECT_EQ(first.size(), 64u);
  origin_.reset();
  cache.reset();
  cache = start(false);
  EXPECT_NE(notice().local_secret, first);
}

TEST_F(LocalSecretTest, FilesOfOtherPlacesAreNotServed) {
  const auto cache = start(false);
  ASSERT_TRUE(disk_.put("/secret/key", base::as_bytes("12345")).ok());
  ASSERT_TRUE(disk_.put("/settings", base::as_bytes("12345")).ok());
  const std::string own = bearer(notice().local_secret);
  for (const char* path : {"/secret/key", "/settings", "/se", "/set/../secret/key", "/set/./a"}) {
    EXPECT_THAT(ask(cache->machine().port, path, own), StartsWith("HTTP/1.1 404")) << path;
  }
}

// When the process that serves dies, any user's process may get its port.
TEST_F(LocalSecretTest, AnAnswerWithoutTheServersProofIsNotTaken) {
  const io::Secret secret("of the server that has died");
  const auto proofs = io::serve::proofs_from(secret);
  std::string proof;
  const io::HttpListener stranger([&](const io::HeardRequest&) {
    return io::Reply{
        .status = 206,
        .body = "wrong",
        .headers = fmt::format("Content-Range: bytes 0-4/24\r\nForebay-Crc32c: {:08x}\r\n{}",
                               base::crc32c(base::as_bytes("wrong")), proof)};
  });
  const uint16_t port = static_cast<uint16_t>(std::stoi(stranger.url().substr(17)));
  const Member member{.id = "dead", .host = "127.0.0.1", .port = port};
  for (const auto& [text, brought] :
       {std::pair{std::string(), false},
        {"Forebay-Proof: \r\n", false},
        {fmt::format("Forebay-Proof: {}\r\n", proofs.of_client), false},
        {fmt::format("Forebay-Proof: {}\r\n", proofs.of_server), true}}) {
    proof = text;
    Peers peers(nullptr);
    peers.keep_only({member}, false, secret);
    std::string out(5, '\0');
    std::atomic<int> rest = -1;
    peers.read(member, Peers::What::kAll, "/a", 24,
               {{0, {reinterpret_cast<uint8_t*>(out.data()), out.size()}}}, {},
               [&](const Status&, const std::vector<io::Range>& left) {
                 rest = static_cast<int>(left.size());
               });
    ASSERT_TRUE(io::testing::comes_true([&] { return rest >= 0; }));
    EXPECT_EQ(rest, brought ? 0 : 1) << text;
  }
  for (const io::HeardRequest& heard : stranger.heard()) {
    EXPECT_EQ(heard.headers.at("authorization"), "Bearer " + proofs.of_client);
  }
}

}  // namespace
}  // namespace forebay::cache
