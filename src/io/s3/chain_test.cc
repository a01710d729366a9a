// The places where credentials are looked for, with services that listen on loopback.
#include "io/s3/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/limits.h"
#include "io/s3/given_out.h"
#include "io/testing/credential_services.h"
#include "io/testing/manual_clock.h"
#include "io/testing/s3_surroundings.h"

namespace forebay::io::s3 {
namespace {

using base::Code;
using testing::HasSubstr;

constexpr int64_t kHour = 3'600'000'000'000;

class ChainTest : public testing::Test {
 protected:
  ChainTest() { set("AWS_EC2_METADATA_DISABLED", "true"); }

  void set(const std::string& name, const std::string& value) { home.set({{name, value}}); }
  Result<ChainResult> find(const Options& options = {}, std::string_view scheme = "s3") {
    ASSIGN_OR_RETURN(const Settings settings, settings_for(scheme, options, home.around));
    return find_credentials({.settings = settings, .around = home.around, .clock = clock});
  }
  // The key that is found, or the error; also checks its code.
  std::string key(const Options& options = {}, std::string_view scheme = "s3") {
    const Result<ChainResult> found = find(options, scheme);
    code = found ? Code::kOk : found.error().code();
    return found ? found->found.credentials.access_key_id : error_of(found);
  }

  void use_metadata(const HttpListener& listener) {
    set("AWS_EC2_METADATA_DISABLED", "");
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", listener.url());
  }
  void use_container(const HttpListener& listener) {
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", listener.url() + "/keys?hush=1");
  }
  void use_web_identity(const HttpListener& listener) {
    set("AWS_ENDPOINT_URL_STS", listener.url());
    set("AWS_WEB_IDENTITY_TOKEN_FILE", "/token");
    set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    home.write("/token", "hush+token/1\n");
  }

  HomeInMemory home;
  ManualClock clock{kServiceNowNs};
  Code code = Code::kOk;
};

TEST_F(ChainTest, PlacesAreAskedInOrder) {
  HttpListener metadata(
      [](const HeardRequest& r) { return metadata_reply(r, json_keys("metadata")); });
  HttpListener container([](const HeardRequest&) { return json_keys("container"); });
  HttpListener sts([](const HeardRequest&) { return xml_keys("web"); });
  use_metadata(metadata);
  EXPECT_EQ(key(), "metadata");
  use_container(container);
  EXPECT_EQ(key(), "container");
  home.write_credentials(
      "[default]\naws_access_key_id=file\naws_secret_access_key=hush\n"
      "[other]\naws_access_key_id=other\naws_secret_access_key=hush\n");
  EXPECT_EQ(key(), "file");
  use_web_identity(sts);
  EXPECT_EQ(key(), "web");
  set("AWS_ACCESS_KEY_ID", "environment");
  set("AWS_SECRET_ACCESS_KEY", "hush");
  EXPECT_EQ(key(), "environment");
  EXPECT_EQ(key({{"key", "given"}, {"secret", "hush"}}), "given");
  EXPECT_EQ(key({{"anon", "true"}}), "");
  EXPECT_EQ(code, Code::kOk);
  // A profile that the program names counts.
  EXPECT_EQ(key({{"profile", "other"}}), "other");
  set("AWS_PROFILE", "other");
  EXPECT_EQ(key(), "environment");
}

TEST_F(ChainTest, NoCredentialsSaysWhatWasTriedAndWhy) {
  EXPECT_EQ(key(),
            "there are no credentials (storage options: key and secret are not given; environment: "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; web identity: "
            "AWS_WEB_IDENTITY_TOKEN_FILE is not set; profile files: there is no profile default in "
            "/home/u/.aws/config and /home/u/.aws/credentials; container service: "
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and AWS_CONTAINER_CREDENTIALS_FULL_URI are not "
            "set; instance metadata: AWS_EC2_METADATA_DISABLED is true); give the storage options "
            "key and secret, or anon for a bucket that is public");
  EXPECT_EQ(code, Code::kInvalid);
}

TEST_F(ChainTest, APlaceThatIsSetUpWrongEndsTheSearch) {
  HttpListener container([](const HeardRequest&) { return json_keys("container"); });
  use_container(container);
  home.write_credentials("[default]\naws_secret_access_key = hush\n");
  EXPECT_THAT(key(), HasSubstr("cannot get credentials from the profile files: profile default in "
                               "/home/u/.aws/config and /home/u/.aws/credentials must have both"));
  EXPECT_THAT(key(),
              HasSubstr("; places tried before: storage options: key and secret are not given"));
  set("AWS_WEB_IDENTITY_TOKEN_FILE", "/none");
  EXPECT_THAT(key(), HasSubstr("AWS_ROLE_ARN is not"));
  set("AWS_ROLE_ARN", "r");
  EXPECT_THAT(key(), HasSubstr("/none"));
  EXPECT_EQ(code, Code::kNotFound);
  set("AWS_ACCESS_KEY_ID", "hush");
  EXPECT_THAT(key(), HasSubstr("AWS_SECRET_ACCESS_KEY is not set"));
  set("AWS_SECRET_ACCESS_KEY", "hush \r\nX-Header: hush");
  EXPECT_THAT(key(), HasSubstr("the keys from the environment hold a blank"));
  EXPECT_TRUE(container.heard().empty());
}

// A bug once: services were asked for half a minute instead.
TEST_F(ChainTest, AMistypedPropertyIsNamed) {
  HttpListener container([](const HeardRequest&) { return json_keys("container"); });
  use_container(container);
  home.write_credentials("[default]\naws_acces_key_id = hush\naws_secret_acces_key = hush\n");
  EXPECT_THAT(key(),
              HasSubstr("has no aws_access_key_id, but aws_acces_key_id, which is no property"));
  EXPECT_EQ(code, Code::kInvalid);
  EXPECT_TRUE(container.heard().empty());
  home.write_credentials("[default]\n");
  home.write_config("[default]\nregion = r\naws_account_id = 7\n");
  EXPECT_EQ(key(), "container") << "a profile without keys is no mistake";
}

TEST_F(ChainTest, ProfilesThatNeedOthersAreRefused) {
  for (const char* property : {"role_arn", "source_profile", "credential_source", "sso_session",
                               "sso_start_url", "credential_process"}) {
    home.write_config(fmt::format("[default]\n{} = hush\n", property));
    EXPECT_THAT(key(), HasSubstr(fmt::format("has {}, which is not supported", property)));
    EXPECT_EQ(code, Code::kInvalid);
  }
  EXPECT_THAT(key(), HasSubstr("aws configure export-credentials --format env --profile default"));
  // The keys in the profile are those to ask for the role with.
  home.write_config(
      "[default]\nrole_arn = r\naws_access_key_id = k\naws_secret_access_key = hush\n");
  EXPECT_THAT(key(), HasSubstr("has role_arn, which is not supported"));
  home.write_config("[default]\nregion = r\n");
  EXPECT_THAT(key(), HasSubstr("has no aws_access_key_id"));
}

TEST_F(ChainTest, GoogleHasNoKeysFromAwsServices) {
  HttpListener container([](const HeardRequest&) { return json_keys("container"); });
  use_container(container);
  EXPECT_THAT(key({}, "gs"), HasSubstr("there are no credentials"));
  EXPECT_THAT(key({{"profile", "none"}}, "gs"), HasSubstr("there is no profile none"));
  EXPECT_EQ(code, Code::kNotFound);
  home.write_credentials("[default]\naws_access_key_id=file\naws_secret_access_key=hush\n");
  EXPECT_EQ(key({}, "gs"), "file");
  EXPECT_TRUE(container.heard().empty());
}

TEST_F(ChainTest, CredentialsEndByTheClockOfWhoeverGaveThem) {
  HttpListener container([](const HeardRequest&) { return json_keys("k"); });
  use_container(container);
  for (const int64_t error_ns : {-1000 * kHour, 0 * kHour, 1000 * kHour}) {
    clock.jump_wall(error_ns);
    const Result<ChainResult> found = find();
    ASSERT_TRUE(found.has_value()) << found.error().message();
    EXPECT_EQ(found->found.lifetime_ns, kHour);
    EXPECT_EQ(found->found.credentials.secret_access_key.reveal(), "hush-s");
    EXPECT_EQ(found->found.credentials.session_token.reveal(), "hush-t");
  }
}

TEST_F(ChainTest, WithoutADateThisMachinesClockCounts) {
  HttpListener container([](const HeardRequest&) {
    Reply reply = json_keys("k");
    reply.headers = "Date: garbage\r\n";
    return reply;
  });
  use_container(container);
  EXPECT_EQ(find()->found.lifetime_ns, kHour);
  clock.jump_wall(2 * kHour);
  EXPECT_THAT(key(), HasSubstr("expired 3600 s ago by this machine's clock, which may be wrong"));
  EXPECT_EQ(code, Code::kUnavailable);
}

TEST_F(ChainTest, TheContainersServiceGetsTheToken) {
  HttpListener container([](const HeardRequest&) { return json_keys("k"); });
  use_container(container);
  EXPECT_EQ(key(), "k");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hush-1");
  EXPECT_EQ(key(), "k");
  home.write("/token", "hush-2\n");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token");
  EXPECT_EQ(key(), "k");
  home.write("/token", "hush\r\nX-More: hush");
  EXPECT_THAT(key(), HasSubstr("has more than one line"));
  const auto heard = container.heard();
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0].target, "/keys?hush=1");
  EXPECT_FALSE(heard[0].headers.contains("authorization"));
  EXPECT_EQ(heard[1].headers.at("authorization"), "hush-1");
  EXPECT_EQ(heard[2].headers.at("authorization"), "hush-2");
}

TEST_F(ChainTest, TheContainersServiceMustBeNear) {
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://far.example/hush");
  EXPECT_THAT(key(), HasSubstr("must begin with https://, or name this machine"));
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.evil.example/hush");
  EXPECT_THAT(key(), HasSubstr("must begin with https://, or name this machine"));
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "hush");
  EXPECT_THAT(key(), HasSubstr("must be a URL"));
  set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@far.example/hush");
  EXPECT_THAT(key(), HasSubstr("must begin with /"));
}

TEST_F(ChainTest, BadAnswersOfTheContainersServiceAreErrors) {
  Reply reply;
  HttpListener container([&](const HeardRequest&) { return reply; });
  use_container(container);
  const std::string whole = json_keys("k").body;
  const std::vector<std::pair<Reply, std::string>> bad = {
      {{.status = 404, .body = "hush"}, "answers with HTTP status 404"},
      {{.status = 500, .body = "hush"}, "answers with HTTP status 500"},
      {{.status = 302, .headers = "Location: http://hush/\r\n"}, "answers with HTTP status 302"},
      {{.body = "hush"}, "is not a complete JSON object"},
      {{.body = "[\"hush\"]"}, "is not a complete JSON object"},
      {{.body = std::string(60'000, '[')}, "is not a complete JSON object"},
      {{.body = "\"\xFF\xFE hush"}, "is not a complete JSON object"},
      {{.body = whole.substr(0, whole.size() - 1)}, "is not a complete JSON object"},
      {{.body = "{}"}, "holds no access key, or no secret key"},
      {{.body = R"({"AccessKeyId":1,"SecretAccessKey":"hush"})"}, "holds no access key"},
      {{.body = R"({"AccessKeyId":"k","SecretAccessKey":"hu\r\nsh"})"}, "hold a blank, a line end"},
      {{.body = R"({"AccessKeyId":"k","SecretAccessKey":"hush","Expiration":7})"},
       "malformed time"},
      {json_keys("k", "hush"), "malformed time of expiration"},
      {json_keys("k", "2026-11-24T17:59:00Z"), "expired 60 s ago by its own clock"},
      {{.body = whole, .cut = true}, "cannot ask http://127.0.0.1:"},
  };
  for (const auto& [answer, message] : bad) {
    reply = answer;
    EXPECT_THAT(key(), HasSubstr(message));
  }
}

TEST_F(ChainTest, TheLongestAnswerIsTaken) {
  Reply reply = json_keys("k");
  reply.body.resize(base::kCredentialAnswerBytesMax, ' ');
  HttpListener container([&](const HeardRequest&) { return reply; });
  use_container(container);
  EXPECT_EQ(key(), "k");
  reply.body += ' ';
  EXPECT_THAT(key(), HasSubstr("is longer than 65536 bytes"));
  EXPECT_EQ(code, Code::kTooBig);
}

TEST_F(ChainTest, WithoutAnExpirationTheyDoNotEnd) {
  HttpListener container([&](const HeardRequest&) {
    return Reply{.body = R"({"AccessKeyId":"k","SecretAccessKey":"hush","Expiration":null})"};
  });
  use_container(container);
  EXPECT_FALSE(find()->found.lifetime_ns.has_value());
}

TEST_F(ChainTest, AServiceThatFailsOnceIsAskedAgain) {
  std::atomic<int> asked = 0;
  HttpListener container(
      [&](const HeardRequest&) { return ++asked < 3 ? Reply{.status = 503} : json_keys("k"); });
  use_container(container);
  EXPECT_EQ(key(), "k");
  EXPECT_EQ(asked, 3);
}

TEST_F(ChainTest, MetadataThatIsNotThereIsPassedOver) {
  std::string url;
  {
    const HttpListener gone([](const HeardRequest&) { return Reply(); });
    url = gone.url();
  }
  set("AWS_EC2_METADATA_DISABLED", "false");
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
  EXPECT_THAT(key(), HasSubstr("there are no credentials"));
  EXPECT_THAT(key(), HasSubstr("instance metadata: cannot ask " + url + "/latest/api/token"));
  HttpListener other([](const HeardRequest&) { return Reply{.status = 404, .body = "hush"}; });
  use_metadata(other);
  EXPECT_THAT(key(), HasSubstr("gives no token (IMDSv2))"));
  HttpListener slow([](const HeardRequest&) { return Reply{.delay_ms = 1500}; });
  use_metadata(slow);
  EXPECT_THAT(key(), HasSubstr("did not answer within 1000 ms"));
  EXPECT_EQ(slow.heard().size(), 2u);
  HttpListener without_role([](const HeardRequest& r) {
    return r.method == "PUT" ? Reply{.body = "hush"} : Reply{.status = 404};
  });
  use_metadata(without_role);
  EXPECT_THAT(key(), HasSubstr("this machine has no role"));
  EXPECT_EQ(code, Code::kInvalid);
}

TEST_F(ChainTest, BadAnswersOfTheMetadataAreErrors) {
  Reply token{.body = "hush"};
  Reply roles{.body = "role"};
  Reply keys = json_keys("k");
  HttpListener metadata([&](const HeardRequest& r) {
    return r.method == "PUT" ? token : r.target.ends_with("/") ? roles : keys;
  });
  use_metadata(metadata);
  EXPECT_EQ(key(), "k");
  keys = {.status = 404};
  EXPECT_THAT(key(), HasSubstr("HTTP status 404 when asked for the role's credentials"));
  keys = {.body = R"({"Code":"AssumeRoleUnauthorizedAccess","Message":"hush"})"};
  EXPECT_THAT(key(), HasSubstr("holds no access key"));
  for (const char* name : {"", "../hush", "hush role", "<html>hush"}) {
    roles = {.body = name};
    EXPECT_THAT(key(), HasSubstr("gives no valid name of the machine's role"));
  }
  roles = {.status = 500};
  EXPECT_THAT(key(), HasSubstr("HTTP status 500 when asked for the machine's role"));
  EXPECT_EQ(code, Code::kUnavailable);
  token = {.status = 403};
  EXPECT_THAT(key(), HasSubstr("HTTP status 403 when asked for a token"));
  for (const char* text : {"", "hush\r\nX-More: 1"}) {
    token = {.body = text};
    EXPECT_THAT(key(), HasSubstr("gives a malformed token"));
  }
}

TEST_F(ChainTest, TheTokenServiceIsAskedByAForm) {
  HttpListener sts([](const HeardRequest&) { return xml_keys("k"); });
  use_web_identity(sts);
  set("AWS_ROLE_SESSION_NAME", "a b");
  const Result<ChainResult> found = find();
  ASSERT_TRUE(found.has_value()) << error_of(found);
  EXPECT_EQ(found->found.lifetime_ns, kHour);
  EXPECT_EQ(found->found.credentials.secret_access_key.reveal(), "hush-s");
  EXPECT_EQ(found->found.credentials.session_token.reveal(), "hush-t");
  ASSERT_EQ(sts.heard().size(), 1u);
  const HeardRequest request = sts.heard()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/");
  EXPECT_EQ(request.headers.at("content-type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(request.body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3A"
            "role%2Fr&RoleSessionName=a%20b&WebIdentityToken=hush%2Btoken%2F1");
}

TEST_F(ChainTest, BadAnswersOfTheTokenServiceAreErrors) {
  Reply reply;
  HttpListener sts([&](const HeardRequest&) { return reply; });
  use_web_identity(sts);
  const auto refusal = [](int status, std::string_view error_code) {
    return Reply{.status = status,
                 .body = fmt::format("<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code>"
                                     "<Message>hush</Message></Error></ErrorResponse>",
                                     error_code)};
  };
  const std::string whole = xml_keys("k").body;
  const std::vector<std::tuple<Reply, std::string, Code>> bad = {
      {refusal(400, "ExpiredTokenException"), "the token in the file has expired", Code::kInvalid},
      {refusal(403, "AccessDenied"), "the role does not trust this token", Code::kInvalid},
      {refusal(400, "IDPCommunicationError"), "could not be reached", Code::kUnavailable},
      {refusal(400, "hush hush"), "answers with HTTP status 400", Code::kInvalid},
      {{.status = 503, .body = "hush"}, "answers with HTTP status 503", Code::kUnavailable},
      {{.body = "hush"}, "is not the XML of AssumeRoleWithWebIdentity", Code::kUnavailable},
      {{.body = "<a><hush>"}, "is not the XML", Code::kUnavailable},
      {{.body = whole.substr(0, whole.size() - 20)}, "or not all of it", Code::kUnavailable},
      {xml_keys(""), "holds no access key", Code::kUnavailable},
      {xml_keys("k", "hush"), "malformed time", Code::kUnavailable},
      {xml_keys("k", "2026-11-24T18:00:00Z"), "expired 0 s ago", Code::kUnavailable},
  };
  for (const auto& [answer, message, expected] : bad) {
    reply = answer;
    EXPECT_THAT(key(), HasSubstr(message));
    EXPECT_EQ(code, expected) << message;
  }
}

TEST_F(ChainTest, ATokenIsOnlySentOverTls) {
  HttpListener sts([](const HeardRequest&) { return xml_keys("k"); });
  use_web_identity(sts);
  set("AWS_ENDPOINT_URL_STS", "http://far.example");
  EXPECT_THAT(key(), HasSubstr("AWS_ENDPOINT_URL_STS must begin with https://"));
  set("AWS_ENDPOINT_URL_STS", "https" + sts.url().substr(4));
  EXPECT_THAT(key(), HasSubstr("cannot ask https://127.0.0.1:"));
  EXPECT_EQ(code, Code::kUnavailable);
}

TEST(GivenOut, ReadsTimes) {
  EXPECT_EQ(utc_ns("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(utc_ns("2000-02-29T23:59:59Z"), 951'868'799'000'000'000);
  EXPECT_EQ(utc_ns("2026-11-24T18:00:00Z"), kServiceNowNs);
  EXPECT_EQ(utc_ns("2026-11-24T18:00:00.123456Z"), kServiceNowNs);
  EXPECT_EQ(utc_ns("2026-11-24T18:00:00+00:00"), kServiceNowNs);
  for (const char* wrong :
       {"", "2026", "2026-11-24T18:00:00", "2026-11-24 18:00:00Z", "2026-02-29T00:00:00Z",
        "2026-11-24T24:00:00Z", "2026-13-01T00:00:00Z", "2026-11-24T18:00:00+02:00",
        "1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2026-11-24T18:00:00.",
        "-026-11-24T18:00:00Z", "2026-11-24T18:60:00Z", "2026-11-24T18:00:00.12",
        "2026-11-24T18:00:00Z "}) {
    EXPECT_EQ(utc_ns(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace forebay::io::s3
