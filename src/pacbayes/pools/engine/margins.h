// How far from zero a decision value must be for every engine to agree on its sign.
//
// The decision value of a pair of classes is f = b + sum_p c_p exp(-gamma D_p), over the s support vectors of both. All
// engines read the same coefficients and the same differences of (scaled) features, which IEEE arithmetic makes equal
// to the bit; D_p is the sum of their d squares, with 0 or 2 in the place of a square where the feature is a category.
// What may differ is whether a product is fused with an addition, the exponential, and so the rounding of the rest. With
// u = 2^-53, to first order and with room for the higher ones,
//
//   - D_p has a relative error of d u, since no term is negative, and gamma D_p one of (d + 1) u. As t exp(-t) <= 1/e,
//     that changes the kernel value by at most 0.4 (d + 1) u;
//   - the exponential has a relative error of at most 8 u (2 ulp are 4 u), and counts as zero below 2^-1021;
//   - squares that underflow change gamma D_p by at most gamma d 2^-1074;
//   - the sum of s + 1 terms, products rounded or not, has an error of (s + 2) u (|b| + sum |c_p|),
//
// together at most  E = u (s + d + 16) (|b| + sum |c_p|) + sum |c_p| (2^-1020 + gamma d 2^-1074).
//
// Let an engine find |f| > 2 E. Then the exact value is further from zero than E, and any other engine finds the same
// sign. So a point with |f| <= margin, where margin >= 2 E, counts as an error in validation: its loss is at least the
// loss on any engine, and a certificate holds wherever the classifier predicts.

#pragma once

#include <cmath>
#include <vector>

#include "svm.h"

namespace pacbayes {

inline double decision_margin(double gamma, std::ptrdiff_t d, std::ptrdiff_t n_support, double intercept,
                              double coefficient_sum) {
  // 32 for 16, and 2^-1000 for 2^-1019: this expression is rounded as well.
  const double units = static_cast<double>(n_support + d + 32) * (std::fabs(intercept) + coefficient_sum);
  return 0x1p-52 * units + coefficient_sum * (0x1p-1000 + gamma * (static_cast<double>(d) * 0x1p-1072));
}

// The margins of all pairs of classes.
inline std::vector<double> decision_margins(const Machine& machine, std::ptrdiff_t d) {
  std::vector<double> margins;
  const double* of_b = machine.coefficients;
  std::ptrdiff_t start_a = 0;
  for (int a = 0; a < machine.n_classes; ++a, start_a += machine.counts[a - 1], of_b += machine.n_support) {
    std::ptrdiff_t start_b = start_a + machine.counts[a];
    for (int b = a + 1; b < machine.n_classes; ++b, start_b += machine.counts[b - 1]) {
      const double* of_a = machine.coefficients + (b - 1) * machine.n_support;
      double sum = 0.0;
      for (std::ptrdiff_t p = start_a; p < start_a + machine.counts[a]; ++p) sum += std::fabs(of_a[p]);
      for (std::ptrdiff_t p = start_b; p < start_b + machine.counts[b]; ++p) sum += std::fabs(of_b[p]);
      margins.push_back(decision_margin(machine.gamma, d, machine.counts[a] + machine.counts[b],
                                        machine.intercepts[margins.size()], sum));
    }
  }
  return margins;
}

}  // namespace pacbayes
