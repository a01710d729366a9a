#include "io/serve/own_user.h"

#include <openssl/crypto.h>

#include "io/secret_file.h"

namespace forebay::io::serve {

Proofs proofs_from(const Secret& secret) {
  if (secret.empty()) return {};
  return {.of_client = token_of(secret, "a client of a cache on this machine"),
          .of_server = token_of(secret, "the server of a cache on this machine")};
}

bool is_proof(std::string_view value, std::string_view proof) {
  return value.size() == proof.size() &&
         ::CRYPTO_memcmp(value.data(), proof.data(), proof.size()) == 0;
}

bool is_bearer(std::string_view value, std::string_view proof) {
  constexpr std::string_view kBearer = "Bearer ";
  return value.starts_with(kBearer) && is_proof(value.substr(kBearer.size()), proof);
}

}  // namespace forebay::io::serve
