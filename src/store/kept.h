// Keeps metadata of remote data on this machine. Only files that are named by their hash are kept,
// because these never change.
#pragma once

#include "io/kept_files.h"
#include "io/origin.h"
#include "store/format/chunk.h"
#include "store/second_read.h"

namespace forebay::store {

// The name of a kept file: the hash of the part or chunk or root, and which of its bytes are kept.
inline std::string kept_name(const base::Sha256& of, std::string_view what) {
  return fmt::format("{}.{}", base::to_hex(of), what);
}
inline constexpr std::string_view kKeptRoot = "root";        // the bytes of a snapshot's root
inline constexpr std::string_view kKeptHead = "head";        // the first bytes of a part
inline constexpr std::string_view kKeptIndex = "index";      // the first bytes of a chunk
inline constexpr std::string_view kKeptHeaders = "headers";  // headers of a chunk's images

// Returns decode() of the bytes that are kept under `name`. If there are none, or decode() refuses
// them, calls read(), decodes the bytes and keeps them. `kept` may be null. If the bytes come over
// a network and decode() refuses them, they are read a second time.
template <class Read, class Decode>
auto kept_or_read(const io::KeptFiles* kept, const std::string& name, bool is_remote, Read read,
                  Decode decode) -> decltype(decode(base::Bytes())) {
  if (kept != nullptr) {
    if (const auto found = kept->get(name)) {
      if (auto decoded = decode(base::Bytes(*found))) return decoded;
    }
  }
  return with_second_read(is_remote, [&]() -> decltype(decode(base::Bytes())) {
    ASSIGN_OR_RETURN(const base::ByteVector bytes, read());
    auto decoded = decode(base::Bytes(bytes));
    if (decoded && kept != nullptr) kept->put(name, bytes);
    return decoded;
  });
}

}  // namespace forebay::store
