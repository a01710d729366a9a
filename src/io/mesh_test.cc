// Several meshes in one process, each used by threads of its own.
#include "io/mesh.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/random.h"
#include "io/testing/meshes.h"

namespace forebay::io {
namespace {

using base::ByteVector;
using base::Code;
using testing::connected_meshes;
using ::testing::HasSubstr;
using testing::in_each;
using testing::listening_meshes;
using testing::Meshes;
using testing::places_of;
using testing::seconds_from_now;
using Channel = Mesh::Channel;

constexpr Channel kEveryChannel[] = {Channel::kMessages, Channel::kSums, Channel::kControl};

// The first bytes of a connection, as mesh.cc writes them.
std::string hello(char token, uint32_t rank, uint32_t channel) {
  std::string out = "FBMESH1\n" + std::string(Mesh::kTokenBytes, token);
  out.append(reinterpret_cast<const char*>(&rank), sizeof rank);
  out.append(reinterpret_cast<const char*>(&channel), sizeof channel);
  return out;
}

bool connects(const Descriptor& socket, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

// A connection to a mesh's port that sends some bytes.
class Stranger {
 public:
  Stranger(uint16_t port, const std::string& bytes) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    EXPECT_TRUE(connects(socket_, port));
    const auto bytes_sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_EQ(bytes_sent, static_cast<ssize_t>(bytes.size()));
  }
  // Waits until the mesh sends bytes or ends the connection; returns whether it has sent any.
  bool is_answered() {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, 0) > 0;
  }

 private:
  Descriptor socket_;
};

// What `peer` sends to `rank` in the tests of transfers.
ByteVector bytes_from(uint32_t rank, uint32_t peer, Channel channel, size_t count) {
  base::Random random(static_cast<uint64_t>(channel), base::Purpose::kTest, rank, peer);
  ByteVector out(count);
  for (size_t i = 0; i < count; i += 997) out[i] = static_cast<uint8_t>(random.next_u32());
  return out;
}

// Sends `count` bytes from each to each other, and checks what has arrived at `rank`.
void swap_bytes(Mesh& mesh, Channel channel, size_t count) {
  std::vector<ByteVector> own(mesh.processes());
  std::vector<ByteVector> arrived(mesh.processes(), ByteVector(count));
  std::vector<Mesh::Sending> sending;
  std::vector<Mesh::Receiving> receiving;
  for (uint32_t peer = 0; peer < mesh.processes(); ++peer) {
    if (peer == mesh.rank()) continue;
    own[peer] = bytes_from(mesh.rank(), peer, channel, count);
    const auto all = base::Bytes(own[peer]);
    sending.push_back({.peer = peer, .rest = all.first(count / 3), .then = all.subspan(count / 3)});
    receiving.push_back({.peer = peer, .rest = arrived[peer]});
  }
  const Status status = mesh.transfer(channel, sending, receiving, seconds_from_now(60));
  ASSERT_TRUE(status.ok()) << status.message();
  for (uint32_t peer = 0; peer < mesh.processes(); ++peer) {
    if (peer == mesh.rank()) continue;
    EXPECT_EQ(arrived[peer], bytes_from(peer, mesh.rank(), channel, count));
  }
}

Status receive_one(Mesh& mesh, uint32_t peer, int64_t deadline_ns = INT64_MAX,
                   const Mesh::Look& look = {}) {
  uint8_t byte = 0;
  return mesh.transfer(Channel::kSums, {}, {{.peer = peer, .rest = {&byte, 1}}}, deadline_ns, look);
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(Mesh, OneToFiveProcessesConnectAndExchangeBytes) {
  for (uint32_t processes = 1; processes <= 5; ++processes) {
    const Meshes meshes = connected_meshes(processes);
    in_each(processes, [&](uint32_t rank) {
      for (const Channel channel : kEveryChannel) swap_bytes(*meshes[rank], channel, 1000);
    });
  }
}

TEST(Mesh, ProcessesConnectInAnyOrderOfTheirStart) {
  std::vector<uint32_t> order(3);
  std::iota(order.begin(), order.end(), 0);
  do {
    const Meshes meshes = listening_meshes(3);
    const auto places = places_of(meshes);
    std::vector<std::jthread> threads;
    for (const uint32_t rank : order) {
      threads.emplace_back(
          [&, rank] { EXPECT_TRUE(meshes[rank]->connect(places, seconds_from_now(60)).ok()); });
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST(Mesh, AHigherRankMayDialBeforeTheLowerOneConnects) {
  const Meshes meshes = listening_meshes(2);
  const auto places = places_of(meshes);
  std::vector<Stranger> higher;  // plays rank 1
  for (uint32_t at = 0; at < Mesh::kChannels; ++at) {
    higher.emplace_back(places[0].port, hello('t', 1, at));
  }
  EXPECT_TRUE(meshes[0]->connect(places, seconds_from_now(60)).ok());
  for (Stranger& one : higher) EXPECT_TRUE(one.is_answered());
}

TEST(Mesh, BytesOfAllSizesArriveOverAllChannelsAtOnce) {
  const Meshes meshes = connected_meshes(3);
  std::vector<std::jthread> threads;
  for (const auto& mesh : meshes) {
    for (const Channel channel : kEveryChannel) {
      threads.emplace_back([&mesh, channel] {
        for (const size_t count : {0u, 1u, 2u, 65'536u, 3'000'000u, 1u}) {
          swap_bytes(*mesh, channel, count);
        }
      });
    }
  }
}

TEST(Mesh, OneThreadSendsWhileAnotherReceives) {
  const Meshes meshes = connected_meshes(2);
  constexpr size_t kBytes = 3'000'000;
  const ByteVector zeros(kBytes);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const uint32_t peer = 1 - rank;
    threads.emplace_back([&, rank, peer] {
      EXPECT_TRUE(
          meshes[rank]->transfer(Channel::kMessages, {{.peer = peer, .rest = zeros}}, {}).ok());
    });
    threads.emplace_back([&, rank, peer] {
      ByteVector arrived(kBytes, 1);
      EXPECT_TRUE(
          meshes[rank]->transfer(Channel::kMessages, {}, {{.peer = peer, .rest = arrived}}).ok());
      EXPECT_EQ(arrived, zeros);
    });
  }
}

TEST(Mesh, MoreMemoryIsAskedForUntilThereIsNone) {
  const Meshes meshes = connected_meshes(2);
  const ByteVector sent = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(meshes[0]->transfer(Channel::kSums, {{.peer = 1, .rest = sent}}, {}).ok());
  ByteVector arrived(6);
  size_t asked = 0;
  const auto more = [&]() -> Result<MutableBytes> {
    const size_t part = asked++;
    return part < 3 ? MutableBytes(arrived).subspan(2 * part, 2) : MutableBytes();
  };
  EXPECT_TRUE(
      meshes[1]->transfer(Channel::kSums, {}, {{.peer = 0, .rest = {}, .more = more}}).ok());
  EXPECT_EQ(arrived, sent);
  EXPECT_EQ(asked, 4u);
  const auto refuse = []() -> Result<MutableBytes> { return base::fail(Code::kTooBig, "no"); };
  const Status refused =
      meshes[1]->transfer(Channel::kSums, {}, {{.peer = 0, .rest = {}, .more = refuse}});
  EXPECT_EQ(refused.code(), Code::kTooBig);
}

TEST(Mesh, BytesThatDependOnWhatArrivesAreSentAfterIt) {
  const Meshes meshes = connected_meshes(2);
  ByteVector arrived(3);
  size_t complete = 0;  // of these bytes
  const auto answer = [&, sent = size_t{0}]() mutable -> std::optional<Bytes> {
    if (sent == complete && sent < arrived.size()) return std::nullopt;
    const size_t begin = std::exchange(sent, complete);
    return base::Bytes(arrived).subspan(begin, sent - begin);
  };
  const auto next = [&, asked = size_t{0}]() mutable -> Result<MutableBytes> {
    complete = asked;
    if (asked == arrived.size()) return MutableBytes();
    return MutableBytes(arrived).subspan(asked++, 1);
  };
  std::jthread echo([&] {
    EXPECT_TRUE(meshes[0]
                    ->transfer(Channel::kSums, {{.peer = 1, .rest = {}, .more = answer}},
                               {{.peer = 1, .rest = {}, .more = next}}, seconds_from_now(60))
                    .ok());
  });
  for (uint8_t byte = 7; byte < 10; ++byte) {
    uint8_t answered = 0;
    EXPECT_TRUE(meshes[1]
                    ->transfer(Channel::kSums, {{.peer = 0, .rest = {&byte, 1}}},
                               {{.peer = 0, .rest = {&answered, 1}}}, seconds_from_now(60))
                    .ok());
    EXPECT_EQ(answered, byte);
  }
}

// Connects a job of three processes after these strangers; all strangers must be dropped.
void expect_dropped(const std::vector<std::string>& said) {
  const Meshes meshes = listening_meshes(3);
  const auto places = places_of(meshes);
  std::vector<Stranger> strangers;
  for (const std::string& bytes : said) strangers.emplace_back(places[0].port, bytes);
  in_each(3, [&](uint32_t rank) {
    const Status status = meshes[rank]->connect(places, seconds_from_now(60));
    EXPECT_TRUE(status.ok()) << status.message();
    swap_bytes(*meshes[rank], Channel::kControl, 10);
  });
  for (Stranger& one : strangers) EXPECT_FALSE(one.is_answered());
}

TEST(Mesh, StrangersThatSayNothingAreDropped) { expect_dropped({"", "F", "FBMESH1\n"}); }

TEST(Mesh, StrangersThatSayGarbageAreDropped) {
  expect_dropped({"GET / HTTP/1.1\r\n\r\n", std::string(48, 'x'), std::string(100'000, '\0')});
}

TEST(Mesh, StrangersWithAWrongTokenAreDropped) {
  std::string nearly = hello('t', 1, 0);
  nearly[8 + Mesh::kTokenBytes - 1] = 'u';
  expect_dropped({hello('u', 1, 0), hello('u', 2, 2), nearly});
}

TEST(Mesh, RanksAndChannelsThatTheJobDoesNotHaveAreDropped) {
  expect_dropped({hello('t', 0, 0), hello('t', 3, 0), hello('t', UINT32_MAX, 0), hello('t', 1, 3),
                  hello('t', 2, UINT32_MAX)});
}

TEST(Mesh, AHundredSilentStrangersDoNotKeepTheJobFromConnecting) {
  expect_dropped(std::vector<std::string>(100));
}

TEST(Mesh, NobodyConnectsToACompleteMesh) {
  const Meshes meshes = connected_meshes(2);
  for (const auto& place : places_of(meshes)) {
    EXPECT_FALSE(connects(Descriptor(::socket(AF_INET, SOCK_STREAM, 0)), place.port));
  }
}

TEST(Mesh, AProcessThatDoesNotConnectIsNamedAtTheDeadline) {
  Meshes meshes = listening_meshes(3);
  const auto places = places_of(meshes);
  in_each(2, [&](uint32_t rank) {
    const Status status = meshes[rank]->connect(places, seconds_from_now(0.3));
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("rank 2 did not connect"));
  });
}

TEST(Mesh, AProcessThatDoesNotListenIsNamedAtTheDeadline) {
  Meshes meshes = listening_meshes(2);
  const auto places = places_of(meshes);
  meshes[0].reset();
  const Status status = meshes[1]->connect(places, seconds_from_now(0.1));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 cannot be reached (127.0.0.1 port"));
}

TEST(Mesh, AProcessThatListensButNeverConnectsIsNamedAtTheDeadline) {
  const Meshes meshes = listening_meshes(2);
  const Status status = meshes[1]->connect(places_of(meshes), seconds_from_now(0.1));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 0"));
}

TEST(Mesh, SomethingElseThanTheJobAtAPlaceIsNamed) {
  const Meshes meshes = listening_meshes(2);
  const auto other =
      Mesh::listen({.rank = 0, .processes = 2, .token = std::string(Mesh::kTokenBytes, 'o')});
  auto places = places_of(meshes);
  places[0].port = other.value()->place("127.0.0.1", "")->port;
  std::jthread thread([&] {
    EXPECT_EQ((*other)->connect(places, seconds_from_now(0.5)).code(), Code::kUnavailable);
  });
  const Status status = meshes[1]->connect(places, seconds_from_now(60));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 0"));
}

TEST(Mesh, StopEndsATransferAndAllLaterCalls) {
  const Meshes meshes = connected_meshes(2);
  std::jthread waiting([&] { EXPECT_EQ(receive_one(*meshes[0], 1).code(), Code::kCancelled); });
  std::jthread waiting_for_any([&] {
    const auto any = meshes[0]->wait_for_any(Channel::kMessages, {1}, INT64_MAX);
    EXPECT_EQ(base::status_of(any).code(), Code::kCancelled);
  });
  meshes[0]->stop();
  waiting.join();
  waiting_for_any.join();
  EXPECT_EQ(receive_one(*meshes[0], 1).code(), Code::kCancelled);
  const auto any = meshes[0]->wait_for_any(Channel::kMessages, {1}, INT64_MAX);
  EXPECT_EQ(base::status_of(any).code(), Code::kCancelled);
}

TEST(Mesh, StopEndsConnectForEveryRank) {
  const Meshes meshes = listening_meshes(4);
  auto places = places_of(meshes);
  places[0].addresses = {"127.0.0.1"};
  places[0].port = 1;  // nothing listens there: the others dial again and again
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank) {  // rank 3 does not come
    threads.emplace_back([&, rank] {
      EXPECT_EQ(meshes[rank]->connect(places, INT64_MAX).code(), Code::kCancelled);
    });
  }
  for (const auto& mesh : meshes) mesh->stop();
  threads.clear();
  EXPECT_EQ(meshes[3]->connect(places, INT64_MAX).code(), Code::kCancelled);
}

TEST(Mesh, APeerSeesWhatStopped) {
  const Meshes meshes = connected_meshes(2);
  std::jthread waiting([&] {
    const Status status = receive_one(*meshes[1], 0);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("rank 0"));
  });
  meshes[0]->stop();
}

TEST(Mesh, TellsWhoIsLostAlsoIfBytesHaveNotBeenRead) {
  Meshes meshes = connected_meshes(3);
  EXPECT_THAT(meshes[0]->lost(), ::testing::IsEmpty());
  ByteVector bytes(3);
  ASSERT_TRUE(meshes[1]->transfer(Channel::kControl, {{.peer = 0, .rest = bytes}}, {}).ok());
  EXPECT_THAT(meshes[0]->lost(), ::testing::IsEmpty());
  meshes[1]->stop();
  // The system of loopback hands the end on at once.
  EXPECT_THAT(meshes[0]->lost(), ::testing::ElementsAre(1));
  EXPECT_THAT(meshes[1]->lost(), ::testing::ElementsAre(0, 2));
}

TEST(Mesh, APeerThatIsGoneIsNamed) {
  Meshes meshes = connected_meshes(3);
  std::jthread waiting([&] {
    const Status status = receive_one(*meshes[2], 1);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  });
  meshes[1].reset();
  waiting.join();
  EXPECT_EQ(meshes[0]->wait_for_any(Channel::kSums, {1, 2}, INT64_MAX).value(), 1u);
  const ByteVector much(10'000'000);
  const Status status = meshes[0]->transfer(Channel::kMessages, {{.peer = 1, .rest = much}}, {});
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  in_each(2, [&](uint32_t i) {  // the others go on
    const uint32_t rank = 2 * i;
    uint8_t byte = 0;
    EXPECT_TRUE(meshes[rank]
                    ->transfer(Channel::kControl, {{.peer = 2 - rank, .rest = {&byte, 1}}},
                               {{.peer = 2 - rank, .rest = {&byte, 1}}})
                    .ok());
  });
}

TEST(Mesh, SilentRanksAreNamedAtTheDeadline) {
  const Meshes meshes = connected_meshes(4);
  const ByteVector sent = {7};
  ASSERT_TRUE(meshes[2]->transfer(Channel::kSums, {{.peer = 0, .rest = sent}}, {}).ok());
  std::array<uint8_t, 4> bytes{};
  std::vector<Mesh::Receiving> receiving;
  for (uint32_t peer = 1; peer < 4; ++peer) {
    receiving.push_back({.peer = peer, .rest = {&bytes[peer], 1}});
  }
  const Status status = meshes[0]->transfer(Channel::kSums, {}, receiving, seconds_from_now(0.2));
  EXPECT_EQ(status.code(), Code::kTimedOut);
  EXPECT_THAT(status.message(), HasSubstr("ranks 1, 3 did not answer"));
  EXPECT_EQ(bytes[2], 7);
  const auto any = meshes[0]->wait_for_any(Channel::kSums, {1, 3}, seconds_from_now(0.01));
  EXPECT_EQ(base::status_of(any).code(), Code::kTimedOut);
  EXPECT_THAT(base::status_of(any).message(), HasSubstr("ranks 1, 3"));
}

TEST(Mesh, ALookThatFailsEndsTheWait) {
  const Meshes meshes = connected_meshes(2);
  const Status status = receive_one(*meshes[0], 1, INT64_MAX, [](double waited_s) {
    EXPECT_GT(waited_s, 0);
    return Status(Code::kCancelled, "interrupted");
  });
  EXPECT_EQ(status.message(), "interrupted");
}

TEST(Mesh, AnUnknownInterfaceIsRefused) {
  const Meshes meshes = listening_meshes(1);
  const auto place = meshes[0]->place("127.0.0.1", "no_such_one");
  EXPECT_EQ(base::status_of(place).code(), Code::kInvalid);
  EXPECT_THAT(base::status_of(place).message(), HasSubstr("no_such_one"));
}

TEST(Mesh, APlaceHasTheAddressesOfOneInterface) {
  const Meshes meshes = listening_meshes(1);
  const auto place = meshes[0]->place("a host that does not exist", "lo");
  ASSERT_TRUE(place) << base::status_of(place).message();
  EXPECT_THAT(place->addresses, ::testing::Contains("127.0.0.1"));
  EXPECT_NE(place->port, 0);
  EXPECT_EQ(meshes[0]->place("127.0.0.1", "")->addresses.front(), "127.0.0.1");
}

TEST(Mesh, NoDescriptorsAreLeft) {
  connected_meshes(2);  // whatever the system opens once
  const size_t before = open_descriptors();
  {
    const Meshes meshes = connected_meshes(3);
    EXPECT_GT(open_descriptors(), before);
  }
  {
    const Meshes meshes = listening_meshes(3);
    std::vector<Stranger> strangers;
    const auto places = places_of(meshes);
    for (int i = 0; i < 10; ++i) strangers.emplace_back(places[0].port, i % 2 == 0 ? "" : "x");
    in_each(2, [&](uint32_t rank) {
      EXPECT_FALSE(meshes[rank]->connect(places, seconds_from_now(0.1)).ok());
    });
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace forebay::io
