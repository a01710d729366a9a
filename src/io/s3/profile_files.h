// The files in which AWS's programs keep profiles, usually ~/.aws/config and ~/.aws/credentials.
//
// Grammar, after the "Shared config and credentials files" page of AWS's SDK reference guide:
//
//   file         = { blank line | comment | section | property | nested | continuation }
//   comment      = ("#" | ";") text                       as the first thing of its line
//   section      = "[" name "]" [ text ]                  not indented
//   property     = key "=" [ value ] [ blank ("#" | ";") text ]
//   nested       = blank property                         indented deeper than the property before,
//                                                         whose value is empty
//   continuation = blank text                             indented deeper than the property before,
//                                                         which has a value
//
// Keys have no case. A later value of a key takes the place of an earlier one, and a section that
// comes again adds to the first. In the file of configuration the sections are [default],
// [profile NAME] and [services NAME]; in that of credentials they are the profiles' names.
#pragma once

#include "io/s3/surroundings.h"

namespace forebay::io::s3 {

// Everything in the files is kept like a secret, as some of it is. A nested property's key is that
// of the property around it, a dot, and its own: "s3.addressing_style".
using Properties = std::map<std::string, Secret, std::less<>>;
using Sections = std::map<std::string, Properties, std::less<>>;

// Errors: kInvalid with the number of the line, and without the line itself.
Result<Sections> parse_sections(std::string_view text);

struct Profile {
  bool found = false;  // a section of this profile is in one of the files
  std::string where;   // the profile's name and the files that were looked at, for messages
  Properties properties = {};

  // A property's value; empty where it is not set.
  std::string_view get(std::string_view key) const;
};

// Reads both files as they are now. A file that does not exist counts as an empty one; where both
// hold a key, that of the file of credentials is taken. What the services section that the profile
// names holds gets keys with "services." before them. Errors: kInvalid for a malformed file, and
// those of Origin::read_whole().
Result<Profile> read_profile(const Surroundings& around, const std::string& name);

}  // namespace forebay::io::s3
