// Members that send wrong bytes or cannot read what they hold, and processes that pretend to be
// members.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <boost/asio/ip/udp.hpp>
#include <filesystem>

#include "cache/cache.h"
#include "cache/cached_origin.h"
#include "cache/testing/job_secret.h"
#include "io/machine.h"
#include "io/testing/comes_true.h"
#include "io/testing/far_origin.h"
#include "io/testing/memory.h"
#include "io/testing/raw_client.h"

namespace forebay::cache {
namespace {

constexpr uint64_t kFileBytes = 40'000'000;  // three pieces
const std::string kPath = "/set/chunks/0.tar";
const io::Secret kSecret = job_secret();

class CacheFaultsTest : public ::testing::Test {
 protected:
  CacheFaultsTest()
      : folder_(::testing::TempDir() + "/cache_faults_test_" + std::to_string(::getpid())) {
    base::ByteVector content(kFileBytes);
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * i / 1000);
    EXPECT_TRUE(disk_.put(kPath, content).ok());
  }
  ~CacheFaultsTest() override { std::filesystem::remove_all(folder_); }

  struct Machine {
    std::shared_ptr<Cache> cache;
    std::unique_ptr<CachedOrigin> origin;
  };
  Machine start(const std::string& name, const io::Secret& secret = {},
                const std::string& address = "127.0.0.1") {
    auto cache = Cache::open({.folder = folder_ + "/" + name,
                              .disk_bytes_max = 1u << 30,
                              .address = address,
                              .secret = secret});
    EXPECT_TRUE(cache.has_value()) << base::status_of(cache).message();
    return {*cache, std::make_unique<CachedOrigin>(far_, *cache, "/set")};
  }
  // Reads the file and compares its bytes.
  void read_all(const Machine& machine) {
    const auto file = machine.origin->open(
        kPath, {.known = io::Identity{.size = kFileBytes}, .copies = io::Copies::kAny});
    base::ByteVector out(kFileBytes);
    ASSERT_TRUE(io::read_ranges(**file, {{0, out}}).ok());
    ASSERT_TRUE(std::ranges::equal(out, disk_.content(kPath)));
  }

  const std::string folder_;
  io::MemoryFileSystem disk_;
  std::shared_ptr<io::FarOrigin> far_ = std::make_shared<io::FarOrigin>(disk_);
};

TEST_F(CacheFaultsTest, WhatAMemberHoldsAndCannotReadIsFetchedAnew) {
  const Machine first = start("one");
  const Machine second = start("one");
  read_all(second);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/one/held")) {
    if (entry.path().filename().string().size() != 64) continue;
    std::filesystem::resize_file(entry.path(), 20'500'000);
  }
  for (int i = 0; i < 2; ++i) {
    read_all(second);
    EXPECT_EQ(second.cache->stats().peers.failures, 0u);
    EXPECT_EQ(second.cache->stats().origin_bytes, 0u);
    EXPECT_LE(first.cache->stats().origin_bytes, 2 * kFileBytes - 20'000'000);
  }
}

TEST_F(CacheFaultsTest, MoreRangesThanARequestMayHaveAreSeveralRequests) {
  const Machine first = start("one");
  const Machine second = start("one");
  const auto file = second.origin->open(
      kPath, {.known = io::Identity{.size = kFileBytes}, .copies = io::Copies::kAny});
  base::ByteVector out(2000);
  std::vector<io::Range> ranges;
  for (size_t i = 0; i < 200; ++i) {
    ranges.push_back({1000 * i, base::MutableBytes(out).subspan(10 * i, 10)});
  }
  for (int i = 0; i < 2; ++i) {
    std::ranges::fill(out, uint8_t{0});
    ASSERT_TRUE(io::read_ranges(**file, ranges).ok());
    for (const io::Range& range : ranges) {
      EXPECT_TRUE(std::equal(range.out.begin(), range.out.end(),
                             disk_.content(kPath).begin() + static_cast<int64_t>(range.offset)));
    }
  }
  const CacheStats stats = second.cache->stats();
  EXPECT_EQ(stats.peers.failures, 0u);
  EXPECT_EQ(stats.peers.hit_bytes, 2 * out.size());
  EXPECT_EQ(stats.origin_bytes, 0u);
}

TEST_F(CacheFaultsTest, WrongBytesThatAnotherProcessHoldsAreForgotten) {
  const Machine first = start("one");
  const Machine second = start("one");
  far_->damage("0.tar", 1);
  const auto read = [&](io::Copies copies) {
    const auto file =
        second.origin->open(kPath, {.known = io::Identity{.size = kFileBytes}, .copies = copies});
    base::ByteVector out(1000);
    EXPECT_TRUE((*file)->read(5000, out).ok());
    return std::equal(out.begin(), out.end(), disk_.content(kPath).begin() + 5000);
  };
  EXPECT_FALSE(read(io::Copies::kAny));
  EXPECT_TRUE(read(io::Copies::kAnew));
  const uint64_t before = first.cache->stats().origin_bytes;
  // For a moment the first process is not asked.
  EXPECT_TRUE(io::testing::comes_true([&] {
    EXPECT_TRUE(read(io::Copies::kAny));
    return first.cache->stats().origin_bytes > before;
  }));
}

TEST_F(CacheFaultsTest, MembersAreReachedByIpv6) {
  const Machine first = start("one", kSecret, "::1");
  const Machine second = start("two", kSecret, "::1");
  second.cache->join({first.cache->machine(), second.cache->machine()});
  ASSERT_TRUE(io::testing::comes_true([&] { return first.cache->stats().members == 2; }));
  for (const Machine* machine : {&first, &second}) read_all(*machine);
  EXPECT_EQ(first.cache->stats().origin_bytes + second.cache->stats().origin_bytes, kFileBytes);
  EXPECT_EQ(first.cache->stats().peers.failures, 0u);
  EXPECT_EQ(second.cache->stats().peers.failures, 0u);
}

// What another user of this machine can send to a job without a secret.
std::string tagged_without_secret(const base::ByteVector& message) {
  const std::string said(base::as_text(message));
  const std::string text = "forebay datagrams 1" + said;
  std::string tag(32, 0);
  ::HMAC(EVP_sha256(), "", 0, base::as_bytes(text).data(), text.size(),
         reinterpret_cast<uint8_t*>(tag.data()), nullptr);
  return tag + said;
}

TEST_F(CacheFaultsTest, WithoutASecretNobodySaysWhoIsAMember) {
  const Machine machine = start("one");
  const std::string datagram = tagged_without_secret(
      encode_message({.from = {.id = "x", .host = "127.0.0.1", .port = 9, .room_bytes = 1u << 30},
                      .sequence = 1}));
  boost::asio::io_context context;
  boost::asio::ip::udp::socket socket(context, boost::asio::ip::udp::v4());
  const boost::asio::ip::udp::endpoint to(boost::asio::ip::address_v4::loopback(),
                                          machine.cache->machine().port);
  for (int i = 0; i < 100; ++i) {
    boost::system::error_code ignored;  // nobody listens
    socket.send_to(boost::asio::buffer(datagram), to, 0, ignored);
    ::usleep(1000);
    ASSERT_EQ(machine.cache->stats().members, 1u);
  }
}

TEST_F(CacheFaultsTest, AMemberWhoseHostIsNoAddressIsNotReached) {
  const Machine machine = start("one", kSecret);
  const Machine other = start("other", kSecret);
  Member liar = other.cache->machine();
  liar.room_bytes = UINT64_MAX;  // it owns everything
  liar.host = fmt::format("127.0.0.1:{}/set?", liar.port);
  liar.port = 9;
  machine.cache->join({machine.cache->machine(), liar});
  read_all(machine);
  EXPECT_EQ(machine.cache->stats().peers.hit_bytes, 0u);
  EXPECT_EQ(other.cache->stats().served.requests, 0u);
  EXPECT_EQ(other.cache->stats().served.refused, 0u);
}

}  // namespace
}  // namespace forebay::cache
