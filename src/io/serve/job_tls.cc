#include "io/serve/job_tls.h"

#include <boost/asio/buffer.hpp>

namespace forebay::io::serve {

namespace asio = boost::asio;
using base::Code;
using base::fail;

base::Status use_job_certificate(asio::ssl::context& tls, const JobCertificate& job) try {
  // The fastest cipher.
  if (SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(tls.native_handle(), "TLS_AES_128_GCM_SHA256") != 1) {
    return fail(Code::kIo, "OpenSSL does not speak TLS 1.3");
  }
  const std::string_view key = job.key.reveal();
  tls.use_certificate(asio::buffer(job.certificate), asio::ssl::context::pem);
  tls.use_private_key(asio::buffer(key), asio::ssl::context::pem);
  tls.add_certificate_authority(asio::buffer(job.certificate));
  tls.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  return {};
} catch (const boost::system::system_error& error) {
  return fail(Code::kIo, "OpenSSL does not take the job's certificate: {}", error.code().message());
}

}  // namespace forebay::io::serve
