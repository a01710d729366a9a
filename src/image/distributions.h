// Distributions that crops, noise and mixing are drawn from: the same bits with any compiler and on
// any machine, as they use exactly rounded operations only (the standard library's differ).
#pragma once

#include <array>

#include "base/random.h"

namespace forebay::image {

// exp(x) and log(x) by additions, multiplications and divisions only, so that every machine gives
// the same bits; within 2 units in the last place (|x| <= 700; x a normal number above 0).
double exact_exp(double x);
double exact_log(double x);

// Two independent numbers of the standard normal distribution.
std::array<double, 2> draw_normals(base::Random& random);

// A number of the distribution Beta(alpha, alpha), from 0 to 1; alpha > 0.
double draw_beta(double alpha, base::Random& random);

}  // namespace forebay::image
