#include "io/s3/profile_files.h"

#include <algorithm>

#include "base/utf8.h"
#include "io/ascii.h"

namespace forebay::io::s3 {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kBlanks = " \t\r";

// The value without a comment, which begins after a blank.
std::string_view without_comment(std::string_view value) {
  for (size_t i = 0; i < value.size(); ++i) {
    const bool after_blank = i == 0 || kBlanks.find(value[i - 1]) != std::string_view::npos;
    if (after_blank && (value[i] == '#' || value[i] == ';')) return trimmed(value.substr(0, i));
  }
  return value;
}

// "profile   'my name'" and "profile my name" are the same section.
std::string section_name(std::string_view inside) {
  inside = trimmed(inside);
  std::string first;
  if (const size_t end = inside.find_first_of(kBlanks); end != std::string_view::npos) {
    first = std::string(inside.substr(0, end)) + " ";
    inside = trimmed(inside.substr(end));
  }
  const bool quoted = inside.size() >= 2 && inside.front() == inside.back() &&
                      (inside.front() == '"' || inside.front() == '\'');
  return first + std::string(quoted ? inside.substr(1, inside.size() - 2) : inside);
}

class SectionReader {
 public:
  Status read_line(std::string_view line) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') return {};
    const size_t indent = line.find_first_not_of(kBlanks);
    if (indent == 0 && text.front() == '[') return begin_section(text);
    if (section_ == nullptr) {
      return fail(Code::kInvalid, "a section like [default] must come before anything else");
    }
    if (outer_ != section_->end() && indent > outer_indent_) return read_deeper(text);
    outer_indent_ = indent;
    return read_property(text, "");
  }
  Sections take() { return std::move(sections_); }

 private:
  Status begin_section(std::string_view text) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) {
      return fail(Code::kInvalid, "the name of a section must end with ]");
    }
    section_ = &sections_[section_name(text.substr(1, end - 1))];
    outer_ = section_->end();
    return {};
  }
  Status read_deeper(std::string_view text) {
    if (outer_->second.empty()) return read_property(text, outer_->first + ".");
    outer_->second.append("\n");
    outer_->second.append(text);
    return {};
  }
  Status read_property(std::string_view text, const std::string& before) {
    const size_t equals = text.find('=');
    const std::string_view key = trimmed(text.substr(0, equals));
    if (equals == std::string_view::npos || key.empty()) {
      return fail(Code::kInvalid, "expected a section like [default], or key = value");
    }
    const auto at = section_->emplace(before + lower(key), Secret()).first;
    at->second = Secret(without_comment(trimmed(text.substr(equals + 1))));
    if (before.empty()) outer_ = at;
    return {};
  }

  Sections sections_;
  Properties* section_ = nullptr;  // the section that lines belong to
  Properties::iterator outer_;     // its last property that is not nested
  size_t outer_indent_ = 0;
};

Result<Sections> read_sections(const Surroundings& around, const std::string& path) {
  // Many scripts name /dev/null to say that there is no such file.
  if (path.empty() || path == "/dev/null") return Sections();
  const Result<Secret> text = around.read_secret(path);
  if (!text && text.error().code() == Code::kNotFound) return Sections();
  if (!text) return tl::unexpected<Status>(text.error());
  Result<Sections> sections = parse_sections(text->reveal());
  if (!sections) return tl::unexpected<Status>(sections.error().at(path));
  return sections;
}

// Adds the properties of a section, if it is there, and returns whether it is.
bool add(const Sections& sections, const std::string& name, const std::string& before,
         Properties& to) {
  const auto section = sections.find(name);
  if (section == sections.end()) return false;
  for (const auto& [key, value] : section->second) to[before + key] = value;
  return true;
}

// The path that a variable names, or else the usual one; empty if neither is known.
std::string path_of(const Surroundings& around, std::string_view variable, std::string_view usual) {
  const std::string_view named = around.variable(variable);
  if (!named.empty()) return around.path_of(named);
  return around.home.empty() ? "" : around.path_of(usual);
}

}  // namespace

Result<Sections> parse_sections(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  SectionReader reader;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const Status status = reader.read_line(text.substr(0, end));
    RETURN_IF_ERROR(status.at(fmt::format("line {}", number)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.take();
}

std::string_view Profile::get(std::string_view key) const {
  const auto at = properties.find(key);
  return at == properties.end() ? std::string_view() : at->second.reveal();
}

Result<Profile> read_profile(const Surroundings& around, const std::string& name) {
  const std::string config_path = path_of(around, "AWS_CONFIG_FILE", "~/.aws/config");
  const std::string credentials_path =
      path_of(around, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
  ASSIGN_OR_RETURN(const Sections config, read_sections(around, config_path));
  ASSIGN_OR_RETURN(const Sections credentials, read_sections(around, credentials_path));
  Profile profile;
  const std::string_view between = config_path.empty() || credentials_path.empty() ? "" : " and ";
  profile.where = fmt::format("profile {} in {}{}{}", base::to_utf8(name), config_path, between,
                              credentials_path);
  if (config_path.empty() && credentials_path.empty()) {
    profile.where = "profile file, because no home folder is known";
  }
  profile.found = add(config, "profile " + name, "", profile.properties) ||
                  (name == "default" && add(config, name, "", profile.properties));
  profile.found = add(credentials, name, "", profile.properties) || profile.found;
  const std::string services(profile.get("services"));
  if (!services.empty()) add(config, "services " + services, "services.", profile.properties);
  return profile;
}

}  // namespace forebay::io::s3
