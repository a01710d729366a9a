// A range server with the job's certificate: only clients that have the job's secret are answered,
// and only a server that has it is trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/http/range_answer.h"
#include "io/serve/range_server.h"
#include "io/testing/held_file.h"
#include "io/testing/perform.h"
#include "io/testing/raw_client.h"

namespace forebay::io::serve {
namespace {

using base::Code;
using ::testing::HasSubstr;

std::shared_ptr<const JobCertificate> certificate(std::string_view secret) {
  return std::make_shared<const JobCertificate>(make_job_certificate(Secret(secret)).value());
}

constexpr uint64_t kSize = 1'000'000;

// "/file", whose bytes are all 7, must be read, and "/held" with the same bytes is held.
class Files final : public ServedFiles {
 public:
  Files() : held_(base::ByteVector(kSize, 7)) {}
  std::optional<uint64_t> size(const std::string& path) const override {
    return path == "/file" || path == "/held" ? std::optional<uint64_t>(kSize) : std::nullopt;
  }
  std::optional<std::vector<HeldRange>> find(
      const std::string& path, const std::vector<WantedRange>& ranges) const override {
    if (path != "/held") return std::nullopt;
    return held_.find(ranges);
  }
  void read(const std::string&, std::vector<Range> ranges,
            std::function<void(Status)> done) const override {
    for (const Range& range : ranges) std::fill(range.out.begin(), range.out.end(), uint8_t{7});
    done({});
  }

 private:
  const testing::HeldFile held_;
};

class RangeServerTlsTest : public ::testing::Test {
 protected:
  RangeServerTlsTest()
      : server_(std::move(
            RangeServer::start({.job = certificate("the secret of this job")}, files_).value())) {}

  // The outcome of a read by a client that shows this certificate, or none.
  Status read(std::shared_ptr<const JobCertificate> shown, uint16_t port = 0,
              const std::string& path = "/file") const {
    RangeClient client({.job = std::move(shown)});
    base::ByteVector out(500'000);
    const std::vector<Range> ranges = {{0, out}};
    http::RangeAnswer answer(ranges, {.size = kSize});
    const RangeOutcome outcome =
        testing::perform(client,
                         {.host = "127.0.0.1",
                          .port = port == 0 ? server_->port() : port,
                          .target = path,
                          .headers = {"Range: " + http::range_header(ranges)}},
                         answer);
    EXPECT_EQ(outcome.status.ok(), out == base::ByteVector(out.size(), 7));
    return outcome.status;
  }

  Files files_;
  std::unique_ptr<RangeServer> server_;
};

TEST(JobCertificateTest, OneSecretIsOneCertificate) {
  EXPECT_EQ(certificate("the secret of this job")->certificate,
            certificate("the secret of this job")->certificate);
  EXPECT_NE(certificate("the secret of this job")->certificate,
            certificate("the secret of that job")->certificate);
  EXPECT_EQ(certificate("the secret of this job")->key, certificate("the secret of this job")->key);
  EXPECT_NE(certificate("the secret of this job")->key, certificate("the secret of that job")->key);
}

TEST(JobCertificateTest, AShortSecretIsRefused) {
  const auto made = make_job_certificate(Secret("15 bytes, short"));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kInvalid);
  EXPECT_THAT(made.error().message(), Not(HasSubstr("15 bytes, short")));
}

TEST_F(RangeServerTlsTest, WhoHasTheSecretIsAnswered) {
  for (const char* const path : {"/file", "/held"}) {
    EXPECT_TRUE(read(certificate("the secret of this job"), server_->port(), path).ok());
  }
  EXPECT_EQ(server_->served().requests, 2u);
}

TEST_F(RangeServerTlsTest, WhoHasAnotherSecretIsNot) {
  EXPECT_FALSE(read(certificate("the secret of that job")).ok());
  EXPECT_EQ(server_->served().requests, 0u);
}

TEST_F(RangeServerTlsTest, WhoShowsNothingIsNot) {
  EXPECT_FALSE(read(nullptr).ok());
  testing::exchange(server_->port(),
                    "GET /file HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-9\r\n\r\n");
  EXPECT_EQ(server_->served().requests, 0u);
  EXPECT_TRUE(read(certificate("the secret of this job")).ok());  // it goes on
}

TEST_F(RangeServerTlsTest, AServerOfAnotherJobIsNotTrusted) {
  const auto other =
      RangeServer::start({.job = certificate("the secret of that job")}, files_).value();
  const Status status = read(certificate("the secret of this job"), other->port());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("certificate"));
}

TEST_F(RangeServerTlsTest, WithoutASecretOnlyThisMachineIsServed) {
  for (const char* address : {"0.0.0.0", "::", "192.0.2.1", "10.0.0.1"}) {
    const auto server = RangeServer::start({.address = address}, files_);
    ASSERT_FALSE(server.has_value());
    EXPECT_EQ(server.error().code(), Code::kInvalid) << address;
  }
  EXPECT_TRUE(RangeServer::start({.address = "127.0.0.2"}, files_).has_value());
  EXPECT_TRUE(RangeServer::start(
                  {.address = "0.0.0.0", .job = certificate("the secret of this job")}, files_)
                  .has_value());
}

}  // namespace
}  // namespace forebay::io::serve
