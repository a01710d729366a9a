// CRC32C and SHA-256 against the values that their standards publish.
#include "base/checksum.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

TEST(Crc32c, MatchesRfc3720Examples) {
  EXPECT_EQ(crc32c(ByteVector(32, 0)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(ByteVector(32, 0xFF)), 0x62A8AB43u);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283u);
}

TEST(Crc32c, ContinuesFromASeed) {
  const Bytes whole = as_bytes("a forebay evens out the flow");
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    EXPECT_EQ(crc32c(whole.subspan(cut), crc32c(whole.first(cut))), crc32c(whole));
  }
}

TEST(Sha256, MatchesFips180Example) {
  EXPECT_EQ(to_hex(sha256(as_bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, ReadsOnlyItsOwnHex) {
  const Sha256 sum = sha256(as_bytes("x"));
  EXPECT_EQ(sha256_from_hex(to_hex(sum)).value(), sum);
  EXPECT_FALSE(sha256_from_hex(""));
  EXPECT_FALSE(sha256_from_hex(to_hex(sum).substr(1)));
  EXPECT_FALSE(sha256_from_hex(std::string(63, 'a') + "G"));
}

TEST(Crc32c, OfPartsGivesThatOfTheWhole) {
  ByteVector data(100'000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * i >> 3);
  const Bytes whole = data;
  for (const size_t cut : {0u, 1u, 7u, 16'384u, 99'999u, 100'000u}) {
    const Bytes second = whole.subspan(cut);
    EXPECT_EQ(Crc32cJoin(second.size())(crc32c(whole.first(cut)), crc32c(second)), crc32c(whole))
        << cut;
  }
}

}  // namespace
}  // namespace forebay::base
