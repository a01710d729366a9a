// TLS between the processes of a job.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include "base/status.h"
#include "io/serve/job_certificate.h"

namespace forebay::io::serve {

// Makes the context use only TLS 1.3, show the job's certificate, and trust no other one. Errors:
// kIo if OpenSSL fails.
base::Status use_job_certificate(boost::asio::ssl::context& tls, const JobCertificate& job);

}  // namespace forebay::io::serve
