#include "io/serve/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "io/testing/comes_true.h"
#include "io/testing/raw_client.h"

namespace forebay::io::serve {
namespace {

using base::Code;
using ::testing::EndsWith;
using testing::exchange;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// More than the system's buffers for a connection hold.
constexpr size_t kLargeBytes = 8u << 20;

std::optional<Page> page_of(const std::string& path) {
  if (path == "/page") return Page{.type = "text/html", .body = "<p>here</p>"};
  if (path == "/large") return Page{.type = "text/plain", .body = std::string(kLargeBytes, 'x')};
  return std::nullopt;
}

std::unique_ptr<PageServer> start() { return std::move(PageServer::start({}, page_of).value()); }

TEST(PageServerTest, PagesAreGiven) {
  const auto server = start();
  const std::string answer =
      exchange(server->port(), "GET /page?a=/b HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/html\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 11\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n<p>here</p>"));
  const std::string two = exchange(
      server->port(), "HEAD /page HTTP/1.1\r\n\r\nGET /page HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(two, HasSubstr("Content-Length: 11\r\n"));
  EXPECT_THAT(two, HasSubstr("\r\n\r\nHTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(two, EndsWith("<p>here</p>"));
}

TEST(PageServerTest, EverythingElseIsRefused) {
  const auto server = start();
  const auto first_line = [&](const std::string& request) {
    const std::string answer = exchange(server->port(), request);
    return answer.substr(0, answer.find('\r'));
  };
  EXPECT_EQ(first_line("GET /other HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(first_line("GET page HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(first_line("POST /page HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_EQ(first_line("BREW /page HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
  for (const std::string& request :
       {std::string("GET /page HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"),
        std::string("GET /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        std::string("GET /page\r\n\r\n"), std::string("GET /"), std::string("\x16\x03\x01\r\n\r\n"),
        std::string("GET /page HTTP/1.1\r\nno header\r\n\r\n"),
        "GET /page HTTP/1.1\r\nX: " + std::string(base::kServedHeadBytesMax, 'x') + "\r\n\r\n"}) {
    EXPECT_EQ(first_line(request), "HTTP/1.1 400 Bad Request") << request.substr(0, 60);
  }
}

TEST(PageServerTest, OnlyWhoHasTheTokenGetsPages) {
  const auto server = std::move(PageServer::start({.token = "0123abcd"}, page_of).value());
  const auto status = [&](const std::string& target, const std::string& headers = "") {
    const std::string answer = exchange(
        server->port(), "GET " + target + " HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
    return answer.substr(9, 3);
  };
  EXPECT_EQ(status("/page?token=0123abcd"), "200");
  EXPECT_EQ(status("/page?a=b&token=0123abcd&c=d"), "200");
  EXPECT_EQ(status("/page", "Authorization: Bearer 0123abcd\r\n"), "200");
  for (const char* target :
       {"/page", "/page?token=", "/page?token=0123abc", "/page?token=0123abcde",
        "/page?token=0123abcx", "/page?xtoken=0123abcd", "/other"}) {
    EXPECT_EQ(status(target), "401") << target;
  }
  EXPECT_EQ(status("/page", "Authorization: Bearer 0123abcx\r\n"), "401");
  EXPECT_EQ(status("/page", "Authorization: Basic 0123abcd\r\n"), "401");
}

// DNS rebinding: a page of another site reaches this server, but the browser names the site.
TEST(PageServerTest, RequestsThatNameAnotherSiteAreRefused) {
  const auto server = std::move(PageServer::start({.names = {"node17.cluster"}}, page_of).value());
  const auto status = [&](const std::string& headers) {
    const std::string answer =
        exchange(server->port(), "GET /page HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
    return answer.substr(9, 3);
  };
  EXPECT_EQ(status("Host: evil.example\r\n"), "403");
  EXPECT_EQ(status("Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n"), "403");
  EXPECT_EQ(status("Host: node17.cluster:9100\r\n"), "200");
  EXPECT_EQ(status("Host: [::1]:9100\r\nOrigin: http://[::1]:9100\r\n"), "200");
}

TEST(PageServerTest, IdleConnectionsDoNotKeepOthersAway) {
  const auto server = start();
  boost::asio::io_context context;
  std::vector<boost::asio::ip::tcp::socket> idle;
  for (size_t i = 0; i < base::kPageConnectionsMax + 10; ++i) {
    idle.emplace_back(context).connect({boost::asio::ip::address_v4::loopback(), server->port()});
  }
  EXPECT_THAT(exchange(server->port(), "GET /page HTTP/1.1\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(PageServerTest, ClientsThatTakeNothingEndWithTheServer) {
  auto server = start();
  boost::asio::io_context context;
  std::vector<boost::asio::ip::tcp::socket> clients;
  for (size_t i = 0; i < base::kPageConnectionsMax + 10; ++i) {
    auto& client = clients.emplace_back(context);
    client.connect({boost::asio::ip::address_v4::loopback(), server->port()});
    boost::system::error_code ignored;
    boost::asio::write(client, boost::asio::buffer(std::string_view("GET /large HTTP/1.1\r\n\r\n")),
                       ignored);
  }
  EXPECT_TRUE(testing::comes_true([&] { return clients.front().available() > 0; }));
  server.reset();
  for (auto& client : clients) {
    std::string answer;
    bool is_open = true;
    boost::asio::async_read(client, boost::asio::dynamic_buffer(answer),
                            [&](auto, size_t) { is_open = false; });
    context.restart();
    context.run_for(std::chrono::seconds(10));
    ASSERT_FALSE(is_open);
    EXPECT_LT(answer.size(), kLargeBytes);  // cut short: the client took nothing before
  }
}

TEST(PageServerTest, AnAddressThatCannotBeHadIsSaid) {
  const auto server = start();
  const auto error = [](const std::string& address, uint16_t port) {
    return base::status_of(PageServer::start({.address = address, .port = port}, page_of));
  };
  EXPECT_EQ(error("127.0.0.1", server->port()).code(), Code::kUnavailable);
  EXPECT_THAT(error("127.0.0.1", server->port()).message(),
              HasSubstr(fmt::format("127.0.0.1 port {}", server->port())));
  EXPECT_EQ(error("192.0.2.1", 0).code(), Code::kUnavailable);
  EXPECT_EQ(error("a host", 0).code(), Code::kInvalid);
}

TEST(PageServerTest, APolicyNamesAScriptByItsHash) {
  // From `printf %s 'alert(1)' | openssl dgst -sha256 -binary | base64`.
  EXPECT_EQ(policy_hash("alert(1)"), "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
}

}  // namespace
}  // namespace forebay::io::serve
