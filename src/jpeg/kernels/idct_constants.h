// The constants of libjpeg's accurate integer inverse DCTs, shared by host and GPU.
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

// jidctred.c: a reduced sample is the mean of the samples of the full transform that it replaces.
// So the factor of a frequency is the sum of its cosines at these samples, times sqrt(2). kCos
// holds cos(k pi / 16).
inline constexpr double kCos[8] = {1,
                                   0.98078528040323044913,
                                   0.92387953251128675613,
                                   0.83146961230254523708,
                                   0.70710678118654752440,
                                   0.55557023301960222474,
                                   0.38268343236508977173,
                                   0.19509032201612826785};
constexpr int16_t fix(double cosines) {
  const double scaled = cosines * 1.41421356237309504880 * (1 << kConstBits);
  return static_cast<int16_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}
// The factors of frequencies 0 to 7 for the first and the second of four samples. For the third and
// the fourth sample, odd frequencies have the opposite sign. Frequency 0 is a shift.
inline constexpr int16_t kOfFour[2][8] = {
    {0, fix(kCos[1] + kCos[3]), fix(kCos[2] + kCos[6]), fix(kCos[3] - kCos[7]), 0,
     fix(kCos[5] - kCos[1]), fix(kCos[6] - kCos[2]), fix(kCos[7] - kCos[5])},
    {0, fix(kCos[5] + kCos[7]), fix(-kCos[6] - kCos[2]), fix(-kCos[1] - kCos[5]), 0,
     fix(kCos[7] + kCos[3]), fix(kCos[2] - kCos[6]), fix(kCos[3] - kCos[1])}};
// The factors for the first of two samples.
alignas(16) inline constexpr int16_t kOfTwo[8] = {
    0, fix(kCos[1] + kCos[3] + kCos[5] + kCos[7]), 0, fix(kCos[3] - kCos[7] - kCos[1] - kCos[5]),
    0, fix(kCos[5] - kCos[1] + kCos[7] + kCos[3]), 0, fix(kCos[7] - kCos[5] + kCos[3] - kCos[1])};

}  // namespace forebay::jpeg
