// Which certificates are trusted.
#pragma once

#include <string>

namespace forebay::io {

// The file of trusted certificates: the one that the variable SSL_CERT_FILE names, or the system's.
// Empty if libcurl finds the system's file by itself. The libcurl in a wheel was built on Debian,
// and other systems keep the file elsewhere.
std::string trusted_certificates();

}  // namespace forebay::io
