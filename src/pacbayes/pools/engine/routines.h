// The inner loops of the engine, compiled once per instruction set and chosen when the library is loaded.

#pragma once

#include <cstddef>
#include <cstdint>

namespace pacbayes {

// Rows of data that are handled together: a tile holds one column of features for each of them, so that a tile of d
// features is d runs of kTile numbers.
constexpr int kTile = 64;

// Sizes of SMO's arrays are rounded up to this many.
constexpr int kPadding = 8;

// A binary soft-margin problem; see smo.cpp.
struct Problem {
  const float* kernel;   // size x stride, LIBSVM's precision
  std::ptrdiff_t stride; // a multiple of kPadding, at least size; the padding is zero
  int size;
  const double* labels;  // +1 or -1
  double C;
  double tolerance;
  std::int64_t max_iterations;
};

// Its solution, in arrays of `stride` numbers that the caller provides.
struct Solution {
  double* coefficients;  // y_i alpha_i
  double* gradient;
  double* growable;  // room for SMO's bookkeeping
  double* shrinkable;
  double intercept;
  std::int64_t iterations;
  bool converged;
};

struct Routines {
  const char* name;

  // Squared distances of `count` points, the given rows of `points`, to the rows of a tile, and the least of each point's.
  void (*squared_distances)(const double* points, const std::int32_t* rows, std::ptrdiff_t count, std::ptrdiff_t d,
                            const double* tile, double* squared, double* nearest);

  // exp(-gamma * squared) of `count` runs of a tile.
  void (*exponentials)(const double* squared, const double* nearest, std::ptrdiff_t count, double gamma, double* kernel);

  // values += sum over p of weights[p] * kernel[rows[p]].
  void (*weigh)(const double* kernel, const std::int32_t* rows, const double* weights, std::ptrdiff_t count,
                double* values);

  // The two in one, for kernels that are used once.
  void (*weigh_exponentials)(const double* squared, const double* nearest, const std::int32_t* rows,
                             const double* weights, std::ptrdiff_t count, double gamma, double* values);

  void (*minimize)(const Problem& problem, Solution& solution);
};

// The fastest routines that this machine can run.
const Routines& routines();

}  // namespace pacbayes
