// Which certificates are trusted.
#pragma once

#include <string>

namespace forebay::io {

// A file of certificates that are trusted: what the variable SSL_CERT_FILE names, or the system's.
// Empty where libcurl finds the system's by itself. The libcurl in a wheel was built on Debian, and
// other systems keep them elsewhere.
std::string trusted_certificates();

}  // namespace forebay::io
