#include "io/s3/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/testing/credential_services.h"
#include "io/testing/manual_clock.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::MutexLock;
using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMinute = 60 * kSecond;

// A service whose replies a test sets. The test can wait until the service was asked a number of
// times.
class Service {
 public:
  explicit Service(Reply first) : reply_(std::move(first)) {}
  void set(Reply reply) {
    MutexLock lock(mutex_);
    reply_ = std::move(reply);
  }
  const std::string& url() const { return listener_.url(); }
  int asked() const {
    MutexLock lock(mutex_);
    return asked_;
  }
  void wait_for(int times) const {
    MutexLock lock(mutex_);
    while (asked_ < times) changed_.wait(mutex_);
  }

 private:
  Reply answer() {
    MutexLock lock(mutex_);
    ++asked_;
    changed_.notify_all();
    return reply_;
  }

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  Reply reply_ GUARDED_BY(mutex_);
  int asked_ GUARDED_BY(mutex_) = 0;
  HttpListener listener_{[this](const HeardRequest&) { return answer(); }};
};

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { home.set({{"AWS_EC2_METADATA_DISABLED", "true"}}); }

  std::unique_ptr<CredentialSource> open(const Options& options = {}) {
    Result<std::unique_ptr<CredentialSource>> source =
        CredentialSource::open(*settings_for("s3", options, home.around), home.around, clock);
    EXPECT_TRUE(source.has_value()) << error_of(source);
    return std::move(*source);
  }
  std::unique_ptr<CredentialSource> open_container() {
    home.set({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", service.url()}});
    return open();
  }
  void write_key(const std::string& id) {
    home.write_credentials("[default]\naws_access_key_id=" + id + "\naws_secret_access_key=hush\n");
  }
  // Waits until the source has other credentials than these.
  static std::string key_after(const CredentialSource& source, const std::string& old) {
    while (key_of(source) == old) std::this_thread::yield();
    return key_of(source);
  }
  static std::string key_of(const CredentialSource& source) {
    const auto current = source.current();
    return current ? (*current)->access_key_id : error_of(current);
  }

  HomeInMemory home;
  ManualClock clock{kServiceNowNs};
  Service service{json_keys("first")};
};

TEST_F(CredentialsTest, ThoseThatCannotChangeNeedNoThread) {
  const auto given = open({{"key", "k"}, {"secret", "hush"}});
  const auto current = *given->current();
  EXPECT_EQ(current->access_key_id, "k");
  EXPECT_FALSE(given->refused(current));
  const auto anonymous = open({{"anon", "true"}});
  EXPECT_TRUE((*anonymous->current())->anonymous());
}

TEST_F(CredentialsTest, NewOnesAreFetchedFiveMinutesBeforeTheEnd) {
  const auto source = open_container();
  service.set(json_keys("second", "2026-11-24T20:00:00Z"));
  clock.wait_for_waiter();
  clock.advance(54 * kMinute);
  clock.wait_for_waiter();
  EXPECT_EQ(key_of(*source), "first");
  EXPECT_EQ(service.asked(), 1);
  clock.advance(kMinute);
  EXPECT_EQ(key_after(*source, "first"), "second");
  EXPECT_EQ(service.asked(), 2);
}

TEST_F(CredentialsTest, AMachineThatSleptFetchesThemToo) {
  const auto source = open_container();
  service.set(json_keys("second"));
  clock.wait_for_waiter();
  clock.jump_wall(56 * kMinute);
  EXPECT_EQ(key_after(*source, "first"), "second");
}

TEST_F(CredentialsTest, AClockThatIsSetBackDoesNotDelayIt) {
  const auto source = open_container();
  service.set(json_keys("second"));
  clock.wait_for_waiter();
  clock.jump_wall(-1000 * kMinute);
  clock.wait_for_waiter();
  clock.advance(55 * kMinute);
  EXPECT_EQ(key_after(*source, "first"), "second");
}

TEST_F(CredentialsTest, ThoseWithAShortLifeAreUsedForHalfOfIt) {
  service.set(json_keys("first", "2026-11-24T18:04:00Z"));
  const auto source = open_container();
  service.set(json_keys("second"));
  clock.wait_for_waiter();
  clock.advance(2 * kMinute - kSecond);
  clock.wait_for_waiter();
  EXPECT_EQ(service.asked(), 1);
  clock.advance(kSecond);
  EXPECT_EQ(key_after(*source, "first"), "second");
}

TEST_F(CredentialsTest, AFailureKeepsTheOldOnesUntilTheyEnd) {
  const auto source = open_container();
  service.set({.status = 404, .body = "hush"});
  clock.wait_for_waiter();
  clock.advance(55 * kMinute);
  service.wait_for(2);
  clock.wait_for_waiter();
  EXPECT_EQ(key_of(*source), "first");
  clock.advance(5 * kMinute);  // the end
  service.wait_for(3);
  clock.wait_for_waiter();
  const auto ended = source->current();
  EXPECT_THAT(error_of(ended),
              HasSubstr("the credentials have expired, and fetching new ones failed: container "
                        "service: the container's service answers with HTTP status 404"));
  service.set(json_keys("second"));
  clock.advance(kMinute);
  service.wait_for(4);
  while (key_of(*source) != "second") std::this_thread::yield();
}

TEST_F(CredentialsTest, AFailingServiceIsAskedLessAndLessOften) {
  const auto source = open_container();
  service.set({.status = 404});
  clock.wait_for_waiter();
  clock.advance(55 * kMinute);
  int asked = 2;
  for (const int64_t pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    service.wait_for(asked);
    clock.wait_for_waiter();
    clock.jump_wall(kMinute * 1000);  // does not count here
    clock.advance(pause * kSecond - 1);
    clock.wait_for_waiter();
    EXPECT_EQ(service.asked(), asked) << pause;
    clock.advance(1);
    ++asked;
  }
  service.wait_for(asked);
}

TEST_F(CredentialsTest, RefusedOnesAreFetchedAgain) {
  const auto source = open_container();
  const auto first = *source->current();
  service.set(json_keys("second"));
  clock.wait_for_waiter();
  EXPECT_TRUE(source->refused(first));
  EXPECT_TRUE(source->refused(first));
  clock.wait_for_waiter();
  clock.advance(kSecond);
  EXPECT_EQ(key_after(*source, "first"), "second");
  EXPECT_TRUE(source->refused(first));  // there are newer ones already
  clock.wait_for_waiter();
  clock.advance(kMinute);
  clock.wait_for_waiter();
  EXPECT_EQ(service.asked(), 2);
  EXPECT_EQ(key_of(*source), "second");
}

TEST_F(CredentialsTest, RefusedOnesFromAFileAreReadAgain) {
  write_key("first");
  const auto source = open();
  const auto first = *source->current();
  EXPECT_TRUE(source->refused(first));  // the file is as before
  clock.wait_for_waiter();
  clock.advance(kSecond);
  // Whether the file was read again shows when it has changed.
  write_key("second");
  while (key_of(*source) == "first") {
    EXPECT_TRUE(source->refused(first));
    clock.advance(kSecond);
    std::this_thread::yield();
  }
  EXPECT_EQ(key_of(*source), "second");
}

TEST_F(CredentialsTest, ThoseThatStayTheSameKeepTheirPointer) {
  const auto source = open_container();
  const auto first = *source->current();
  clock.wait_for_waiter();
  EXPECT_TRUE(source->refused(first));
  clock.wait_for_waiter();
  clock.advance(kSecond);
  service.wait_for(2);
  clock.wait_for_waiter();
  EXPECT_EQ(*source->current(), first);
}

TEST_F(CredentialsTest, TheDestructorDoesNotWaitForASlowService) {
  auto source = open_container();
  Reply slow = json_keys("second");
  slow.delay_ms = 60'000;
  service.set(slow);
  clock.wait_for_waiter();
  clock.advance(56 * kMinute);
  service.wait_for(2);
  source.reset();
  // Each try has a time limit of 2 s. A destructor that waits sees all three tries end.
  EXPECT_LT(service.asked(), 1 + 3);
}

TEST_F(CredentialsTest, ManyThreadsMayAsk) {
  const auto source = open_container();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) {
        const auto current = *source->current();
        EXPECT_EQ(current->secret_access_key.reveal(), "hush-s");
        if (round % 100 == 0) source->refused(current);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    service.set(json_keys(fmt::format("key{}", i)));
    clock.advance(kMinute);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CredentialsTest, WithoutAnyOpeningFails) {
  const auto source = CredentialSource::open(*settings_for("s3", {}, home.around), home.around);
  EXPECT_THAT(error_of(source), HasSubstr("there are no credentials"));
}

}  // namespace
}  // namespace forebay::io::s3
