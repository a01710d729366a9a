// The settings of a store with S3's interface: its address, and what the user says about
// credentials. They come from options, the environment and profile files. The keys themselves are
// found by io/s3/credentials.h. docs/remote.md has the table of options for users.
#pragma once

#include <utility>
#include <vector>

#include "io/http/patience.h"
#include "io/s3/surroundings.h"

namespace forebay::io::s3 {

enum class Service : uint8_t { kS3, kGoogle };
// How a bucket is named in a URL: https://host/bucket/key or https://bucket.host/key.
enum class Addressing : uint8_t { kAuto, kPath, kVirtual };
enum class ProfileFrom : uint8_t { kDefault, kEnvironment, kOption };

struct Settings {
  Service service = Service::kS3;
  std::string endpoint_url = {};  // empty: AWS's for the region; never with a slash at its end
  std::string region = {};        // empty: unknown; the bucket can be asked for it
  Addressing addressing = Addressing::kAuto;
  bool anonymous = false;          // requests are not signed
  std::string access_key_id = {};  // empty: not given as an option
  Secret secret_access_key = {};
  Secret session_token = {};
  std::string profile = "default";
  ProfileFrom profile_from = ProfileFrom::kDefault;
  std::string ca_file = {};  // certificates in PEM; empty: the system's
  http::Patience patience = {};
  bool requester_pays = false;  // this user pays for the requests to the bucket
  std::string encryption = {};  // of new objects, such as "aws:kms"; empty: as the bucket says
  std::string encryption_key_id = {};  // in the store's service for keys; empty: the default one
};

// The address of one of AWS's services, such as "s3"; without a region if `region` is empty.
std::string aws_address(std::string_view service, std::string_view region);

// The names and values of storage options. A dictionary inside another one is flattened: its keys
// follow the outer key and a dot. An empty value counts as none.
using Options = std::vector<std::pair<std::string, std::string>>;

// Settings for URLs of a scheme: "s3", or "gs" for Google's store, which has S3's interface for
// HMAC keys. For each setting an option comes first, then the environment, then the profile.
// Google's endpoint and region come from options alone, because the others mean AWS's. Errors:
// kInvalid for an option that is unknown, malformed or in conflict with another, kNotFound if the
// named profile does not exist, and those of read_profile(). No message holds an option's value.
Result<Settings> settings_for(std::string_view scheme, const Options& options,
                              const Surroundings& around);

}  // namespace forebay::io::s3
