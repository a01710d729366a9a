#include "io/s3/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;
using testing::HasSubstr;

Result<Settings> from_options(const Options& options) {
  const HomeInMemory home;
  return settings_for("s3", options, home.around);
}

TEST(Settings, NothingGivenMeansAwsAndAnUnknownRegion) {
  const Settings settings = *from_options({});
  EXPECT_EQ(settings.endpoint_url, "");
  EXPECT_EQ(settings.region, "");
  EXPECT_EQ(settings.addressing, Addressing::kAuto);
  EXPECT_FALSE(settings.anonymous);
  EXPECT_EQ(settings.access_key_id, "");
  EXPECT_EQ(settings.profile, "default");
  EXPECT_EQ(settings.profile_from, ProfileFrom::kDefault);
  EXPECT_EQ(settings.ca_file, "");
}

TEST(Settings, OptionsHaveTheNamesOfSeveralLibraries) {
  for (const Options& keys :
       {Options{{"key", "k"}, {"secret", "hush"}, {"token", "hush-t"}},
        Options{{"aws_access_key_id", "k"},
                {"aws_secret_access_key", "hush"},
                {"aws_session_token", "hush-t"}},
        Options{{"AWS_ACCESS_KEY_ID", "k"},
                {"AWS_SECRET_ACCESS_KEY", "hush"},
                {"AWS_SESSION_TOKEN", "hush-t"}},
        Options{
            {"access_key_id", "k"}, {"secret_access_key", "hush"}, {"session_token", "hush-t"}}}) {
    const Settings settings = *from_options(keys);
    EXPECT_EQ(settings.access_key_id, "k");
    EXPECT_EQ(settings.secret_access_key.reveal(), "hush");
    EXPECT_EQ(settings.session_token.reveal(), "hush-t");
  }
  for (const char* name : {"endpoint_url", "client_kwargs.endpoint_url", "aws_endpoint_url"}) {
    EXPECT_EQ(from_options({{name, "http://localhost:9000/"}})->endpoint_url,
              "http://localhost:9000");
  }
  for (const char* name : {"region", "region_name", "aws_region", "client_kwargs.region_name"}) {
    EXPECT_EQ(from_options({{name, "eu-central-1"}})->region, "eu-central-1");
  }
  for (const char* name : {"anon", "skip_signature", "aws_skip_signature"}) {
    EXPECT_TRUE(from_options({{name, "True"}})->anonymous);
    EXPECT_FALSE(from_options({{name, "false"}})->anonymous);
  }
  EXPECT_EQ(from_options({{"config_kwargs.s3.addressing_style", "path"}})->addressing,
            Addressing::kPath);
  EXPECT_EQ(from_options({{"addressing_style", "virtual"}})->addressing, Addressing::kVirtual);
  EXPECT_EQ(from_options({{"client_kwargs.verify", "~/ca.pem"}})->ca_file, "/home/u/ca.pem");
  EXPECT_EQ(from_options({{"verify", "True"}})->ca_file, "");
  EXPECT_EQ(from_options({{"key", ""}, {"anon", ""}})->access_key_id, "");
}

TEST(Settings, WhoPaysAndHowObjectsAreEncrypted) {
  EXPECT_FALSE(from_options({})->requester_pays);
  for (const auto& [name, value] : Options{{"requester_pays", "true"},
                                           {"request_payer", "requester"},
                                           {"AWS_REQUEST_PAYER", "True"},
                                           {"s3_additional_kwargs.RequestPayer", "requester"}}) {
    EXPECT_TRUE(from_options({{name, value}})->requester_pays) << name;
  }
  EXPECT_FALSE(from_options({{"requester_pays", "false"}, {"anon", "true"}})->requester_pays);
  const std::string key = "arn:aws:kms:eu-west-1:123456789012:key/12345678-90ab";
  for (const auto& [name, key_name] :
       Options{{"sse", "sse_kms_key_id"},
               {"server_side_encryption", "aws_sse_kms_key_id"},
               {"s3_additional_kwargs.ServerSideEncryption", "s3_additional_kwargs.SSEKMSKeyId"}}) {
    const Settings settings = *from_options({{name, "aws:kms"}, {key_name, key}});
    EXPECT_EQ(settings.encryption, "aws:kms");
    EXPECT_EQ(settings.encryption_key_id, key);
  }
  const HomeInMemory home;
  for (const char* const name : {"requester_pays", "sse"}) {
    const std::string value = name == std::string("sse") ? "AES256" : "true";
    EXPECT_THAT(error_of(settings_for("gs", {{name, value}}, home.around)),
                HasSubstr("is for s3://, and not for gs://"));
  }
}

TEST(Settings, WrongOptionsAreRefusedWithoutTheirValues) {
  const std::vector<std::pair<Options, std::string>> wrong = {
      {{{"kye", "hush"}}, "there is no storage option kye; possible are key, access_key_id, "},
      {{{"\xFFn", "hush"}}, "there is no storage option \\xffn"},
      {{{"key", "hush1"}, {"aws_access_key_id", "hush2"}},
       "key and aws_access_key_id mean the same and have different values"},
      {{{"key", "hush"}}, "key and secret must be given together"},
      {{{"secret", "hush"}}, "key and secret must be given together"},
      {{{"token", "hush"}}, "key and secret must be given together"},
      {{{"anon", "true"}, {"key", "hush"}, {"secret", "hush"}}, "keys are given too"},
      {{{"profile", "p"}, {"key", "hush"}, {"secret", "hush"}}, "keys and a profile"},
      {{{"anon", "hush"}}, "anon must be true or false"},
      {{{"endpoint_url", "localhost:9000"}}, "endpoint_url must be a URL like"},
      {{{"endpoint_url", "ftp://hush"}}, "must be a URL like"},
      {{{"endpoint_url", "http://hush host"}}, "must be a URL like"},
      {{{"endpoint_url", "http://u:hush@host"}}, "without a user, a password, a query and"},
      {{{"endpoint_url", "http://host/?hush=1"}}, "without a user, a password, a query and"},
      {{{"region", "hush/../"}}, "region must be a region's name"},
      {{{"addressing_style", "hush"}}, "addressing_style must be path, virtual or auto"},
      {{{"client_kwargs.verify", "False"}}, "certificates are always verified"},
      {{{"request_payer", "hush"}}, "request_payer must be requester, true or false"},
      {{{"requester_pays", "true"}, {"anon", "true"}}, "requests must be signed; leave out anon"},
      {{{"requester_pays", "true"}, {"request_payer", "false"}},
       "mean the same and have different"},
      {{{"sse", "hush"}}, "sse must be AES256, aws:kms or aws:kms:dsse"},
      {{{"sse", "aes256"}}, "sse must be AES256"},
      {{{"sse_kms_key_id", "hush"}}, "give sse=aws:kms too"},
      {{{"sse", "AES256"}, {"sse_kms_key_id", "hush"}}, "give sse=aws:kms too"},
      {{{"sse", "aws:kms"}, {"sse_kms_key_id", "hush\r\nx-amz-acl: public-read"}},
       "sse_kms_key_id must be the id, the alias or the ARN of a key"},
      {{{"sse", "aws:kms"}, {"sse_kms_key_id", std::string(5000, 'a')}},
       "must be the id, the alias"},
  };
  for (const auto& [options, message] : wrong) {
    const Result<Settings> settings = from_options(options);
    EXPECT_THAT(error_of(settings), HasSubstr(message));
    EXPECT_EQ(settings ? Code::kOk : settings.error().code(), Code::kInvalid) << message;
  }
  EXPECT_TRUE(
      from_options({{"key", "k"}, {"aws_access_key_id", "k"}, {"secret", "hush"}}).has_value());
}

TEST(Settings, OptionsComeBeforeTheEnvironmentAndThatBeforeTheProfile) {
  HomeInMemory home;
  home.write_config(
      "[default]\nregion = r-profile\nendpoint_url = http://profile\n"
      "ca_bundle = /profile.pem\ns3 =\n  addressing_style = path\n");
  Settings settings = *settings_for("s3", {}, home.around);
  EXPECT_EQ(settings.region, "r-profile");
  EXPECT_EQ(settings.endpoint_url, "http://profile");
  EXPECT_EQ(settings.ca_file, "/profile.pem");
  EXPECT_EQ(settings.addressing, Addressing::kPath);

  home.set({{"AWS_DEFAULT_REGION", "r-usual"},
            {"AWS_ENDPOINT_URL", "http://all"},
            {"AWS_CA_BUNDLE", "/environment.pem"}});
  settings = *settings_for("s3", {}, home.around);
  EXPECT_EQ(settings.region, "r-usual");
  EXPECT_EQ(settings.endpoint_url, "http://all");
  EXPECT_EQ(settings.ca_file, "/environment.pem");

  home.set({{"AWS_REGION", "r-first"}});
  home.set({{"AWS_ENDPOINT_URL_S3", "http://s3"}});
  settings = *settings_for("s3", {}, home.around);
  EXPECT_EQ(settings.region, "r-first");
  EXPECT_EQ(settings.endpoint_url, "http://s3");

  settings = *settings_for("s3",
                           {{"region", "r-option"},
                            {"endpoint_url", "http://option"},
                            {"addressing_style", "auto"},
                            {"verify", "/option.pem"}},
                           home.around);
  EXPECT_EQ(settings.region, "r-option");
  EXPECT_EQ(settings.endpoint_url, "http://option");
  EXPECT_EQ(settings.ca_file, "/option.pem");
  EXPECT_EQ(settings.addressing, Addressing::kAuto);
}

TEST(Settings, AnEmptyVariableIsNotSet) {
  HomeInMemory home;
  home.set({{"AWS_REGION", ""}, {"AWS_PROFILE", ""}});
  const Settings settings = *settings_for("s3", {}, home.around);
  EXPECT_EQ(settings.region, "");
  EXPECT_EQ(settings.profile_from, ProfileFrom::kDefault);
}

TEST(Settings, AProfileThatIsNamedMustExist) {
  HomeInMemory home;
  home.set({{"AWS_PROFILE", "other"}});
  EXPECT_EQ(error_of(settings_for("s3", {}, home.around)),
            "there is no profile other in /home/u/.aws/config and /home/u/.aws/credentials, which "
            "AWS_PROFILE names");
  home.write_config("[profile other]\nregion = r1\n[profile mine]\nregion = r2\n");
  EXPECT_EQ(settings_for("s3", {}, home.around)->region, "r1");
  const Settings mine = *settings_for("s3", {{"profile", "mine"}}, home.around);
  EXPECT_EQ(mine.region, "r2");
  EXPECT_EQ(mine.profile_from, ProfileFrom::kOption);
  const Result<Settings> none = settings_for("s3", {{"profile", "none"}}, home.around);
  EXPECT_THAT(error_of(none), HasSubstr("which the storage option profile names"));
  EXPECT_EQ(none.error().code(), Code::kNotFound);
}

TEST(Settings, TheServicesSectionComesBeforeTheProfilesEndpoint) {
  HomeInMemory home;
  home.write_config(
      "[default]\nendpoint_url = http://all\nservices = s\n[services s]\ns3 =\n"
      "  endpoint_url = http://s3\n");
  EXPECT_EQ(settings_for("s3", {}, home.around)->endpoint_url, "http://s3");
}

TEST(Settings, WrongValuesAreNamedByTheirPlace) {
  HomeInMemory home;
  home.set({{"AWS_ENDPOINT_URL_S3", "hush"}});
  EXPECT_THAT(error_of(settings_for("s3", {}, home.around)), HasSubstr("AWS_ENDPOINT_URL_S3 must"));
  home.around.variables.clear();
  home.write_config("[default]\nregion = h u s h\n");
  EXPECT_THAT(error_of(settings_for("s3", {}, home.around)),
              HasSubstr("region of profile default in /home/u/.aws/config"));
}

TEST(Settings, GoogleHasItsOwnEndpointAndRegion) {
  HomeInMemory home;
  home.set({{"AWS_ENDPOINT_URL", "http://aws"}, {"AWS_REGION", "eu-west-1"}});
  const Settings usual = *settings_for("gs", {}, home.around);
  EXPECT_EQ(usual.endpoint_url, "https://storage.googleapis.com");
  EXPECT_EQ(usual.region, "auto");
  EXPECT_EQ(usual.service, Service::kGoogle);
  EXPECT_EQ(settings_for("gs", {{"endpoint_url", "http://here"}}, home.around)->endpoint_url,
            "http://here");
  EXPECT_THAT(error_of(settings_for("http", {}, home.around)),
              HasSubstr("http:// is not a store with S3's interface"));
}

TEST(Settings, SaysHowLongAServerIsWaitedFor) {
  const http::Patience none = from_options({})->patience;
  EXPECT_FALSE(none.connect_ns || none.stall_ns || none.attempts_max);
  const http::Patience patience =
      from_options(
          {{"config_kwargs.connect_timeout", "2.5"}, {"READ_TIMEOUT", "60"}, {"max_attempts", "1"}})
          ->patience;
  EXPECT_EQ(patience.connect_ns, 2'500'000'000);
  EXPECT_EQ(patience.stall_ns, 60'000'000'000);
  EXPECT_EQ(patience.attempts_max, 1);
  for (const char* const wrong : {"0", "x", "1s", "-3", "3601", "nan", "1e99"}) {
    EXPECT_THAT(
        error_of(from_options({{"read_timeout", wrong}})),
        HasSubstr("the storage option read_timeout must be a number of seconds, from 1 to 3600"));
  }
  EXPECT_THAT(error_of(from_options({{"max_attempts", "1.5"}})),
              HasSubstr("max_attempts must be a whole number"));
}

TEST(Settings, AttemptsAreLookedForWhereAwsProgramsLook) {
  HomeInMemory home;
  home.write_config("[default]\nmax_attempts=4\n");
  EXPECT_EQ(settings_for("s3", {}, home.around)->patience.attempts_max, 4);
  EXPECT_FALSE(settings_for("gs", {}, home.around)->patience.attempts_max);
  home.set({{"AWS_MAX_ATTEMPTS", "6"}});
  EXPECT_EQ(settings_for("s3", {}, home.around)->patience.attempts_max, 6);
}

TEST(Settings, TheProcessHasAHomeAndVariables) {
  const Surroundings around = surroundings_of_process();
  EXPECT_FALSE(around.home.empty());
  for (const auto& [name, value] : around.variables) EXPECT_TRUE(name.starts_with("AWS_"));
  EXPECT_NE(around.files, nullptr);
}

// A bug once: the store's hosts in China were looked for under amazonaws.com.
TEST(Settings, AwsHasHostsOfItsOwnInChina) {
  EXPECT_EQ(aws_address("s3", "eu-central-1"), "https://s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(aws_address("s3", "cn-north-1"), "https://s3.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(aws_address("sts", "cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(aws_address("sts", ""), "https://sts.amazonaws.com");
}

}  // namespace
}  // namespace forebay::io::s3
