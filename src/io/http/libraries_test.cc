// Every kind of build must have the libraries that origins on web servers and object stores need.

#include <curl/curl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <pugixml.hpp>

namespace forebay::io {
namespace {

TEST(Libraries, CurlSpeaksTlsAndHttp2AndSignsRequests) {
  const curl_version_info_data* const info = curl_version_info(CURLVERSION_NOW);
  EXPECT_NE(info->features & CURL_VERSION_SSL, 0) << curl_version();
  EXPECT_NE(info->features & CURL_VERSION_HTTP2, 0) << curl_version();
  // Names are resolved in threads of their own, so that other connections go on meanwhile. Only if
  // a request is given up while its name is resolved, the client's thread waits for the resolution
  // to end.
  EXPECT_NE(info->features & CURL_VERSION_ASYNCHDNS, 0) << curl_version();
  // Several threads may open origins at the same time.
  EXPECT_NE(info->features & CURL_VERSION_THREADSAFE, 0) << curl_version();
  EXPECT_NE(curl_easy_option_by_id(CURLOPT_AWS_SIGV4), nullptr);
}

TEST(Libraries, PugixmlReadsAListing) {
  pugi::xml_document document;
  const char text[] = "<ListBucketResult><Key>a&amp;b</Key></ListBucketResult>";
  ASSERT_TRUE(document.load_buffer(text, std::strlen(text)));
  EXPECT_STREQ(document.child("ListBucketResult").child_value("Key"), "a&b");
}

}  // namespace
}  // namespace forebay::io
