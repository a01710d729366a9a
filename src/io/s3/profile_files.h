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
// The case of keys does not matter. A later value of a key replaces an earlier one, and a repeated
// section adds to the first. In the configuration file the sections are [default], [profile NAME]
// and [services NAME]; in the credentials file they are the profiles' names.
#pragma once

#include "io/s3/surroundings.h"

namespace forebay::io::s3 {

// All values are kept as secrets, because some are. A nested property's key is that of the property
// around it, a dot, and its own: "s3.addressing_style".
using Properties = std::map<std::string, Secret, std::less<>>;
using Sections = std::map<std::string, Properties, std::less<>>;

// Errors: kInvalid with the number of the line, and without the line itself.
Result<Sections> parse_sections(std::string_view text);

struct Profile {
  bool found = false;  // a section of this profile is in one of the files
  std::string where;   // the profile's name and the files that were looked at, for messages
  Properties properties = {};

  // A property's value; empty if it is not set.
  std::string_view get(std::string_view key) const;
};

// Reads both files as they are now. A missing file counts as empty; if both files have a key, the
// credentials file wins. If the profile names a services section, the properties of that section
// are included, with "services." before their keys. Errors: kInvalid for a malformed file, and
// those of Origin::read_whole().
Result<Profile> read_profile(const Surroundings& around, const std::string& name);

}  // namespace forebay::io::s3
