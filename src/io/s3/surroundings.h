// What a program finds around it when it looks for settings and credentials: variables of the
// environment, the user's home folder, and files. It is handed in, so that tests need not change
// their own process.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "io/origin.h"
#include "io/secret.h"

namespace forebay::io::s3 {

struct Surroundings {
  std::map<std::string, Secret, std::less<>> variables = {};  // some of them hold keys
  std::string home = {};                                      // empty where there is none
  const Origin* files = nullptr;  // what reads profiles and tokens; it outlives all copies

  // A variable's value; empty where it is not set. Like in AWS's programs, a variable that is empty
  // counts as one that is not set.
  std::string_view variable(std::string_view name) const;
  // The path with the home folder in place of a leading "~/".
  std::string path_of(std::string_view path) const;
  // A file's content without blanks and line ends at its end. Errors: those of
  // Origin::read_whole().
  Result<Secret> read_secret(const std::string& path) const;
};

// Returns the surroundings of this process. Variables whose names begin with AWS_ are copied once,
// as another thread may change the environment later.
Surroundings surroundings_of_process();

}  // namespace forebay::io::s3
