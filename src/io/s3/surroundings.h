// The surroundings in which a program looks for settings and credentials: environment variables,
// the user's home folder, and files. They are passed in, so that tests need not change their own
// process.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "io/origin.h"
#include "io/secret.h"

namespace forebay::io::s3 {

struct Surroundings {
  std::map<std::string, Secret, std::less<>> variables = {};  // some of them hold keys
  std::string home = {};                                      // empty if there is none
  const Origin* files = nullptr;  // reads profiles and tokens; must outlive all copies of this

  // A variable's value; empty if it is not set. As in AWS's programs, an empty variable counts as
  // unset.
  std::string_view variable(std::string_view name) const;
  // The path with the home folder in place of a leading "~/".
  std::string path_of(std::string_view path) const;
  // A file's content without blanks and line ends at its end. Errors: those of
  // Origin::read_whole().
  Result<Secret> read_secret(const std::string& path) const;
};

// Returns the surroundings of this process. Variables whose names begin with AWS_ are copied once,
// because another thread may change the environment later.
Surroundings surroundings_of_process();

}  // namespace forebay::io::s3
