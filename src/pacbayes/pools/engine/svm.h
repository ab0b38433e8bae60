// Many small RBF-kernel SVMs: trained one after another, asked together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace pacbayes {

// What a support vector machine of one or more classes is, in LIBSVM's layout: support vectors grouped by class; for the
// pair of classes a < b, coefficients[b - 1] of class a's and coefficients[a] of class b's support vectors; one intercept
// per pair, in the order (0, 1), (0, 2), ..., (1, 2), ... A positive decision value votes for class a. One class: a constant.
struct Machine {
  int n_classes;
  const std::int32_t* classes;      // codes, rising
  const std::int32_t* counts;       // support vectors of each class
  const std::int32_t* support;      // rows of the points
  std::ptrdiff_t n_support;
  const double* coefficients;       // (n_classes - 1) x n_support
  const double* intercepts;         // n_classes (n_classes - 1) / 2
  double gamma;
  const double* scale;              // of the features, or null
};

// Trained machines, each array with the parts of all of them one after another.
struct Trained {
  std::vector<std::int32_t> n_classes, classes, counts, support;
  std::vector<double> coefficients, intercepts, gamma;
  std::vector<std::uint8_t> converged;
};

struct Settings {
  double seed;        // gamma_J, or NaN for Jaakkola's heuristic on the subsample
  double multiplier;  // gamma is the seed times this
  double C;
  double tolerance;
  std::int64_t max_iterations;
};

// Squared distances between the points of a subsample, in tiles: those of point p to the points of tile t begin at
// (t * size + p) * kTile.
struct SquaredDistances {
  std::vector<double> tiles, nearest;
  std::ptrdiff_t size;
  double operator()(std::ptrdiff_t p, std::ptrdiff_t q) const;
};

// Points to be asked about or trained on, row by row.
template <class Number>
struct Rows {
  const Number* data;
  std::ptrdiff_t count, d;
};

// Rows `subsample` of X, multiplied by `scale` if there is one, in the given order.
template <class Number>
SquaredDistances distances_between(Rows<Number> X, const std::int32_t* subsample, std::ptrdiff_t size,
                                   const double* scale);

// The same from a matrix of them, for points in another order.
SquaredDistances tiled(const double* squared, const std::vector<std::int32_t>& order);

// A subsample's points, grouped by class.
struct Grouped {
  std::vector<std::int32_t> classes, counts, rows;
};
Grouped group_by_class(const std::int32_t* subsample, std::ptrdiff_t size, const std::int32_t* codes);

// Train one machine and append it. Distances are between the grouped points, in their order.
void train(const Grouped& points, const SquaredDistances& squared, const Settings& settings, Trained& trained);

// Takes the codes that machine h votes for at `count` rows from `row` on.
using Ballot = std::function<void(std::size_t h, std::ptrdiff_t row, std::ptrdiff_t count, const std::uint16_t* votes)>;

// Ask all machines about all rows of X, a tile at a time, with distances that take at most `memory` bytes.
template <class Number>
void vote(const std::vector<Machine>& machines, Rows<double> points, Rows<Number> X, std::size_t memory,
          const Ballot& ballot);

// The same, given the squared distances of all points to all rows: squared[point * rows + row].
void vote_by_distances(const std::vector<Machine>& machines, const double* squared, std::ptrdiff_t points,
                       std::ptrdiff_t rows, const Ballot& ballot);

// Squared distance of every row to the nearest one of another class.
template <class Number>
void nearest_of_another_class(Rows<Number> X, const std::int32_t* codes, double* squared_distances);

// Decision values of one machine: values[pair * X.count + row].
template <class Number>
void decide(const Machine& machine, Rows<double> points, Rows<Number> X, double* values);

}  // namespace pacbayes
