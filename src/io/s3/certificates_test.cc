// Certificates are verified: a server process with a certificate that was made a moment ago.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/s3/chain.h"
#include "io/s3/s3_origin.h"
#include "io/testing/credential_services.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;
using testing::HasSubstr;

// Refuses handshakes that the client gives up, and ends after the first request that it answers.
constexpr std::string_view kServer = R"(
import signal, socket, ssl
signal.alarm(30)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    try:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            request = more = wrapped.recv(65536)
            while more and b"WebIdentityToken=hush" not in request:
                more = wrapped.recv(65536)
                request += more
            if more:
                wrapped.sendall(open("reply", "rb").read())
                break
    except OSError:
        pass
)";

class TlsServer {
 public:
  TlsServer() {
    std::string name = std::filesystem::temp_directory_path() / "forebay_tls_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    const Reply reply = xml_keys("k");
    std::ofstream(folder_ / "reply")
        << "HTTP/1.1 200 OK\r\nContent-Length: " << reply.body.size() << "\r\n"
        << reply.headers << "\r\n"
        << reply.body;
    std::ofstream(folder_ / "server.py") << kServer;
    const std::string command = fmt::format(
        "cd {} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=forebay -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem "
        "2>/dev/null && exec python3 server.py",
        folder_.string());
    output_ = ::popen(command.c_str(), "r");
    EXPECT_EQ(std::fscanf(output_, "%d", &port_), 1) << "needs openssl and python3";
  }
  ~TlsServer() {
    ::pclose(output_);
    std::filesystem::remove_all(folder_);
  }
  std::string url(std::string_view host) const { return fmt::format("https://{}:{}", host, port_); }
  std::string certificate() const { return folder_ / "cert.pem"; }

 private:
  std::filesystem::path folder_;
  FILE* output_ = nullptr;
  int port_ = 0;
};

TEST(Certificates, OnlyThoseOfAGivenFileOrTheSystemAreTrusted) {
  const TlsServer server;
  HomeInMemory home;
  home.write("/token", "hush");
  home.set({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}, {"AWS_ROLE_ARN", "role"}});
  const auto find = [&](std::string_view host, const Options& options) {
    home.set({{"AWS_ENDPOINT_URL_STS", server.url(host)}});
    const Settings settings = *settings_for("s3", options, home.around);
    return ask_web_identity(
        {.settings = settings, .around = home.around, .clock = monotonic_clock()});
  };
  const Options trusting = {{"client_kwargs.verify", server.certificate()}};
  const auto unknown = find("127.0.0.1", {});
  EXPECT_THAT(error_of(unknown), HasSubstr("certificate"));
  EXPECT_EQ(unknown.error().code(), Code::kUnavailable);
  EXPECT_THAT(error_of(find("localhost", trusting)), HasSubstr("localhost"));  // another name
  EXPECT_THAT(error_of(find("127.0.0.1", {{"verify", "/no/such/file"}})),
              HasSubstr("/no/such/file"));
  const auto trusted = find("127.0.0.1", trusting);
  ASSERT_TRUE(trusted.has_value()) << error_of(trusted);
  EXPECT_EQ(trusted->found->credentials.access_key_id, "k");
}

// A bug once: only the store's certificate was compared with these. The services that give out
// credentials then failed in a wheel on systems that keep certificates elsewhere than Debian.
TEST(Certificates, ThoseOfTheServiceCountForCredentialsToo) {
  const TlsServer server;
  HomeInMemory home;
  home.write("/token", "hush");
  home.set({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
            {"AWS_ROLE_ARN", "role"},
            {"AWS_ENDPOINT_URL_STS", server.url("127.0.0.1")}});
  http::ServiceOptions options;
  options.client.ca_file = server.certificate();
  const auto origin = S3Origin::make(*settings_for("s3", {}, home.around), home.around, options);
  EXPECT_TRUE(origin.has_value()) << error_of(origin);
}

}  // namespace
}  // namespace forebay::io::s3
