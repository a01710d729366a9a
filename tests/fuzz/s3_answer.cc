// deps: forebay_io
// What stores and services of credentials answer, and files of profiles. The first byte chooses
// which. The result must be an error, or values that keep their promises.
#include "io/s3/answers.h"
#include "io/s3/given_out.h"
#include "io/s3/profile_files.h"
#include "io/testing/memory.h"

namespace {

using namespace forebay;

void fuzz_listing(std::string_view xml) {
  const auto page = io::s3::parse_list_page(xml, "a b/");
  if (!page) return;
  for (const io::DirEntry& entry : page->entries) {
    FOREBAY_CHECK(!entry.name.empty() && entry.name.find('/') == std::string::npos);
    FOREBAY_CHECK(entry.info.has_value() == (entry.type == io::FileType::kFile));
  }
}

void fuzz_error(std::string_view xml) {
  const io::s3::ErrorAnswer error = io::s3::parse_error(xml);
  // The tag of a part may hold anything, and must come back out of the XML.
  FOREBAY_CHECK(!io::s3::list_of_parts({error.code, error.message}).empty());
  const auto id = io::s3::parse_upload_id(xml);
  FOREBAY_CHECK(!id || !id->empty());
}

void check_keys(const base::Result<io::s3::StepAnswer>& answer) {
  if (!answer) return;
  FOREBAY_CHECK(answer->found.has_value());
  const io::s3::FoundCredentials& found = *answer->found;
  FOREBAY_CHECK(!found.credentials.anonymous());
  FOREBAY_CHECK(!found.credentials.secret_access_key.empty());
  FOREBAY_CHECK(!found.lifetime_ns || *found.lifetime_ns > 0);
  // Whatever stands in a header must not begin another one.
  for (const std::string_view text : {std::string_view(found.credentials.access_key_id),
                                      found.credentials.session_token.reveal()}) {
    for (const char c : text) FOREBAY_CHECK(c > ' ' && c <= '~');
  }
}

void fuzz_profiles(std::string_view text) {
  const auto sections = io::s3::parse_sections(text);
  if (!sections) FOREBAY_CHECK(sections.error().code() == base::Code::kInvalid);
  io::MemoryFileSystem files;
  const size_t half = text.size() / 2;
  FOREBAY_CHECK(files.put("/h/.aws/config", base::as_bytes(text.substr(0, half))).ok());
  FOREBAY_CHECK(files.put("/h/.aws/credentials", base::as_bytes(text.substr(half))).ok());
  const auto profile = io::s3::read_profile({.home = "/h", .files = &files}, "default");
  if (profile) FOREBAY_CHECK(profile->found || profile->properties.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const io::Clock& clock = io::monotonic_clock();
  switch (data[0] % 6) {
    case 0:
      fuzz_listing(text);
      break;
    case 1:
      fuzz_error(text);
      break;
    case 2:
      check_keys(io::s3::accept_json({.status = 200, .body = io::Secret(text)}, "it", clock));
      break;
    case 3:
      check_keys(io::s3::accept_xml({.status = 200, .body = io::Secret(text)}, clock));
      break;
    case 4:
      check_keys(io::s3::accept_xml({.status = 400, .body = io::Secret(text)}, clock));
      break;
    default:
      fuzz_profiles(text);
  }
  return 0;
}
