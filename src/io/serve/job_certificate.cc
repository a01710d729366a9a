#include "io/serve/job_certificate.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

#include "io/secret_file.h"

namespace forebay::io::serve {

using base::Code;
using base::fail;
using base::Result;

namespace {

constexpr std::string_view kPurpose = "forebay cache certificate 2";
constexpr size_t kKeyBytes = 32;

template <class T, void (*free)(T*)>
struct Free {
  void operator()(T* object) const { free(object); }
};
void free_bio(BIO* bio) { BIO_free(bio); }
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX, EVP_PKEY_CTX_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO, free_bio>>;

bool derive(const Secret& secret, std::array<uint8_t, kKeyBytes>* seed) {
  const KeyContext context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  const auto* const bytes = reinterpret_cast<const uint8_t*>(secret.reveal().data());
  const auto* const purpose = reinterpret_cast<const uint8_t*>(kPurpose.data());
  size_t length = seed->size();
  return context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
         EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
         EVP_PKEY_CTX_set1_hkdf_key(context.get(), bytes, static_cast<int>(secret.size())) == 1 &&
         EVP_PKEY_CTX_add1_hkdf_info(context.get(), purpose, static_cast<int>(kPurpose.size())) ==
             1 &&
         EVP_PKEY_derive(context.get(), seed->data(), &length) == 1 && length == seed->size();
}

// Nothing in the certificate depends on the time, so it is the same everywhere. It is valid as long
// as the secret is in use.
Certificate certificate_of(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  X509* const x509 = certificate.get();
  const auto* const name = reinterpret_cast<const uint8_t*>("forebay cache");
  const bool made = x509 != nullptr && X509_set_version(x509, X509_VERSION_3) == 1 &&
                    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1) == 1 &&
                    ASN1_TIME_set_string_X509(X509_getm_notBefore(x509), "20000101000000Z") == 1 &&
                    ASN1_TIME_set_string_X509(X509_getm_notAfter(x509), "99991231235959Z") == 1 &&
                    X509_set_pubkey(x509, key) == 1 &&
                    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                                               name, -1, -1, 0) == 1 &&
                    X509_set_issuer_name(x509, X509_get_subject_name(x509)) == 1 &&
                    X509_sign(x509, key, nullptr) > 0;
  if (!made) certificate.reset();
  return certificate;
}

std::string text_of(BIO* bio) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio, &text);
  return {text, static_cast<size_t>(length)};
}

}  // namespace

Result<JobCertificate> make_job_certificate(const Secret& secret) {
  if (secret.size() < kJobSecretBytesMin) {
    return fail(Code::kInvalid, "the job's secret has {} bytes, but must have at least {}",
                secret.size(), kJobSecretBytesMin);
  }
  std::array<uint8_t, kKeyBytes> seed{};
  ASSIGN_OR_RETURN(const Secret key_of_keys, stretched(secret));
  const bool derived = derive(key_of_keys, &seed);
  const Key key(
      derived ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size())
              : nullptr);
  Secret::wipe(seed.data(), seed.size());
  const Certificate certificate = key != nullptr ? certificate_of(key.get()) : nullptr;
  const Bio public_part(BIO_new(BIO_s_mem()));
  const Bio private_part(BIO_new(BIO_s_secmem()));
  const bool written = certificate != nullptr && public_part != nullptr &&
                       private_part != nullptr &&
                       PEM_write_bio_X509(public_part.get(), certificate.get()) == 1 &&
                       PEM_write_bio_PrivateKey(private_part.get(), key.get(), nullptr, nullptr, 0,
                                                nullptr, nullptr) == 1;
  if (!written) return fail(Code::kIo, "OpenSSL cannot make the job's certificate");
  std::string text = text_of(private_part.get());
  return JobCertificate{.certificate = text_of(public_part.get()), .key = Secret::take(text)};
}

}  // namespace forebay::io::serve
