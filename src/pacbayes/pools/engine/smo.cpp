// LIBSVM's C-SVC dual by sequential minimal optimisation, with second-order working sets. Compiled once per instruction set.
//
// In beta_i = y_i alpha_i the dual reads
//
//     maximise  sum_i y_i beta_i - 1/2 sum_ij beta_i beta_j K_ij    subject to  sum_i beta_i = 0,
//     beta_i in [0, C] where y_i = +1, in [-C, 0] where y_i = -1,
//
// and its gradient g_i = y_i - sum_j K_ij beta_j is LIBSVM's -y_i G_i. A step takes a pair (i, j) and moves beta_i up and
// beta_j down by the same amount. The solution is optimal when no beta that can grow has a larger gradient than one that
// can shrink; it is good enough when the gap is below the tolerance, as in LIBSVM:
//
//     i = argmax of g over those that can grow,
//     j = argmax of (g_i - g_j)^2 / (K_ii + K_jj - 2 K_ij) over those that can shrink and have g_j < g_i
//
// (R.-E. Fan, P.-H. Chen, C.-J. Lin, Working set selection using second order information for training support vector
// machines, JMLR 6, 2005). Like LIBSVM's, the kernel matrix is in single precision, with a diagonal of ones, and all else in
// double. There is no shrinking of the active set: subsamples are small and their matrix is at hand.

#include <limits>

#include "pack.h"
#include "routines.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What LIBSVM takes for a curvature that is not positive.
constexpr double kLeastCurvature = 1e-12;

// How close to its bound, in units of C, a coefficient is at it.
constexpr double kAtBound = 1e-12;

static_assert(kPadding % kLanes == 0, "arrays are padded to whole packs");

struct First {
  int index;
  double gradient;
};

struct Second {
  int index;
  double least_gradient;  // over all that can shrink
};

Pack positions() {
  Pack pack;
  for (int i = 0; i < kLanes; ++i) pack[i] = i;
  return pack;
}

// The first of the positions that lie in lanes of the mask: what is found does not depend on the number of lanes.
int first_at(Mask mask, Pack at) { return static_cast<int>(least(select(mask, at, fill(kInfinity)))); }

// Add `step` to beta_i and take it from beta_j, and find the largest gradient of those that can grow, in one pass. Can-grow
// is 0 or -infinity in solution.growable.
First move_and_select_first(const Problem& problem, const Solution& solution, int i, int j, double step) {
  const float* row_i = problem.kernel + i * problem.stride;
  const float* row_j = problem.kernel + j * problem.stride;
  Pack best = fill(-kInfinity), best_at = fill(0.0), at = positions();
  for (std::ptrdiff_t t = 0; t < problem.stride; t += kLanes, at += fill(kLanes)) {
    const Pack gradient = load(solution.gradient + t) - fill(step) * (load(row_i + t) - load(row_j + t));
    store(solution.gradient + t, gradient);
    const Pack candidate = gradient + load(solution.growable + t);
    const Mask better = candidate > best;
    best = select(better, candidate, best);
    best_at = select(better, at, best_at);
  }
  const double gradient = greatest(best);
  return {first_at(best == fill(gradient), best_at), gradient};
}

// The partner of i: the largest gain (g_i - g_j)^2 / curvature. Gains are compared by multiplying out, which saves the
// divisions. Can-shrink is 0 or +infinity in solution.shrinkable.
Second select_second(const Problem& problem, const Solution& solution, First first) {
  const float* row = problem.kernel + first.index * problem.stride;
  Pack lowest = fill(kInfinity), best_square = fill(0.0), best_curvature = fill(1.0), best_at = fill(-1.0);
  Pack at = positions();
  for (std::ptrdiff_t t = 0; t < problem.stride; t += kLanes, at += fill(kLanes)) {
    const Pack gradient = load(solution.gradient + t) + load(solution.shrinkable + t);
    lowest = select(lowest > gradient, gradient, lowest);
    Pack difference = fill(first.gradient) - gradient;
    difference = select(difference > fill(0.0), difference, fill(0.0));
    Pack curvature = fill(2.0) - fill(2.0) * load(row + t);
    curvature = select(curvature > fill(0.0), curvature, fill(kLeastCurvature));
    const Pack square = difference * difference;
    const Mask better = square * best_curvature > best_square * curvature;
    best_square = select(better, square, best_square);
    best_curvature = select(better, curvature, best_curvature);
    best_at = select(better, at, best_at);
  }
  const Pack gain = best_square / best_curvature;
  return {first_at(gain == fill(greatest(gain)), best_at), least(lowest)};
}

double upper(const Problem& problem, int i) { return problem.labels[i] > 0 ? problem.C : 0.0; }
double lower(const Problem& problem, int i) { return problem.labels[i] > 0 ? 0.0 : -problem.C; }

void mark(const Problem& problem, Solution& solution, int i) {
  solution.growable[i] = solution.coefficients[i] < upper(problem, i) ? 0.0 : -kInfinity;
  solution.shrinkable[i] = solution.coefficients[i] > lower(problem, i) ? 0.0 : kInfinity;
}

// The intercept: the mean gradient of free points, or the middle of what the bounded ones allow.
double intercept_of(const Problem& problem, const Solution& solution) {
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
    if (!padding) mark(problem, solution, i);
  }
  solution.converged = false;
  First first = move_and_select_first(problem, solution, 0, 0, 0.0);
  for (solution.iterations = 0; solution.iterations < problem.max_iterations; ++solution.iterations) {
    const Second second = select_second(problem, solution, first);
    const int i = first.index, j = second.index;
    if (first.gradient - second.least_gradient < problem.tolerance) {
      solution.converged = true;
      break;
    }
    if (j < 0) break;  // Only where something is not a number.
    double curvature = 2.0 - 2.0 * problem.kernel[i * problem.stride + j];
    if (curvature <= 0) curvature = kLeastCurvature;
    double& beta_i = solution.coefficients[i];
    double& beta_j = solution.coefficients[j];
    const double room_i = upper(problem, i) - beta_i, room_j = beta_j - lower(problem, j);
    double step = (first.gradient - solution.gradient[j]) / curvature;
    if (step > room_i) step = room_i;
    if (step > room_j) step = room_j;
    // A coefficient that reaches its bound is set to it: free by a rounding error, it would decide on the intercept.
    beta_i = room_i - step <= kAtBound * problem.C ? upper(problem, i) : beta_i + step;
    beta_j = room_j - step <= kAtBound * problem.C ? lower(problem, j) : beta_j - step;
    mark(problem, solution, i);
    mark(problem, solution, j);
    first = move_and_select_first(problem, solution, i, j, step);
  }
  solution.intercept = intercept_of(problem, solution);
  const bool finite = solution.intercept - solution.intercept == 0.0;
  solution.converged = solution.converged && finite;
}

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
