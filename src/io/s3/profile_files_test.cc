#include "io/s3/profile_files.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/random.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;

// Everything in the sections, one line for each property.
std::string shown(std::string_view text) {
  const Result<Sections> sections = parse_sections(text);
  if (!sections) return error_of(sections);
  std::string out;
  for (const auto& [name, properties] : *sections) {
    out += "[" + name + "]\n";
    for (const auto& [key, value] : properties) {
      out += key + "=" + std::string(value.reveal()) + "\n";
    }
  }
  return out;
}

TEST(ProfileFiles, AcceptsTheManyShapesOfAFile) {
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(shown("[default]"), "[default]\n");
  EXPECT_EQ(shown("[a]\nkey=v"), "[a]\nkey=v\n");
  EXPECT_EQ(shown("\xEF\xBB\xBF[a]\r\nKEY = v \r\n"), "[a]\nkey=v\n");
  EXPECT_EQ(shown("# one\n; two\n  # three\n\n[a] # four\nk = v # five\nl = w;x #\nm = # six\n"),
            "[a]\nk=v\nl=w;x\nm=\n");
  EXPECT_EQ(shown("[ profile \t a ]\n[profile 'b c']\n[profile \"d\"]\n"),
            "[profile a]\n[profile b c]\n[profile d]\n");
  EXPECT_EQ(shown("[a]\nk = a=b==\n"), "[a]\nk=a=b==\n");
}

TEST(ProfileFiles, ALaterValueTakesThePlaceOfAnEarlierOne) {
  EXPECT_EQ(shown("[a]\nk = 1\nl = 2\n[b]\n[a]\nk = 3\n"), "[a]\nk=3\nl=2\n[b]\n");
}

TEST(ProfileFiles, DeeperLinesAreNestedOrContinueAValue) {
  EXPECT_EQ(shown("[a]\ns3 =\n  addressing_style = path\n\tx = y\nregion = r\n"),
            "[a]\nregion=r\ns3=\ns3.addressing_style=path\ns3.x=y\n");
  EXPECT_EQ(shown("[a]\n  s3 = # comment\n    x = y\n  region = r\n"),
            "[a]\nregion=r\ns3=\ns3.x=y\n");
  EXPECT_EQ(shown("[a]\nk = one\n  two = three\n"), "[a]\nk=one\ntwo = three\n");
}

TEST(ProfileFiles, MalformedLinesAreNamedByTheirNumberAlone) {
  const std::string expected = "expected a section like [default], or key = value";
  EXPECT_EQ(shown("[a]\nhush\n"), "line 2: " + expected);
  EXPECT_EQ(shown("[a]\n\n= hush\n"), "line 3: " + expected);
  EXPECT_EQ(shown("[a]\ns3 =\n hush\n"), "line 3: " + expected);
  EXPECT_EQ(shown("[hush\n"), "line 1: the name of a section must end with ]");
  EXPECT_EQ(shown("k = hush\n"), "line 1: a section like [default] must come before anything else");
}

TEST(ProfileFiles, AnyBytesAreReadOrRefused) {
  const uint64_t seed = 27;
  SCOPED_TRACE(seed);
  base::Random random(seed, base::Purpose::kTest);
  constexpr std::string_view kBytes = "[]=#; \t\r\n\"'abs3\xEF\xBB\xBF";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const uint64_t length = random.below(40);
    for (uint64_t i = 0; i < length; ++i) text += kBytes[random.below(kBytes.size())];
    const Result<Sections> sections = parse_sections(text);
    EXPECT_EQ(sections ? Code::kInvalid : sections.error().code(), Code::kInvalid) << text;
  }
}

TEST(ProfileFiles, TheFileOfCredentialsComesFirst) {
  HomeInMemory home;
  home.write_config(
      "[default]\nregion = a\naws_access_key_id = 1\n[profile default]\nregion = b\n"
      "[profile p]\nregion = p\n[q]\nregion = q\n");
  home.write_credentials("[default]\naws_access_key_id = 2\n[p]\naws_access_key_id = 3\n[r]\n");
  const Profile usual = *read_profile(home.around, "default");
  EXPECT_TRUE(usual.found);
  EXPECT_EQ(usual.get("region"), "b");
  EXPECT_EQ(usual.get("aws_access_key_id"), "2");
  EXPECT_EQ(usual.where, "profile default in /home/u/.aws/config and /home/u/.aws/credentials");
  const Profile named = *read_profile(home.around, "p");
  EXPECT_EQ(named.get("region"), "p");
  EXPECT_EQ(named.get("aws_access_key_id"), "3");
  EXPECT_FALSE(read_profile(home.around, "q")->found);  // [q] is no profile in this file
  EXPECT_TRUE(read_profile(home.around, "r")->found);
}

TEST(ProfileFiles, ASectionOfServicesBelongsToTheProfileThatNamesIt) {
  HomeInMemory home;
  home.write_config(
      "[profile p]\nservices = mine\n[services mine]\ns3 =\n"
      "  endpoint_url = http://here:9000\n");
  EXPECT_EQ(read_profile(home.around, "p")->get("services.s3.endpoint_url"), "http://here:9000");
}

TEST(ProfileFiles, VariablesNameOtherFiles) {
  HomeInMemory home;
  home.set({{"AWS_CONFIG_FILE", "~/mine"}, {"AWS_SHARED_CREDENTIALS_FILE", "/keys"}});
  home.write("/home/u/mine", "[default]\nregion = r\n");
  EXPECT_EQ(read_profile(home.around, "default")->get("region"), "r");
  home.around = {.files = &home.files};
  const Profile nowhere = *read_profile(home.around, "default");
  EXPECT_FALSE(nowhere.found);
  EXPECT_EQ(nowhere.where, "profile file, because no home folder is known");
}

TEST(ProfileFiles, ErrorsNameTheFile) {
  HomeInMemory home;
  home.write_credentials("[default]\naws_secret_access_key hush\n");
  EXPECT_EQ(error_of(read_profile(home.around, "default")),
            "/home/u/.aws/credentials: line 2: expected a section like [default], or key = value");
  home.write_credentials(std::string(base::kSecretFileBytesMax, '\n'));
  EXPECT_TRUE(read_profile(home.around, "default").has_value());
  home.write_credentials(std::string(base::kSecretFileBytesMax + 1, '\n'));
  EXPECT_EQ(read_profile(home.around, "default").error().code(), Code::kTooBig);
}

}  // namespace
}  // namespace forebay::io::s3
