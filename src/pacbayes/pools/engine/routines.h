// The inner loops of the engine, compiled once per instruction set and selected when the library is loaded.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace pacbayes {

// Features and support vectors whose products the filter adds up in one run: sums of runs are rounded less often.
constexpr std::ptrdiff_t kFeatureRun = 16, kSupportRun = 16;

// Rows are processed in tiles of this many. A dense tile of d features is a d x kTile array, one run of kTile numbers
// per feature.
constexpr int kTile = 64;

// Sparse points are stored in blocks of this many, and dense ones are processed that many at a time.
constexpr int kBlock = 4;

// Sparse rows are compared with points in groups of this many. Fewer rows in a group have fewer columns that are zero
// in most of them; more rows share the cost of merging the columns.
constexpr int kGroup = 16;
static_assert(kTile % kGroup == 0);

// Array sizes in SMO are rounded up to a multiple of this.
constexpr int kPadding = 16;

// Marks the end of a list of columns. No column has this number.
constexpr std::int32_t kNoColumn = std::numeric_limits<std::int32_t>::max();

// A binary soft-margin problem; see arithmetic/smo.h.
struct Problem {
  const float* kernel;    // size x stride, in LIBSVM's precision
  std::ptrdiff_t stride;  // a multiple of kPadding, at least size; the padding is zero
  int size, n_positive;   // points, of which the first ones have the label +1, the others -1
  double C;
  double tolerance;
  std::int64_t max_iterations;
  const double* weighted_C = nullptr;  // of each point, `stride` numbers; C for all of them if there are none
};

// Its solution, in arrays of `stride` numbers that the caller provides.
struct Solution {
  double* coefficients;  // y_i alpha_i
  double* gradient;
  double* growable;  // scratch space: 0 if the coefficient can grow, else -infinity
  double* shrinkable;  // scratch space: 0 if the coefficient can shrink, else +infinity
  double intercept;
  bool converged;
};

// Up to kBlock sparse points: the sorted union of their columns, ended by kNoColumn, and kBlock values per column.
template <class Number>
struct SparseBlock {
  const std::int32_t* columns;
  const Number* values;
  int count;  // points; the others are zero
};

// Consecutive columns of a group of sparse rows: some of the sorted union of the rows' columns, ended by kNoColumn, and
// kGroup values per column. The values after the last column are zero.
template <class Number>
struct SparseSlice {
  const std::int32_t* columns;
  const Number* values;
  std::ptrdiff_t size;
  std::int32_t end;  // first column of the next slice, kNoColumn for the last
};

// A machine of two classes, as the filter reads it; see filter.h.
struct FilterMachine {
  std::ptrdiff_t d;
  std::ptrdiff_t n_categories;  // of the d features, the last
  std::ptrdiff_t n_support;   // padded to a multiple of kBlock by vectors that have no weight
  const float* vectors;       // n_support x d: 2 g w^2 s, and categories as they are
  const float* offsets;       // n_support: g |w s|^2
  const float* coefficients;  // n_support
  const float* weights;       // of numbers: g w^2, or null if w is 1
  float rate;                 // g
  float intercept;
  float largest_offset;       // g S^2
  float exponent_error;       // relative to g (X^2 + S^2)
  float offset_error;         // relative to g X^2
  float exponent_constant;    // the rest of the error of an exponent
  float sum_error;            // relative to the sum of absolute values
  float constant;             // the rest of the error of a decision value
};

// Squared distances in double precision or, for training, in single precision where that is enough.
template <class Number>
struct DistanceRoutines {
  // Squared distances of `count` points, stored row by row, to the first `rows` rows of a dense tile, the others of which
  // are copies of the last: squared[point * kTile + row]; and the smallest one of each point. The last n_categories of the d features are categories: two that differ add 2,
  // as their one-hot columns would.
  void (*dense)(const Number* points, std::ptrdiff_t count, std::ptrdiff_t d, std::ptrdiff_t n_categories,
                const Number* tile, std::ptrdiff_t rows, Number* squared, Number* nearest);

  // Add what a slice contributes to the squared distances between the points of a block and the rows of a group, at
  // squared[point * kTile + row]. `position` is the next column of the block, 0 at the first slice.
  void (*accumulate_sparse)(SparseBlock<Number> block, SparseSlice<Number> slice, std::int64_t& position,
                            Number* squared);

  // Turn sums over all slices, for the first `rows` rows of a tile, into what `dense` returns: limit them, fill the
  // tile with copies of the last row, and find the smallest one of each point.
  void (*finish_sparse)(std::ptrdiff_t count, std::ptrdiff_t rows, Number* squared, Number* nearest);

  // exp(-gamma * squared) in single precision for the first `width` rows of the tile: kernel[point * stride + row].
  void (*kernel)(const Number* squared, const Number* nearest, std::ptrdiff_t count, double gamma, std::ptrdiff_t width,
                 std::ptrdiff_t stride, float* kernel);

  // Update the smallest squared distances to points of another class: of a point, which is returned, and of the rows of
  // a tile, given the classes of both.
  Number (*nearest_others)(const Number* squared, std::int32_t point_class, const std::int32_t* classes,
                           std::ptrdiff_t width, Number nearest, Number* nearest_of_rows);
};

struct Routines {
  const char* name;

  DistanceRoutines<double> double_distances;
  DistanceRoutines<float> single_distances;

  template <class Number>
  const DistanceRoutines<Number>& distances() const {
    if constexpr (std::is_same_v<Number, double>)
      return double_distances;
    else
      return single_distances;
  }

  // Multiply the d features of a dense tile by factors, after NaN in the first n_fill of them is replaced.
  void (*scale_tile)(const double* tile, const double* factors, std::ptrdiff_t d, const double* fill,
                     std::ptrdiff_t n_fill, double* scaled);

  // exp(-gamma * squared) for `count` points.
  void (*exponentials)(const double* squared, const double* nearest, std::ptrdiff_t count, double gamma,
                       double* kernel);

  // to[i * stride + p] = from[p * stride + i] for p < kTile and i < width.
  void (*transpose_tile)(const float* from, std::ptrdiff_t width, std::ptrdiff_t stride, float* to);

  // values += sum over p of weights[p] * kernel[rows[p]].
  void (*accumulate)(const double* kernel, const std::int32_t* rows, const double* weights, std::ptrdiff_t count,
                     double* values);

  // Both in one pass, for kernel values that are used only once.
  void (*accumulate_exponentials)(const double* squared, const double* nearest, const std::int32_t* rows,
                                  const double* weights, std::ptrdiff_t count, double gamma, double* values);

  // The same at some columns of the tile: values[i] is that of columns[i].
  void (*accumulate_exponentials_at)(const double* squared, const std::int32_t* rows, const double* weights,
                                     std::ptrdiff_t count, double gamma, const std::int32_t* columns, int n_columns,
                                     double* values);

  // For the filter: a machine's `count` support vectors, whose rows in `points` are given, relative to a centre. Writes
  // vectors and offsets, and the largest absolute value of each feature; `scratch` holds d numbers. `factors` may be
  // null; NaN in the first n_fill features is replaced.
  void (*filter_support)(const double* points, const std::int32_t* rows, std::ptrdiff_t count, std::ptrdiff_t d,
                         std::ptrdiff_t n_categories, const double* factors, const double* fill, std::ptrdiff_t n_fill,
                         const double* centre, double rate, float* vectors, double* offsets, double* largest,
                         double* scratch);

  // A dense tile relative to a centre, the squared norms of its rows, and the largest absolute value of each feature,
  // where NaN in the first n_fill features counts as what replaces it, and any other as nothing.
  void (*filter_tile)(const double* tile, const double* centre, std::ptrdiff_t d, std::ptrdiff_t n_categories,
                      const double* fill, std::ptrdiff_t n_fill, float* centred, float* squares, double* largest);

  // Decision values at the rows of a centred tile, and bounds on their errors.
  void (*filter_values)(const FilterMachine& machine, const float* centred, const float* squares, float* values,
                        float* errors);

  // The same from squared distances that were rounded to single precision, to the support vectors in `rows`.
  void (*filter_exponentials)(const float* squared, const double* nearest, const std::int32_t* rows,
                              const float* weights, std::ptrdiff_t count, const FilterMachine& machine, float* values,
                              float* errors);

  void (*round_to_single)(const double* numbers, std::ptrdiff_t count, float* rounded);

  // Votes for one of two classes at the rows of a tile, and which are known: those whose values exceed their errors.
  // Return whether all are.
  bool (*filter_votes)(const float* values, const float* errors, std::uint16_t positive, std::uint16_t negative,
                       std::uint16_t* codes, std::uint8_t* certain);

  void (*minimize)(const Problem& problem, Solution& solution);

  // Replace the lower triangle of a symmetric matrix by its Cholesky factor, and return whether all pivots are positive.
  // The entry of row i and column k is matrix[(i / kTile * size + k) * kTile + i % kTile]; rows after the last are finite.
  bool (*factorize)(double* matrix, std::ptrdiff_t size);

  // Solve a linear system by the factor of its matrix: values hold the right side, and then the solution. There is room
  // for a multiple of kTile.
  void (*solve_factorized)(const double* factor, std::ptrdiff_t size, double* values);
};

// The fastest routines that this machine can run.
const Routines& routines();

}  // namespace pacbayes
