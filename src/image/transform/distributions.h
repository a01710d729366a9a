// Random distributions for crops, noise and mixing. They give the same bits with any compiler and
// on any machine, because they use only exactly rounded operations, unlike the standard library.
#pragma once

#include <array>

#include "base/random.h"

namespace forebay::image {

// Compute exp(x) and log(x) by additions, multiplications and divisions only, so that every machine
// gives the same bits; accurate to 2 units in the last place. exact_exp() needs |x| <= 700,
// exact_log() a normal number above 0.
double exact_exp(double x);
double exact_log(double x);

// Draws two independent numbers of the standard normal distribution.
std::array<double, 2> draw_normals(base::Random& random);

// Draws a number from 0 to 1 of the distribution Beta(alpha, alpha); alpha > 0.
double draw_beta(double alpha, base::Random& random);

// Draws as many numbers as `to` holds, whose sum is 1, of the symmetric Dirichlet distribution;
// alpha > 0.
void draw_dirichlet(double alpha, base::Random& random, std::span<double> to);

}  // namespace forebay::image
