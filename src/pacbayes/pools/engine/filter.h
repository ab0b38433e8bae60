// A fast filter in front of the exact engine: decision values of two classes in single precision, with bounds on their
// errors. Where the bound proves that the exact engine would find a value beyond its margin (arithmetic/votes.h), the vote is
// known and certain; all other rows are left to the exact engine. So the filter changes the time, never a vote.
//
// With x and s relative to a common centre, factors w and g = gamma log2(e), a kernel value is 2^-t with
//
//     t = g |w (x - s)|^2 = g |w x|^2 + g |w s|^2 - x . (2 g w^2 s).
//
// Let u = 2^-24, X = |w x|, S = max |w s| over the support vectors. The d products of a sum are added up in runs of
// kFeatureRun, and so are the runs: no product is rounded more than r = kFeatureRun + d / kFeatureRun + 2 times. Errors
// of t are at most
//
//     (r + 2) u 2 g X S          features and vectors rounded to single precision, products and sums
//     (r + 4) u g X^2            norm of x: features, weights, their products and sums
//     u g S^2                    norm of s, which is computed in double precision
//     u g (X^2 + S^2 + (X + S)^2)  sum of both norms, and t
//     g (2 (X + S) v + v^2)      features that the exact engine rounds when it scales and subtracts them;
//                                v = 8 * 2^-53 |w L| with the largest absolute features L
//
// where 2 X S <= X^2 + S^2, and 2 (X + S) v <= (X + S)^2 u + v^2 / u: in sum, with some room for terms of higher order,
//
//     e = u ((r + 12) g (X^2 + S^2) + (r + 8) g X^2) + 2 g v^2 / u + 1e-10,
//
// the last for what underflows, as features are at most 1e15. Categories that differ are counted, and each adds 2 g to
// t: with q categories, that is covered by 2 q in addition to S^2. If distances are shared, exact ones are rounded to
// single precision instead, and t has a relative error of 4 u: as t 2^-t < 0.54, that changes a kernel value by at most
// 3 u.
//
// For e <= 1/2 a kernel value is off by a factor of at most 2^e <= 1 + e, and by 2^-21 = 8 u for the power; below 2^-126
// it may be anything up to that. Weighted kernel values are added up in runs of kSupportRun, and the runs with what
// rounding takes away: that, the rounded coefficients and the intercept are off by (kSupportRun + 8) u times the sum of
// absolute values. The exact engine's own error is at most half its margin. So the vote is known where |f| exceeds
//
//     (e + (kSupportRun + 24) u) (|b| + sum |c| k) + (3 u + 2^-120) sum |c| + 2 margin.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "svm.h"

#include "../arithmetic/votes.h"

namespace pacbayes {

// Numbers that the filter can take: products of them stay within single precision.
constexpr double kFilterLargest = 1e15;

// What rows and support vectors are measured from: the mean of some points.
inline std::vector<double> filter_centre(DenseRows<double> points) {
  constexpr std::ptrdiff_t kMost = 256;
  std::vector<double> centre(points.d, 0.0);
  const std::ptrdiff_t count = std::min(points.count, kMost);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const double* point = points.values + i * (points.count / count) * points.d;
    for (std::ptrdiff_t k = 0; k < points.d - points.n_categories; ++k)
      if (!std::isnan(point[k])) centre[k] += point[k] / static_cast<double>(count);
  }
  return centre;
}

// Up to kTile rows, relative to the centre, NaN replaced as a machine does.
class FilterTile {
 public:
  void load(const DenseTile& tile, const std::vector<double>& centre, Scale scale = {}) {
    const std::size_t d = centre.size();
    centred_.resize(d * kTile);
    largest_.resize(d);
    routines().filter_tile(tile.features().data(), centre.data(), static_cast<std::ptrdiff_t>(d), tile.n_categories(),
                           scale.fill, scale.n_fill, centred_.data(), squares_, largest_.data());
  }

  const float* centred() const { return centred_.data(); }
  const float* squares() const { return squares_; }
  const std::vector<double>& largest() const { return largest_; }

 private:
  std::vector<float> centred_;
  std::vector<double> largest_;
  float squares_[kTile];
};

// Decision values and their bounds at the rows of a tile.
struct FilterValues {
  float values[kTile], errors[kTile];
};

// A machine of two classes in single precision.
class Filter {
 public:
  // Prepare a machine for distances that are shared. Return whether the filter can take it.
  bool select(const Machine& machine, std::ptrdiff_t d) {
    constexpr std::ptrdiff_t kMostSupport = 20'000;
    const double rate = machine.gamma * 1.4426950408889634;
    if (machine.n_classes != 2 || machine.n_support > kMostSupport || !(rate > 1e-30 && rate < 1e30)) return false;
    double sum = 0.0;
    coefficients_.assign((machine.n_support + kBlock - 1) / kBlock * kBlock, 0.0f);
    for (std::ptrdiff_t p = 0; p < machine.n_support; ++p) {
      sum += std::fabs(machine.coefficients[p]);
      coefficients_[p] = static_cast<float>(machine.coefficients[p]);
    }
    const double intercept = machine.intercepts[0], unit = 0x1p-24;
    if (!(sum + std::fabs(intercept) < 1e30)) return false;
    const double margin = decision_margin(machine.gamma, d, machine.n_support, intercept, sum);
    machine_ = {};
    machine_.d = d;
    machine_.n_support = static_cast<std::ptrdiff_t>(coefficients_.size());
    machine_.coefficients = coefficients_.data();
    machine_.rate = static_cast<float>(rate);
    machine_.intercept = static_cast<float>(intercept);
    machine_.sum_error = static_cast<float>(static_cast<double>(kSupportRun + 24) * unit);
    machine_.constant = static_cast<float>((2 * margin + 4 * unit * sum + 1e-35) * (1 + 0x1p-20));
    return true;
  }

  // Prepare it for rows relative to a centre, too, of which `largest` bounds the absolute features.
  bool select(const Machine& machine, DenseRows<double> points, const std::vector<double>& centre,
              const std::vector<double>& largest) {
    const std::ptrdiff_t d = points.d;
    if (!select(machine, d)) return false;
    const double rate = machine.gamma * 1.4426950408889634;
    vectors_.assign(machine_.n_support * d, 0.0f);
    offsets_.assign(machine_.n_support, 0.0f);
    exact_offsets_.resize(machine.n_support);
    largest_.resize(d);
    scratch_.resize(d);
    routines().filter_support(points.values, machine.support, machine.n_support, d, points.n_categories,
                              machine.scale.factors, machine.scale.fill, machine.scale.n_fill, centre.data(), rate,
                              vectors_.data(), exact_offsets_.data(), largest_.data(), scratch_.data());
    double most = 0.0, rounding = 0.0;
    for (std::ptrdiff_t p = 0; p < machine.n_support; ++p) {
      most = std::max(most, exact_offsets_[p]);
      offsets_[p] = static_cast<float>(exact_offsets_[p]);
      if (!(exact_offsets_[p] < 1e30)) return false;
    }
    if (machine.scale) weights_.resize(d);
    for (std::ptrdiff_t k = 0; k < d; ++k) {
      const double factor = machine.scale ? machine.scale.factors[k] : 1.0;
      const double filled = k < machine.scale.n_fill ? std::fabs(machine.scale.fill[k]) : 0.0;
      const double size = std::max({largest[k], largest_[k], filled});
      if (k >= d - points.n_categories) {  // compared as they are
        if (!(size <= 0x1p24 && factor == 1.0)) return false;
        continue;
      }
      if (!(size < kFilterLargest && factor < kFilterLargest && rate * factor * factor * size < 1e15)) return false;
      if (machine.scale) weights_[k] = static_cast<float>(rate * factor * factor);
      rounding += (factor * size) * (factor * size);
    }
    constexpr double unit = 0x1p-24;
    machine_.vectors = vectors_.data();
    machine_.offsets = offsets_.data();
    machine_.weights = machine.scale ? weights_.data() : nullptr;
    const auto q = static_cast<double>(points.n_categories);
    const auto roundings = static_cast<double>(kFeatureRun + (d + kFeatureRun - 1) / kFeatureRun + 2);
    machine_.n_categories = points.n_categories;
    machine_.largest_offset = static_cast<float>((most + 2 * q * rate) * (1 + 0x1p-20));
    machine_.exponent_error = static_cast<float>((roundings + 12) * unit);
    machine_.offset_error = static_cast<float>((roundings + 8) * unit);
    machine_.exponent_constant = static_cast<float>(2 * rate * (0x1p-100 * rounding) / unit + 1e-10);
    return true;
  }

  void decide(const FilterTile& tile, FilterValues& to) const {
    routines().filter_values(machine_, tile.centred(), tile.squares(), to.values, to.errors);
  }

  // From shared distances, rounded to single precision.
  void decide(const Machine& machine, const float* squared, const double* nearest, FilterValues& to) const {
    routines().filter_exponentials(squared, nearest, machine.support, coefficients_.data(), machine.n_support, machine_,
                                   to.values, to.errors);
  }

 private:
  FilterMachine machine_{};
  std::vector<float> coefficients_, vectors_, offsets_, weights_;
  std::vector<double> exact_offsets_, largest_, scratch_;
};

}  // namespace pacbayes
