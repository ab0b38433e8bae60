// Many small RBF-kernel SVMs: trained one after another, evaluated together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "distances.h"
#include "rows.h"

namespace pacbayes {

// An SVM of one or more classes, in LIBSVM's layout: support vectors grouped by class; for the pair of classes a < b,
// coefficients[b - 1] of class a's and coefficients[a] of class b's support vectors; one intercept per pair, in the
// order (0, 1), (0, 2), ..., (1, 2), ... A positive decision value is a vote for class a. With one class, it is a
// constant.
struct Machine {
  int n_classes;
  const std::int32_t* classes;  // codes, ascending
  const std::int32_t* counts;   // support vectors of each class
  const std::int32_t* support;  // row numbers of the support vectors in the points
  std::ptrdiff_t n_support;
  const double* coefficients;  // (n_classes - 1) x n_support
  const double* intercepts;    // n_classes (n_classes - 1) / 2
  double gamma;
  Scale scale;
};

// Trained machines; each array holds the parts of all of them, concatenated.
struct Trained {
  std::vector<std::int32_t> n_classes, classes, counts, support;
  std::vector<double> coefficients, intercepts, gamma;
  std::vector<std::uint8_t> converged;
  Factors scale;
};

struct Settings {
  double seed;        // gamma_J, or NaN to compute Jaakkola's heuristic on the subsample
  double multiplier;  // gamma is the seed times this
  double C;
  Scaler scaler;  // its factors are computed on the subsample
  double tolerance;
  std::int64_t max_iterations;
  // Rows of a table: the number of features that are filled and scaled; -1 for rows that have all of them scaled.
  std::ptrdiff_t n_numbers = -1;
};

// Train one machine on the given rows of X and append it. C is multiplied by the weight of each of these rows, if there
// are weights.
template <class Rows>
void train(Rows X, const std::int32_t* codes, const std::int32_t* subsample, const double* weights,
           std::ptrdiff_t size, const Settings& settings, TrainingSpace& space, Trained& trained);

// How to train a kernel ridge regression.
struct RidgeSettings {
  double multiplier;  // gamma is this divided by twice the median squared distance of two points, roughly
  double ridge;       // added to the diagonal of the kernel matrix
  Scaler scaler;
  std::ptrdiff_t n_numbers = -1;  // as in Settings
};

// Train one kernel ridge regression on the given rows of X and append it: counts holds its number of points, none if all
// of their targets are equal, and intercepts one number.
template <class Rows>
void train_ridge(Rows X, const double* targets, const std::int32_t* subsample, std::ptrdiff_t size,
                 const RidgeSettings& settings, TrainingSpace& space, Trained& trained);

// The codes that a machine votes for at `count` rows from `row` on, and whether rounding leaves each of them no choice:
// see arithmetic/votes.h.
struct Votes {
  std::ptrdiff_t row, count;
  const std::uint16_t* codes;
  const std::uint8_t* certain;
};

// Called with the votes of machine h. Rows of one machine come in ascending order.
using VoteSink = std::function<void(std::size_t h, const Votes& votes)>;

// Compute the votes of all machines at all rows of X. Squared distances take at most `memory` bytes, or those of one
// machine.
template <class Points, class Rows>
void vote(const std::vector<Machine>& machines, Points points, Rows X, std::size_t memory, const VoteSink& sink);

// The margins of all pairs of classes: see arithmetic/votes.h.
std::vector<double> decision_margins(const Machine& machine, std::ptrdiff_t d);

// Called with the decision values of machine h at `count` rows from `row` on: values[pair * kTile + i].
using ValueSink = std::function<void(std::size_t h, std::ptrdiff_t row, std::ptrdiff_t count, const double* values)>;

// Compute the decision values of all machines at all rows of X, with `memory` as for votes.
template <class Points, class Rows>
void decide(const std::vector<Machine>& machines, Points points, Rows X, std::size_t memory, const ValueSink& sink);

// Compute the squared distance of every row to the nearest one of another class, infinity if there is none.
template <class Rows>
void nearest_of_another_class(Rows X, const std::int32_t* codes, double* squared_distances);

}  // namespace pacbayes
