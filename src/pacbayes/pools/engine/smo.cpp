// LIBSVM's C-SVC dual by sequential minimal optimisation, with second-order working sets. Compiled once per instruction
// set.
//
// In beta_i = y_i alpha_i the dual reads
//
//     maximise  sum_i y_i beta_i - 1/2 sum_ij beta_i beta_j K_ij    subject to  sum_i beta_i = 0,
//     beta_i in [0, C] where y_i = +1, in [-C, 0] where y_i = -1,
//
// and its gradient g_i = y_i - sum_j K_ij beta_j is LIBSVM's -y_i G_i. A step takes a pair (i, j) and moves beta_i up
// and beta_j down by the same amount. The solution is optimal when no beta that can grow has a larger gradient than one
// that can shrink; it is good enough when the gap is below the tolerance, as in LIBSVM:
//
//     i = argmax of g over those that can grow,
//     j = argmax of (g_i - g_j)^2 / (K_ii + K_jj - 2 K_ij) over those that can shrink and have g_j < g_i
//
// (R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information for training support vector
// machines, JMLR 6, 2005). Like LIBSVM's, the kernel matrix is in single precision, with a diagonal of ones, and all
// else in double, but for the gains that j is chosen by. There is no shrinking of the active set: subsamples are small
// and their kernel matrix is in memory.

#include <limits>

#include "pack.h"
#include "routines.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Replaces a curvature that is not positive, as in LIBSVM.
constexpr double kMinCurvature = 1e-12;

// A coefficient this close to its bound, in units of the largest one so far, is set to the bound: coefficients are
// rounded to that precision, which C may be far above.
constexpr double kAtBound = 1e-12;

// Packs whose candidates for the first index are compared independently of each other, which hides the latency.
constexpr int kChains = 2;
static_assert(kPadding % (kChains * kLanes) == 0, "arrays are padded to whole packs, and so are singles");

// The first index of a working set, and its gradient.
struct First {
  int index;
  double gradient;
};

// The second index, or -1 if there is none.
struct Second {
  int index;
  double min_gradient;  // over all coefficients that can shrink
};

template <class Lanes>
Lanes positions() {
  Lanes lanes = {};
  for (int i = 0; i < static_cast<int>(sizeof lanes / sizeof lanes[0]); ++i) lanes[i] = i;
  return lanes;
}

// Add `step` to beta_i, subtract it from beta_j, update the gradient, and find its largest entry among the coefficients
// that can grow (solution.growable is 0 for those and -infinity for the others), in one pass over memory.
First update_and_select_first(const Problem& problem, const Solution& solution, int i, int j, double step) {
  const float* row_i = problem.kernel + i * problem.stride;
  const float* row_j = problem.kernel + j * problem.stride;
  double* const gradients = solution.gradient;
  const double* const growable = solution.growable;
  const std::ptrdiff_t stride = problem.stride;
  Pack best[kChains], best_at[kChains], at = positions<Pack>();
  for (int c = 0; c < kChains; ++c) best[c] = broadcast(-kInfinity), best_at[c] = broadcast(0.0);
  for (std::ptrdiff_t t = 0; t < stride;)
    for (int c = 0; c < kChains; ++c, t += kLanes, at += broadcast(kLanes)) {
      const Pack gradient = multiply_add(broadcast(-step), load(row_i + t) - load(row_j + t), load(gradients + t));
      store(gradients + t, gradient);
      const Pack candidate = gradient + load(growable + t);
      best_at[c] = select(candidate > best[c], at, best_at[c]);
      best[c] = maximum(candidate, best[c]);
    }
  // The smallest position of the largest value, so that ties are broken alike for any number of lanes.
  Pack largest = best[0], found = broadcast(kInfinity);
  for (int c = 1; c < kChains; ++c) largest = maximum(best[c], largest);
  const double gradient = reduce_max(largest);
  for (int c = 0; c < kChains; ++c)
    found = minimum(found, select(best[c] == broadcast(gradient), best_at[c], broadcast(kInfinity)));
  return {static_cast<int>(reduce_min(found)), gradient};
}

// Select the partner j of i by the largest gain (g_i - g_j)^2 / curvature among the coefficients that can shrink
// (solution.shrinkable is 0 for those and +infinity for the others). Gains are in single precision, and the first of
// the largest is taken: which one that is does not depend on the number of lanes.
Second select_second(const Problem& problem, const Solution& solution, First first) {
  const float* row = problem.kernel + first.index * problem.stride;
  const double* const gradients = solution.gradient;
  const double* const shrinkable = solution.shrinkable;
  const std::ptrdiff_t stride = problem.stride;
  const Pack gradient_i = broadcast(first.gradient);
  const Singles zero = broadcast_single(0.0f), none = broadcast_single(std::numeric_limits<float>::infinity());
  Singles best = zero, best_at = broadcast_single(-1.0f), at = positions<Singles>();
  Pack lowest = broadcast(kInfinity);
  for (std::ptrdiff_t t = 0; t < stride; t += 2 * kLanes, at = at + broadcast_single(2 * kLanes)) {
    const Pack low = load(gradients + t) + load(shrinkable + t);
    const Pack high = load(gradients + t + kLanes) + load(shrinkable + t + kLanes);
    lowest = minimum(minimum(lowest, low), high);
    const Singles difference = maximum(to_singles(gradient_i - low, gradient_i - high), zero);
    const Singles two = broadcast_single(2.0f);  // K_ii + K_jj
    const Singles curvature =
        maximum(multiply_add(zero - two, load_singles(row + t), two), broadcast_single(kMinCurvature));
    const Singles gain = difference * difference / curvature;
    best_at = select(gain > best, at, best_at);
    best = maximum(gain, best);
  }
  const Singles first_of_best = select(best == broadcast_single(reduce_max(best)), best_at, none);
  return {static_cast<int>(reduce_min(first_of_best)), reduce_min(lowest)};
}

double absolute(double x) { return x < 0 ? -x : x; }
double larger(double x, double y) { return x > y ? x : y; }

double upper(const Problem& problem, int i) { return problem.labels[i] > 0 ? problem.C : 0.0; }
double lower(const Problem& problem, int i) { return problem.labels[i] > 0 ? 0.0 : -problem.C; }

// Record whether coefficient i can grow and whether it can shrink.
void update_bounds(const Problem& problem, Solution& solution, int i) {
  solution.growable[i] = solution.coefficients[i] < upper(problem, i) ? 0.0 : -kInfinity;
  solution.shrinkable[i] = solution.coefficients[i] > lower(problem, i) ? 0.0 : kInfinity;
}

// The intercept: the mean gradient over free coefficients or, if there are none, the middle of the interval that the
// bounded ones leave.
double compute_intercept(const Problem& problem, const Solution& solution) {
  double sum = 0.0, below = -kInfinity, above = kInfinity;
  int free = 0;
  for (int i = 0; i < problem.size; ++i) {
    const double gradient = solution.gradient[i];
    const bool grows = solution.growable[i] == 0.0, shrinks = solution.shrinkable[i] == 0.0;
    if (grows && shrinks) {
      sum += gradient;
      ++free;
    } else if (grows) {
      below = gradient > below ? gradient : below;
    } else {
      above = gradient < above ? gradient : above;
    }
  }
  return free > 0 ? sum / free : (below + above) / 2;
}

}  // namespace

void minimize(const Problem& problem, Solution& solution) {
  for (int i = 0; i < problem.stride; ++i) {
    const bool padding = i >= problem.size;
    solution.coefficients[i] = 0.0;
    solution.gradient[i] = padding ? 0.0 : problem.labels[i];
    solution.growable[i] = -kInfinity;
    solution.shrinkable[i] = kInfinity;
    if (!padding) update_bounds(problem, solution, i);
  }
  solution.converged = false;
  double largest = 0.0;  // absolute coefficient so far
  First first = update_and_select_first(problem, solution, 0, 0, 0.0);
  for (solution.iterations = 0; solution.iterations < problem.max_iterations; ++solution.iterations) {
    const Second second = select_second(problem, solution, first);
    const int i = first.index, j = second.index;
    if (first.gradient - second.min_gradient < problem.tolerance) {
      solution.converged = true;
      break;
    }
    if (j < 0) break;  // Only if a kernel value is NaN.
    double curvature = 2.0 - 2.0 * problem.kernel[i * problem.stride + j];
    if (curvature <= 0) curvature = kMinCurvature;
    double& beta_i = solution.coefficients[i];
    double& beta_j = solution.coefficients[j];
    const double room_i = upper(problem, i) - beta_i, room_j = beta_j - lower(problem, j);
    double step = (first.gradient - solution.gradient[j]) / curvature;
    if (step > room_i) step = room_i;
    if (step > room_j) step = room_j;
    // Set a coefficient that reaches its bound to exactly that: if rounding left it free, it would determine the
    // intercept.
    const double moved_i = beta_i + step, moved_j = beta_j - step;
    largest = larger(largest, larger(absolute(moved_i), absolute(moved_j)));
    beta_i = room_i - step <= kAtBound * largest ? upper(problem, i) : moved_i;
    beta_j = room_j - step <= kAtBound * largest ? lower(problem, j) : moved_j;
    update_bounds(problem, solution, i);
    update_bounds(problem, solution, j);
    first = update_and_select_first(problem, solution, i, j, step);
  }
  solution.intercept = compute_intercept(problem, solution);
  const bool finite = solution.intercept - solution.intercept == 0.0;
  solution.converged = solution.converged && finite;
}

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
