#include "io/remote/certificates.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace forebay::io {

std::string trusted_certificates() {
  const char* const named = std::getenv("SSL_CERT_FILE");
  if (named != nullptr && *named != '\0') return named;
  constexpr const char* kDebian = "/etc/ssl/certs/ca-certificates.crt";
  constexpr std::array kOthers = {
      "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
      "/etc/ssl/ca-bundle.pem",                             // openSUSE
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL
      "/etc/ssl/cert.pem",                                  // Alpine
  };
  if (::access(kDebian, R_OK) == 0) return {};
  for (const char* const other : kOthers) {
    if (::access(other, R_OK) == 0) return other;
  }
  return {};
}

}  // namespace forebay::io
