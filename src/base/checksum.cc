#include "base/checksum.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>

namespace forebay::base {

uint32_t crc32c(Bytes data, uint32_t seed) {
  // ISA-L takes an int length and leaves both inversions to the caller.
  uint32_t state = ~seed;
  while (!data.empty()) {
    const size_t step = std::min<size_t>(data.size(), 1u << 30);
    state = crc32_iscsi(const_cast<unsigned char*>(data.data()), static_cast<int>(step), state);
    data = data.subspan(step);
  }
  return ~state;
}

namespace {

constexpr uint32_t kOne = 1u << 31;  // the polynomial 1

// Multiplies two polynomials modulo the polynomial of CRC-32C. The lowest bits hold the highest
// powers.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  constexpr uint32_t kPolynomial = 0x82F63B78;
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    product ^= b & (0u - static_cast<uint32_t>((a & bit) != 0));
    b = b >> 1 ^ (kPolynomial & (0u - (b & 1)));
  }
  return product;
}

// x^(8 * 2^i)
constexpr std::array<uint32_t, 64> make_powers() {
  std::array<uint32_t, 64> powers{};
  powers[0] = 1u << 23;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = multiply(powers[i - 1], powers[i - 1]);
  return powers;
}
constexpr std::array<uint32_t, 64> kPowers = make_powers();

}  // namespace

// Appending n bytes multiplies the checksum of the bytes before them by x^(8 * n).
Crc32cJoin::Crc32cJoin(uint64_t second_bytes) : factor_(kOne) {
  for (size_t i = 0; i < kPowers.size(); ++i) {
    if ((second_bytes >> i & 1) != 0) factor_ = multiply(factor_, kPowers[i]);
  }
}

uint32_t Crc32cJoin::operator()(uint32_t first, uint32_t second) const {
  return multiply(factor_, first) ^ second;
}

struct Sha256Stream::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {
  FOREBAY_CHECK(state_->context != nullptr);
  FOREBAY_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256Stream::~Sha256Stream() = default;
Sha256Stream::Sha256Stream(Sha256Stream&&) noexcept = default;
Sha256Stream& Sha256Stream::operator=(Sha256Stream&&) noexcept = default;

void Sha256Stream::add(Bytes data) {
  FOREBAY_CHECK(EVP_DigestUpdate(state_->context, data.data(), data.size()) == 1);
}

Sha256 Sha256Stream::finish() {
  Sha256 out{};
  FOREBAY_CHECK(EVP_DigestFinal_ex(state_->context, out.data(), nullptr) == 1);
  return out;
}

Sha256 sha256(Bytes data) {
  Sha256Stream stream;
  stream.add(data);
  return stream.finish();
}

std::string to_hex(Bytes data) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(data.size() * 2);
  for (const uint8_t byte : data) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Result<Sha256> sha256_from_hex(std::string_view text) {
  Sha256 out{};
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  bool good = text.size() == 2 * out.size();
  for (size_t i = 0; good && i < out.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  if (!good)
    return fail(Code::kCorrupt, "'{}' is not a SHA-256 in hexadecimal", text.substr(0, 80));
  return out;
}

}  // namespace forebay::base
