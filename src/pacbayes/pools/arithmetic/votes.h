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

#include "shared.h"

namespace {

PACBAYES_SHARED double decision_margin(double gamma, long long d, long long n_support, double intercept,
                                       double coefficient_sum) {
  // 32 for 16, and 2^-1000 for 2^-1019: this expression is rounded as well.
  const double units = static_cast<double>(n_support + d + 32) * (fabs(intercept) + coefficient_sum);
  return 0x1p-52 * units + coefficient_sum * (0x1p-1000 + gamma * (static_cast<double>(d) * 0x1p-1072));
}

// The margin of the classes a < b of a machine, which are the given one of its pairs.
template <class Machine>
PACBAYES_SHARED double pair_margin(const Machine& machine, long long d, int a, int b, int pair) {
  const int* const counts = machine.counts;
  int start_a = 0, start_b = 0;
  for (int c = 0; c < b; ++c) {
    if (c < a) start_a += counts[c];
    start_b += counts[c];
  }
  const double* of_a = machine.coefficients + static_cast<long long>(b - 1) * machine.n_support;
  const double* of_b = machine.coefficients + static_cast<long long>(a) * machine.n_support;
  double sum = 0.0;
  for (int p = start_a; p < start_a + counts[a]; ++p) sum += fabs(of_a[p]);
  for (int p = start_b; p < start_b + counts[b]; ++p) sum += fabs(of_b[p]);
  return decision_margin(machine.gamma, d, counts[a] + counts[b], machine.intercepts[pair], sum);
}

// A vote for a class, by its position, and whether rounding leaves it no choice.
struct Vote {
  int winner;
  bool certain;
};

// The vote of a machine of two classes.
PACBAYES_SHARED Vote elect(double value, double margin) { return {value > 0 ? 0 : 1, fabs(value) > margin}; }

// Of a class: pairs won, pairs won beyond their margins, and pairs that may go either way.
struct Tally {
  int wins, sure, open;
};

PACBAYES_SHARED void count_pair(double value, double margin, Tally& a, Tally& b) {
  const bool sure = fabs(value) > margin;
  Tally& winner = value > 0 ? a : b;
  ++winner.wins;
  winner.sure += sure;
  a.open += !sure;
  b.open += !sure;
}

// The class that wins most pairs; of several, the first, as in LIBSVM. A vote is certain if it stays the same whatever
// happens to the pairs whose decision values are within their margins. The tallies of classes are `stride` apart.
PACBAYES_SHARED Vote elect(int n_classes, const Tally* tallies, int stride) {
  int winner = 0;
  for (int c = 1; c < n_classes; ++c)
    if (tallies[c * stride].wins > tallies[winner * stride].wins) winner = c;
  // The winner may lose its open pairs, and another class may win all of its own.
  const int least = tallies[winner * stride].sure;
  bool certain = true;
  for (int c = 0; c < n_classes; ++c) {
    const int most = tallies[c * stride].sure + tallies[c * stride].open;
    if (c != winner && (c < winner ? most >= least : most > least)) certain = false;
  }
  return {winner, certain};
}

}  // namespace
