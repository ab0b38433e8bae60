// LIBSVM's C-SVC dual by sequential minimal optimisation, with second-order working sets.
//
// In beta_i = y_i alpha_i the dual reads
//
//     maximise  sum_i y_i beta_i - 1/2 sum_ij beta_i beta_j K_ij    subject to  sum_i beta_i = 0,
//     beta_i in [0, C_i] where y_i = +1, in [-C_i, 0] where y_i = -1,
//
// where C_i is C for all points, or C times the weight of a point,
// and its gradient g_i = y_i - sum_j K_ij beta_j is LIBSVM's -y_i G_i. A step takes a pair (i, j) and moves beta_i up
// and beta_j down by the same amount. The solution is optimal when no beta that can grow has a larger gradient than one
// that can shrink; it is good enough when the gap is below the tolerance, as in LIBSVM:
//
//     i = argmax of g over those that can grow,
//     j = argmax of (g_i - g_j)^2 / (K_ii + K_jj - 2 K_ij) over those that can shrink and have g_j < g_i
//
// (R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information for training support vector
// machines, JMLR 6, 2005). Like LIBSVM's, the kernel matrix is in single precision, with a diagonal of ones, and all
// else in double, but for the gains that j is chosen by. Of several candidates the first is taken, so that the choice
// does not depend on how many are compared at a time. There is no shrinking of the active set: subsamples are small and
// their kernel matrix is in memory.

#pragma once

#include "shared.h"

namespace {

// Replaces a curvature that is not positive, as in LIBSVM.
constexpr double kMinCurvature = 1e-12;

// A coefficient this close to its bound, in units of the largest one so far, is set to the bound: coefficients are
// rounded to that precision, which C may be far above.
constexpr double kAtBound = 1e-12;

// The bounds of coefficients: the first n_positive points have the label +1, the others -1.
struct Box {
  int n_positive;
  double C;

  PACBAYES_SHARED double label(int i) const { return i < n_positive ? 1.0 : -1.0; }
  PACBAYES_SHARED double upper(int i) const { return i < n_positive ? C : 0.0; }
  PACBAYES_SHARED double lower(int i) const { return i < n_positive ? 0.0 : -C; }
};

// The same, where each point has a C of its own.
struct WeightedBox {
  int n_positive;
  const double* C;

  PACBAYES_SHARED double label(int i) const { return i < n_positive ? 1.0 : -1.0; }
  PACBAYES_SHARED double upper(int i) const { return i < n_positive ? C[i] : 0.0; }
  PACBAYES_SHARED double lower(int i) const { return i < n_positive ? 0.0 : -C[i]; }
};

// The index of the largest of some values, and the value.
struct Best {
  int index;
  double value;
};

// The second index of a working set, or -1 if there is none.
struct Second {
  int index;
  double min_gradient;  // over all coefficients that can shrink
};

// A step, and the coefficients after it.
struct Step {
  int i, j;
  double size, beta_i, beta_j;
};

// The gains of pairs (i, j) with these differences g_i - g_j and kernel values, or zero where g_j is not smaller.
PACBAYES_SHARED Singles gains(Singles difference, Singles kernel) {
  const Singles zero = broadcast_single(0.0f), two = broadcast_single(2.0f);  // K_ii + K_jj
  difference = maximum(difference, zero);
  const Singles curvature = maximum(multiply_add(zero - two, kernel, two), broadcast_single(kMinCurvature));
  return difference * difference / curvature;
}

// The gradient after a step, given the rows i and j of the kernel matrix.
PACBAYES_SHARED Pack stepped(Pack gradient, double step, Pack kernel_i, Pack kernel_j) {
  return multiply_add(broadcast(-step), kernel_i - kernel_j, gradient);
}

PACBAYES_SHARED double larger(double x, double y) { return x > y ? x : y; }

// The best step within the bounds. A coefficient that reaches its bound is set to exactly that: if rounding left it
// free, it would determine the intercept. `largest` is the largest absolute coefficient so far.
template <class Passes>
PACBAYES_SHARED Step find_step(const Passes& passes, Best first, int j, double& largest) {
  const auto box = passes.box;
  const int i = first.index;
  const double beta_i = passes.coefficient(i), beta_j = passes.coefficient(j);
  const double room_i = box.upper(i) - beta_i, room_j = beta_j - box.lower(j);
  const double curvature = 2.0 - 2.0 * passes.kernel_value(i, j);
  double step = (first.value - passes.gradient_of(j)) / (curvature > 0 ? curvature : kMinCurvature);
  if (step > room_i) step = room_i;
  if (step > room_j) step = room_j;
  const double moved_i = beta_i + step, moved_j = beta_j - step;
  largest = larger(largest, larger(fabs(moved_i), fabs(moved_j)));
  return {i, j, step, room_i - step <= kAtBound * largest ? box.upper(i) : moved_i,
          room_j - step <= kAtBound * largest ? box.lower(j) : moved_j};
}

// Solve the problem and return whether the tolerance was reached. An engine's `passes` hold the coefficients and their
// gradient, and go over all points:
//
//     start()                set the coefficients to zero, and find the first index
//     select_second(first)   find its partner, by the largest of the gains
//     take(step)             change coefficients and gradient, and find the next first index
template <class Passes>
PACBAYES_SHARED bool iterate(Passes& passes, double tolerance, long long max_iterations) {
  double largest = 0.0;
  Best first = passes.start();  // by its gradient
  for (long long iteration = 0; iteration < max_iterations; ++iteration) {
    const Second second = passes.select_second(first);
    if (first.value - second.min_gradient < tolerance) return true;
    if (second.index < 0) return false;  // Only if a kernel value is NaN.
    first = passes.take(find_step(passes, first, second.index, largest));
  }
  return false;
}

// The intercept: the mean gradient over free coefficients or, if there are none, the middle of the interval that the
// bounded ones leave.
template <class Bounds>
PACBAYES_SHARED double compute_intercept(const Bounds& box, int size, const double* coefficients,
                                         const double* gradient) {
  double sum = 0.0, below = -kInfinity, above = kInfinity;
  int free = 0;
  for (int i = 0; i < size; ++i) {
    const bool grows = coefficients[i] < box.upper(i), shrinks = coefficients[i] > box.lower(i);
    if (grows && shrinks) {
      sum += gradient[i];
      ++free;
    } else if (grows) {
      below = gradient[i] > below ? gradient[i] : below;
    } else {
      above = gradient[i] < above ? gradient[i] : above;
    }
  }
  return free > 0 ? sum / free : (below + above) / 2;
}

}  // namespace
