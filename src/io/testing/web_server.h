// A real web server for tests: nginx, with a folder of its own, on a free port of this machine.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace forebay::io::testing {

class WebServer {
 public:
  // Null if nginx is not installed.
  static std::unique_ptr<WebServer> start();
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // A file that the server has; `name` without folders.
  void write(const std::string& name, base::Bytes content);
  // Its address. The server answers ranges below "", none below "whole", the first only below
  // "one", 503 below "busy", and a redirect to itself below "loop".
  std::string url(const std::string& name, const std::string& below = "") const;
  // Stops the server at once, like a crash; begin() starts it again.
  void kill();
  void begin();

 private:
  explicit WebServer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path folder_;
  int port_ = 0;
  int process_ = -1;
};

}  // namespace forebay::io::testing
