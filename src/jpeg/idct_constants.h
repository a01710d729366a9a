// The constants of libjpeg's accurate integer inverse DCT.
#pragma once

#include <cstdint>

namespace forebay::jpeg {

// jidctint.c: FIX(x) is x times 2^13, rounded.
inline constexpr int16_t kFix0298 = 2446;
inline constexpr int16_t kFix0390 = 3196;
inline constexpr int16_t kFix0541 = 4433;
inline constexpr int16_t kFix0765 = 6270;
inline constexpr int16_t kFix0899 = 7373;
inline constexpr int16_t kFix1175 = 9633;
inline constexpr int16_t kFix1501 = 12299;
inline constexpr int16_t kFix1847 = 15137;
inline constexpr int16_t kFix1961 = 16069;
inline constexpr int16_t kFix2053 = 16819;
inline constexpr int16_t kFix2562 = 20995;
inline constexpr int16_t kFix3072 = 25172;
inline constexpr int kConstBits = 13;
inline constexpr int kPass1Bits = 2;

}  // namespace forebay::jpeg
