// The certificate by which the processes of a job recognise each other. Every process that has the
// job's secret makes the same one, and nobody else can (docs/decisions/0015-cache.md).
#pragma once

#include <string>

#include "base/status.h"
#include "io/secret.h"

namespace forebay::io::serve {

// Both in PEM.
struct JobCertificate {
  std::string certificate;
  Secret key;
};

// An Ed25519 key that HKDF-SHA256 (RFC 5869) derives from the stretched secret (secret_file.h), and
// a certificate that it signs; the same bytes for the same secret everywhere. Errors: kInvalid for
// a secret of fewer than kJobSecretBytesMin bytes; those of stretched(); kIo if OpenSSL fails.
base::Result<JobCertificate> make_job_certificate(const Secret& secret);

inline constexpr size_t kJobSecretBytesMin = 16;

}  // namespace forebay::io::serve
