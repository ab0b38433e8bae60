// The two passes over all points that an iteration of arithmetic/smo.h takes. Compiled once per instruction set.

#include <limits>

#include "pack.h"
#include "routines.h"

#include "../arithmetic/smo.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

// Packs whose candidates for the first index are compared independently of each other, which hides the latency.
constexpr int kChains = 2;
static_assert(kPadding % (kChains * kLanes) == 0, "arrays are padded to whole packs, and so are singles");

template <class Lanes>
Lanes positions() {
  Lanes lanes = {};
  for (int i = 0; i < static_cast<int>(sizeof lanes / sizeof lanes[0]); ++i) lanes[i] = i;
  return lanes;
}

template <class Bounds>
struct Passes {
  const Problem& problem;
  const Solution& solution;
  const Bounds box;

  double coefficient(int i) const { return solution.coefficients[i]; }
  double gradient_of(int i) const { return solution.gradient[i]; }
  float kernel_value(int i, int j) const { return problem.kernel[i * problem.stride + j]; }

  // Record a coefficient, whether it can grow, and whether it can shrink.
  void set(int i, double coefficient) {
    solution.coefficients[i] = coefficient;
    solution.growable[i] = coefficient < box.upper(i) ? 0.0 : -kInfinity;
    solution.shrinkable[i] = coefficient > box.lower(i) ? 0.0 : kInfinity;
  }

  Best start() {
    for (int i = 0; i < problem.stride; ++i) {
      solution.gradient[i] = box.label(i);
      set(i, 0.0);
    }
    for (int i = problem.size; i < problem.stride; ++i) {  // Padding neither grows nor shrinks.
      solution.growable[i] = -kInfinity;
      solution.shrinkable[i] = kInfinity;
    }
    return update_and_select_first(0, 0, 0.0);
  }

  Best take(const Step& step) {
    set(step.i, step.beta_i);
    set(step.j, step.beta_j);
    return update_and_select_first(step.i, step.j, step.size);
  }

  // Update the gradient and find its largest entry among the coefficients that can grow (solution.growable is 0 for
  // those and -infinity for the others), in one pass over memory.
  Best update_and_select_first(int i, int j, double step) const {
    const float* row_i = problem.kernel + i * problem.stride;
    const float* row_j = problem.kernel + j * problem.stride;
    double* const gradients = solution.gradient;
    const double* const growable = solution.growable;
    const std::ptrdiff_t stride = problem.stride;
    Pack best[kChains], best_at[kChains], at = positions<Pack>();
    for (int c = 0; c < kChains; ++c) best[c] = broadcast(-kInfinity), best_at[c] = broadcast(0.0);
    for (std::ptrdiff_t t = 0; t < stride;)
      for (int c = 0; c < kChains; ++c, t += kLanes, at += broadcast(kLanes)) {
        const Pack gradient = stepped(load(gradients + t), step, load(row_i + t), load(row_j + t));
        store(gradients + t, gradient);
        const Pack candidate = gradient + load(growable + t);
        best_at[c] = select(candidate > best[c], at, best_at[c]);
        best[c] = maximum(candidate, best[c]);
      }
    // The smallest position of the largest value.
    Pack largest = best[0], found = broadcast(kInfinity);
    for (int c = 1; c < kChains; ++c) largest = maximum(best[c], largest);
    const double gradient = reduce_max(largest);
    for (int c = 0; c < kChains; ++c)
      found = minimum(found, select(best[c] == broadcast(gradient), best_at[c], broadcast(kInfinity)));
    return {static_cast<int>(reduce_min(found)), gradient};
  }

  // solution.shrinkable is 0 for the coefficients that can shrink and +infinity for the others.
  Second select_second(Best first) const {
    const float* row = problem.kernel + first.index * problem.stride;
    const double* const gradients = solution.gradient;
    const double* const shrinkable = solution.shrinkable;
    const std::ptrdiff_t stride = problem.stride;
    const Pack gradient_i = broadcast(first.value);
    const Singles none = broadcast_single(std::numeric_limits<float>::infinity());
    Singles best = broadcast_single(0.0f), best_at = broadcast_single(-1.0f), at = positions<Singles>();
    Pack lowest = broadcast(kInfinity);
    for (std::ptrdiff_t t = 0; t < stride; t += 2 * kLanes, at = at + broadcast_single(2 * kLanes)) {
      const Pack low = load(gradients + t) + load(shrinkable + t);
      const Pack high = load(gradients + t + kLanes) + load(shrinkable + t + kLanes);
      lowest = minimum(minimum(lowest, low), high);
      const Singles gain = gains(to_singles(gradient_i - low, gradient_i - high), load_singles(row + t));
      best_at = select(gain > best, at, best_at);
      best = maximum(gain, best);
    }
    const Singles first_of_best = select(best == broadcast_single(reduce_max(best)), best_at, none);
    return {static_cast<int>(reduce_min(first_of_best)), reduce_min(lowest)};
  }
};

template <class Bounds>
void minimize_within(const Bounds& box, const Problem& problem, Solution& solution) {
  Passes<Bounds> passes = {problem, solution, box};
  const bool converged = iterate(passes, problem.tolerance, problem.max_iterations);
  solution.intercept = compute_intercept(passes.box, problem.size, solution.coefficients, solution.gradient);
  solution.converged = converged && solution.intercept - solution.intercept == 0.0;
}

}  // namespace

void minimize(const Problem& problem, Solution& solution) {
  if (problem.weighted_C)
    minimize_within(WeightedBox{problem.n_positive, problem.weighted_C}, problem, solution);
  else
    minimize_within(Box{problem.n_positive, problem.C}, problem, solution);
}

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
