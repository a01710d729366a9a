#include "io/testing/web_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/status.h"

namespace forebay::io::testing {

namespace {

constexpr const char* kProgram = "/usr/sbin/nginx";

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  FOREBAY_CHECK(::bind(socket, any, size) == 0 && ::getsockname(socket, any, &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

bool answers(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  const bool connected =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return connected;
}

std::string configuration(const std::string& folder, int port) {
  return fmt::format(R"(
daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {0}/t1; proxy_temp_path {0}/t2; fastcgi_temp_path {0}/t3;
  uwsgi_temp_path {0}/t4; scgi_temp_path {0}/t5;
  server {{
    listen 127.0.0.1:{1};
    location / {{ root {0}/files; }}
    location /whole/ {{ alias {0}/files/; max_ranges 0; }}
    location /one/ {{ alias {0}/files/; max_ranges 1; }}
    location /busy/ {{ return 503; }}
    location /loop/ {{ return 302 $request_uri; }}
  }}
}}
)",
                     folder, port);
}

}  // namespace

std::unique_ptr<WebServer> WebServer::start() {
  if (::access(kProgram, X_OK) != 0) return nullptr;
  std::string name = (std::filesystem::temp_directory_path() / "forebay-nginx-XXXXXX").string();
  FOREBAY_CHECK(::mkdtemp(name.data()) != nullptr);
  std::unique_ptr<WebServer> server(new WebServer(name));
  std::filesystem::create_directory(server->folder_ / "files");
  server->port_ = free_port();
  std::ofstream(server->folder_ / "nginx.conf") << configuration(name, server->port_);
  server->begin();
  return server;
}

void WebServer::begin() {
  const std::string configuration = (folder_ / "nginx.conf").string();
  process_ = ::fork();
  FOREBAY_CHECK(process_ >= 0);
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl(kProgram, kProgram, "-p", folder_.c_str(), "-c", configuration.c_str(), "-e",
            (folder_ / "error.log").c_str(), nullptr);
    ::_exit(127);
  }
  while (!answers(port_)) {
    FOREBAY_CHECK(::waitpid(process_, nullptr, WNOHANG) == 0);
    ::usleep(5000);
  }
}

void WebServer::kill() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
}

WebServer::~WebServer() {
  if (process_ > 0) kill();
  std::filesystem::remove_all(folder_);
}

void WebServer::write(const std::string& name, base::Bytes content) {
  std::ofstream file(folder_ / "files" / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(content.data()),
             static_cast<std::streamsize>(content.size()));
}

std::string WebServer::url(const std::string& name, const std::string& below) const {
  const std::string folder = below.empty() ? "" : below + "/";
  return fmt::format("http://127.0.0.1:{}/{}{}", port_, folder, name);
}

}  // namespace forebay::io::testing
