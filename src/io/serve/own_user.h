// How a server without TLS and its clients, which are processes of one user on one machine, prove
// to each other that they have the same secret. The secret itself is never sent. Requests and
// answers carry different proofs, so that whoever gets the port of a server that has died cannot
// answer.
#pragma once

#include <string>
#include <string_view>

#include "io/secret.h"

namespace forebay::io::serve {

struct Proofs {
  std::string of_client = {};  // sent as "Authorization: Bearer …"
  std::string of_server = {};  // sent in kServerProofHeader
  bool empty() const { return of_client.empty(); }
};

// The proofs that follow from a secret; empty ones for an empty secret.
Proofs proofs_from(const Secret& secret);

// Whether a header's value is this proof. It takes the same time for every wrong value.
bool is_proof(std::string_view value, std::string_view proof);
// Whether the value of a request's header Authorization is "Bearer " and this proof.
bool is_bearer(std::string_view value, std::string_view proof);

// In an answer with ranges.
inline constexpr std::string_view kServerProofHeader = "Forebay-Proof";

}  // namespace forebay::io::serve
