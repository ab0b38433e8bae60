// Factors of features, kernel widths, and the precision that they need.

#pragma once

#include "shared.h"

namespace {

// The inverse of half the range or of the standard deviation, or 1 where that is of no use.
PACBAYES_SHARED double factor_of(double low, double high, double spread) {
  const double factor = 1 / spread;
  return high > low && factor < kInfinity && factor > 0 ? factor : 1.0;
}

PACBAYES_SHARED double half_range(double low, double high) { return (high - low) / 2; }

// Limits of Jaakkola's heuristic.
constexpr double kMinSeed = 1e-100, kMaxSeed = 1e100;

// A kernel width; `distinct` says whether most points have a positive distance to those of other classes.
struct Heuristic {
  double gamma;
  bool distinct;
};

// The median of `size` numbers but for the `skip` smallest, given what finds one by its rank.
template <class Ranked>
PACBAYES_SHARED double median(int size, int skip, Ranked ranked) {
  const int rest = size - skip, half = skip + rest / 2;
  const double upper = ranked(half);
  return rest % 2 == 1 ? upper : (upper + ranked(half - 1)) / 2;
}

// Jaakkola's heuristic on the distances to the nearest points of another class, of which `zeros` are zero:
// jaakkola_gamma of _rbf_svm.py.
template <class Ranked>
PACBAYES_SHARED Heuristic gamma_of_distances(int size, int zeros, Ranked ranked) {
  double typical = median(size, 0, ranked);
  const bool distinct = typical > 0;
  if (!distinct) typical = zeros == size ? 1.0 : median(size, zeros, ranked);
  const double gamma = 1 / (2 * typical * typical);
  return {gamma < kMinSeed ? kMinSeed : gamma > kMaxSeed ? kMaxSeed : gamma, distinct};
}

// Whether the kernel matrix of points whose norms are at most N can be computed in single precision.
//
// Let u = 2^-24 and D the squared distance of x and y, of d features. Rounding them moves x - y by at most 2 u N, and
// the difference, its square and the sum are rounded at most d + 3 times, gamma and its product with D twice: gamma D is
// off by u ((d + 5) gamma D + 4 N gamma sqrt(D)), as (u N)^2 gamma is small. Since t exp(-t) <= 0.37, sqrt(t) exp(-t)
// <= 0.43 and the exponential is off by 2 u at most, a kernel value is off by
//
//     u (0.37 (d + 12) + 1.72 N sqrt(gamma)).
//
// Typical errors are smaller by an order of magnitude, since roundings cancel. Where gamma is Jaakkola's, 1 / (2 D),
// the condition bounds the relative error of its D as well, by 2^-13. No certificate depends on either: votes are
// computed in double precision from the coefficients and gamma that training arrived at. Limits on N and gamma keep all
// numbers within the range of single precision.
constexpr double kMaxKernelError = 0x1p-15, kMaxNorm = 1e18, kMinSingleGamma = 1e-30, kMaxSingleGamma = 1e30;

PACBAYES_SHARED bool is_single_enough(double norm, long long d, double gamma) {
  if (!(norm <= kMaxNorm && gamma >= kMinSingleGamma && gamma <= kMaxSingleGamma)) return false;
  return 0x1p-24 * (0.37 * static_cast<double>(d + 12) + 1.72 * norm * sqrt(gamma)) <= kMaxKernelError;
}

// The same for a width that a heuristic in single precision gave.
PACBAYES_SHARED bool is_single_enough(double norm, long long d, Heuristic seed, double gamma) {
  return seed.distinct && is_single_enough(norm, d, seed.gamma) && is_single_enough(norm, d, gamma);
}

}  // namespace
