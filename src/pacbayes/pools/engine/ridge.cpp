#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "distances.h"
#include "svm.h"

#include "../arithmetic/widths.h"

namespace pacbayes {

namespace {

// Targets of a subsample as mean + unit * deviation * standardised, where the unit is a power of two: sums of squares of
// targets near the limits of double precision neither overflow nor underflow.
struct Targets {
  std::vector<double> standardised;  // with zeros up to a multiple of kTile
  double mean, deviation;            // in units of 2^exponent
  int exponent;
  bool constant, finite;

  Targets(const double* targets, const std::int32_t* rows, std::ptrdiff_t size)
      : standardised(round_up(size, kTile), 0.0), mean(0.0), deviation(0.0), exponent(0), constant(true), finite(true) {
    double largest = 0.0;
    for (std::ptrdiff_t i = 0; i < size; ++i) {
      standardised[i] = targets[rows[i]];
      largest = std::max(largest, std::fabs(standardised[i]));
      constant = constant && standardised[i] == standardised[0];
      finite = finite && std::isfinite(standardised[i]);
    }
    if (constant || !finite) return;
    std::frexp(largest, &exponent);
    const auto n = static_cast<double>(size);
    for (std::ptrdiff_t i = 0; i < size; ++i) {
      standardised[i] = std::ldexp(standardised[i], -exponent);
      mean += standardised[i];
    }
    mean /= n;
    for (std::ptrdiff_t i = 0; i < size; ++i) {
      standardised[i] -= mean;
      deviation += standardised[i] * standardised[i];
    }
    deviation = std::sqrt(deviation / n);
    for (std::ptrdiff_t i = 0; i < size; ++i) standardised[i] /= deviation;
  }
};

// The kernel width of a subsample, 1 / (2 D), where D is the median squared distance of two of its points up to a factor
// of sqrt(2): the middle of the powers of two between which it lies. Regressions with the same width share kernel values.
// If most points coincide, the others count only.
double width_of_pairs(const SquaredDistances<double>& squared) {
  constexpr int kExponents = 2048, kBias = 1023;
  std::vector<std::int64_t> counts(kExponents, 0);  // by the exponents of squared distances
  for (std::ptrdiff_t q = 1; q < squared.size; ++q)
    for (std::ptrdiff_t p = 0; p < q; ++p) {
      std::uint64_t bits;
      std::memcpy(&bits, squared.row(q / kTile, p) + q % kTile, sizeof bits);
      ++counts[bits >> 52];
    }
  std::int64_t pairs = static_cast<std::int64_t>(squared.size) * (squared.size - 1) / 2;
  if (2 * counts[0] >= pairs) pairs -= counts[0];  // zero, or nearly so
  else counts[1] += counts[0];
  std::int64_t below = 0;
  for (int e = 1; e < kExponents; ++e) {
    below += counts[e];
    if (2 * below > pairs) return std::clamp(std::ldexp(1 / std::sqrt(8.0), kBias - e), kMinSeed, kMaxSeed);
  }
  return 1.0;  // all points coincide
}

// Solve (K + ridge I) coefficients = values, in place of the squared distances, and return whether K + ridge I is
// positive definite in double precision.
bool solve_ridge(TrainingSpace::Distances<double>& space, const SquaredDistances<double>& squared, double gamma,
                 double ridge, std::vector<double>& values) {
  const std::ptrdiff_t size = squared.size;
  double* const kernel = space.squared.data();
  for (std::ptrdiff_t t = 0; t < squared.n_tiles(); ++t) {
    double* const tile = kernel + t * size * kTile;
    routines().exponentials(tile, space.nearest.data() + t * size, squared.used(t), gamma, tile);
    for (std::ptrdiff_t i = 0; i < squared.width(t); ++i) tile[(t * kTile + i) * kTile + i] += ridge;
  }
  if (!routines().factorize(kernel, size)) return false;
  routines().solve_factorized(kernel, size, values.data());
  return true;
}

}  // namespace

template <class Rows>
void train_ridge(Rows X, const double* targets, const std::int32_t* subsample, std::ptrdiff_t size,
                 const RidgeSettings& settings, TrainingSpace& space, Trained& trained) {
  const Scale scale = append_subsample_factors(X, subsample, size, settings.scaler, settings.n_numbers, trained.scale);
  Targets of_subsample(targets, subsample, size);
  typename Layout<Rows>::Matrix points;
  points.gather(X, subsample, size, scale);
  bool converged = of_subsample.finite && all_finite(points.values());
  if (of_subsample.constant || !converged) {
    trained.counts.push_back(0);
    trained.intercepts.push_back(of_subsample.constant ? targets[subsample[0]] : 0.0);
    trained.gamma.push_back(0.0);
    trained.converged.push_back(converged);
    return;
  }
  const SquaredDistances<double> squared = pairwise_distances<double>(points.rows(), space);
  const double gamma = width_of_pairs(squared) * settings.multiplier;
  std::vector<double>& coefficients = of_subsample.standardised;
  converged = solve_ridge(space.doubles, squared, gamma, settings.ridge, coefficients);
  const double intercept = std::ldexp(of_subsample.mean, of_subsample.exponent);
  double largest = std::fabs(intercept);  // that a prediction can be
  for (std::ptrdiff_t i = 0; i < size; ++i) {
    coefficients[i] = std::ldexp(coefficients[i] * of_subsample.deviation, of_subsample.exponent);
    largest += std::fabs(coefficients[i]);
  }
  converged = converged && largest <= std::numeric_limits<double>::max() / 2;
  trained.counts.push_back(converged ? static_cast<std::int32_t>(size) : 0);
  if (converged) {
    trained.support.insert(trained.support.end(), subsample, subsample + size);
    trained.coefficients.insert(trained.coefficients.end(), coefficients.begin(), coefficients.begin() + size);
  }
  trained.intercepts.push_back(converged ? intercept : 0.0);
  trained.gamma.push_back(gamma);
  trained.converged.push_back(converged);
}

template void train_ridge(DenseRows<float>, const double*, const std::int32_t*, std::ptrdiff_t, const RidgeSettings&,
                          TrainingSpace&, Trained&);
template void train_ridge(DenseRows<double>, const double*, const std::int32_t*, std::ptrdiff_t, const RidgeSettings&,
                          TrainingSpace&, Trained&);
template void train_ridge(SparseRows, const double*, const std::int32_t*, std::ptrdiff_t, const RidgeSettings&,
                          TrainingSpace&, Trained&);

}  // namespace pacbayes
