// Surroundings for tests of settings and credentials: a home folder in memory. Every secret that
// these tests use has "hush" in it, so that a message that gives one away is recognised.
#pragma once

#include <gtest/gtest.h>

#include "io/s3/surroundings.h"
#include "io/testing/memory.h"

namespace forebay::io::s3 {

class HomeInMemory {
 public:
  HomeInMemory() : around{.home = "/home/u", .files = &files} {}
  // Sets variables of the environment.
  void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) around.variables[name] = Secret(value);
  }
  void write(const std::string& path, std::string_view text) {
    EXPECT_TRUE(files.put(path, base::as_bytes(text)).ok());
  }
  void write_config(std::string_view text) { write("/home/u/.aws/config", text); }
  void write_credentials(std::string_view text) { write("/home/u/.aws/credentials", text); }

  MemoryFileSystem files;
  Surroundings around;
};

// The message of an error, which must not hold a secret.
template <class T>
std::string error_of(const Result<T>& result) {
  if (result) return "no error";
  const std::string& message = result.error().message();
  EXPECT_EQ(message.find("hush"), std::string::npos) << message;
  return message;
}

}  // namespace forebay::io::s3
