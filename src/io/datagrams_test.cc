#include "io/datagrams.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <thread>

#include "io/machine.h"

namespace forebay::io {
namespace {

using base::Code;

constexpr const char* kHere = "127.0.0.1";
constexpr int64_t kSecondNs = 1'000'000'000;
const Secret kSecret("the secret of this job");

std::unique_ptr<Datagrams> open(const Secret& secret) {
  return std::move(Datagrams::open(kHere, 0, secret).value());
}
int64_t in(int64_t ns) { return monotonic_ns() + ns; }

TEST(DatagramsTest, WhatTheJobSendsComes) {
  const auto one = open(kSecret);
  const auto other = open(kSecret);
  const base::ByteVector sent(1200, 5);
  one->send(kHere, other->port(), sent);
  EXPECT_EQ(other->receive(in(5 * kSecondNs)), sent);
  EXPECT_EQ(other->receive(in(0)), std::nullopt);
}

TEST(DatagramsTest, WhatOthersSendIsDropped) {
  const auto own = open(kSecret);
  open(Secret("the secret of that job"))->send(kHere, own->port(), base::ByteVector(100));
  boost::asio::io_context context;
  boost::asio::ip::udp::socket stranger(context, boost::asio::ip::udp::v4());
  for (const size_t length : {0u, 1u, 32u, 33u, 500u, 1232u, 1233u, 5000u}) {
    stranger.send_to(boost::asio::buffer(base::ByteVector(length)),
                     {boost::asio::ip::make_address(kHere), own->port()});
  }
  EXPECT_EQ(own->receive(in(kSecondNs / 5)), std::nullopt);
  open(kSecret)->send(kHere, own->port(), base::ByteVector(1, 3));
  EXPECT_EQ(own->receive(in(5 * kSecondNs)), base::ByteVector(1, 3));
}

TEST(DatagramsTest, AWaitCanBeEnded) {
  const auto own = open(kSecret);
  const int64_t begin_ns = monotonic_ns();
  const std::jthread waker([&] { own->wake(); });
  EXPECT_EQ(own->receive(in(60 * kSecondNs)), std::nullopt);
  EXPECT_LT(monotonic_ns() - begin_ns, 30 * kSecondNs);
}

TEST(DatagramsTest, WithoutASecretNobodyIsHeard) {
  for (const char* const address : {"127.0.0.1", "0.0.0.0", "192.0.2.1", "::"}) {
    EXPECT_EQ(base::status_of(Datagrams::open(address, 0, Secret())).code(), Code::kInvalid);
  }
  EXPECT_FALSE(Datagrams::open("nobody", 0, kSecret).has_value());
  EXPECT_FALSE(Datagrams::open("192.0.2.1", 0, kSecret).has_value());
}

TEST(DatagramsTest, AnAddressIsANumberAndNothingElse) {
  for (const std::string text : {"127.0.0.1", "10.0.0.1", "::1", "fe80::1"}) {
    EXPECT_EQ(address_number(text), text);
  }
  for (const char* const text :
       {"", "localhost", "127.0.0.1:80", "127.0.0.1/a?", "[::1]", "fe80::1%/a?", "1@2.3.4.5"}) {
    EXPECT_EQ(address_number(text), "") << text;
  }
}

}  // namespace
}  // namespace forebay::io
