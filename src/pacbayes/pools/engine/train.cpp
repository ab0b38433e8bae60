#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "distances.h"
#include "svm.h"

#include "../arithmetic/widths.h"

namespace pacbayes {

namespace {

// Points of a subsample, grouped by class.
struct GroupedRows {
  std::vector<std::int32_t> classes, counts, rows;
  std::vector<double> weights;  // of the rows, if they have some
};

GroupedRows group_by_class(const std::int32_t* subsample, const double* weights, std::ptrdiff_t size,
                           const std::int32_t* codes) {
  GroupedRows grouped;
  grouped.rows.assign(subsample, subsample + size);
  std::stable_sort(grouped.rows.begin(), grouped.rows.end(),
                   [codes](std::int32_t a, std::int32_t b) { return codes[a] < codes[b]; });
  for (const std::int32_t row : grouped.rows) {
    if (grouped.classes.empty() || grouped.classes.back() != codes[row]) {
      grouped.classes.push_back(codes[row]);
      grouped.counts.push_back(0);
    }
    ++grouped.counts.back();
  }
  if (weights) {
    std::vector<std::ptrdiff_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [codes, subsample](std::ptrdiff_t a, std::ptrdiff_t b) {
      return codes[subsample[a]] < codes[subsample[b]];
    });
    for (const std::ptrdiff_t position : order) grouped.weights.push_back(weights[position]);
  }
  return grouped;
}

template <class Number>
Heuristic jaakkola_gamma(const GroupedRows& points, const SquaredDistances<Number>& squared) {
  std::vector<std::int32_t> classes;
  for (std::size_t c = 0; c < points.counts.size(); ++c)
    classes.insert(classes.end(), points.counts[c], static_cast<std::int32_t>(c));
  std::vector<Number> nearest(squared.size, std::numeric_limits<Number>::infinity());
  for (std::ptrdiff_t t = 0; t < squared.n_tiles(); ++t) {
    const std::ptrdiff_t width = squared.width(t);
    const std::int32_t* others = classes.data() + t * kTile;
    Number* of_tile = nearest.data() + t * kTile;
    const bool one_class = others[0] == others[width - 1];  // points are sorted by class
    for (std::ptrdiff_t p = 0; p < squared.used(t); ++p) {
      if (one_class && classes[p] == others[0]) continue;
      const Number closest = routines().distances<Number>().nearest_others(squared.row(t, p), classes[p], others, width,
                                                                           nearest[p], of_tile);
      nearest[p] = std::min(closest, nearest[p]);
    }
  }
  std::vector<double> distances(nearest.begin(), nearest.end());
  for (double& distance : distances) distance = std::sqrt(distance);
  const auto zeros = static_cast<int>(std::count(distances.begin(), distances.end(), 0.0));
  return gamma_of_distances(static_cast<int>(distances.size()), zeros, [&distances](int rank) {
    std::nth_element(distances.begin(), distances.begin() + rank, distances.end());
    return distances[rank];
  });
}

// The kernel matrix in single precision, its rows padded with zeros to a multiple of kPadding.
template <class Number>
const float* kernel_matrix(const SquaredDistances<Number>& squared, double gamma, TrainingSpace& space) {
  const std::ptrdiff_t size = squared.size, stride = round_up(size, kPadding);
  space.grow(space.kernel, size * stride);
  float* const kernel = space.kernel.data();
  for (std::ptrdiff_t p = 0; p < size; ++p) std::fill(kernel + p * stride + size, kernel + (p + 1) * stride, 0.0f);
  for (std::ptrdiff_t t = 0; t < squared.n_tiles(); ++t) {
    const std::ptrdiff_t first = t * kTile, width = squared.width(t);
    const Number* nearest = squared.nearest.data() + t * size;
    for (std::ptrdiff_t block = 0; block < squared.used(t); block += kTile) {
      const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, size - block);
      float* const values = kernel + block * stride + first;
      routines().distances<Number>().kernel(squared.row(t, block), nearest + block, count, gamma, width, stride, values);
      // The rows of this tile are the columns above it.
      if (block < first) routines().transpose_tile(values, width, stride, kernel + first * stride + block);
    }
  }
  return kernel;
}

// The four arrays that the solution of a problem of up to `stride` points needs.
struct Workspace {
  explicit Workspace(std::ptrdiff_t size) : numbers(4 * size), stride(size) {}
  double* operator[](int array) { return numbers.data() + array * stride; }
  std::vector<double> numbers;
  std::ptrdiff_t stride;
};

// Solve the problems of all pairs of classes and append the machine. Points that are not finite have no solution.
void solve(const GroupedRows& points, const float* kernel, double gamma, bool finite, const Settings& settings,
           Trained& trained) {
  const int n_classes = static_cast<int>(points.classes.size());
  const auto size = static_cast<std::ptrdiff_t>(points.rows.size()), stride = round_up(size, kPadding);
  std::vector<std::ptrdiff_t> starts(n_classes, 0);
  for (int c = 1; c < n_classes; ++c) starts[c] = starts[c - 1] + points.counts[c - 1];

  std::vector<double> coefficients((n_classes - 1) * size, 0.0);
  Workspace workspace(stride);
  std::vector<float> submatrix;
  std::vector<double> weighted_C(points.weights.empty() ? 0 : stride, settings.C);
  bool converged = finite;
  for (int a = 0; a < n_classes; ++a) {
    for (int b = a + 1; b < n_classes; ++b) {
      const std::ptrdiff_t n_a = points.counts[a], n_b = points.counts[b];
      Problem problem{kernel,     stride,             static_cast<int>(n_a + n_b),   static_cast<int>(n_a),
                      settings.C, settings.tolerance, settings.max_iterations};
      if (n_classes > 2) {  // The rows and columns of these two classes.
        problem.stride = round_up(n_a + n_b, kPadding);
        submatrix.assign((n_a + n_b) * problem.stride, 0.0f);
        for (std::ptrdiff_t p = 0; p < n_a + n_b; ++p) {
          const float* row = kernel + (p < n_a ? starts[a] + p : starts[b] + p - n_a) * stride;
          std::copy_n(row + starts[a], n_a, submatrix.data() + p * problem.stride);
          std::copy_n(row + starts[b], n_b, submatrix.data() + p * problem.stride + n_a);
        }
        problem.kernel = submatrix.data();
      }
      if (!weighted_C.empty()) {
        for (std::ptrdiff_t p = 0; p < n_a + n_b; ++p)
          weighted_C[p] = settings.C * points.weights[p < n_a ? starts[a] + p : starts[b] + p - n_a];
        problem.weighted_C = weighted_C.data();
      }
      Solution solution{workspace[0], workspace[1], workspace[2], workspace[3], 0.0, false};
      routines().minimize(problem, solution);
      std::copy_n(solution.coefficients, n_a, coefficients.data() + (b - 1) * size + starts[a]);
      std::copy_n(solution.coefficients + n_a, n_b, coefficients.data() + a * size + starts[b]);
      trained.intercepts.push_back(solution.intercept);
      converged = converged && solution.converged;
    }
  }

  std::vector<std::ptrdiff_t> support;
  for (int c = 0; c < n_classes; ++c) {
    const std::size_t before = support.size();
    for (std::ptrdiff_t p = starts[c]; p < starts[c] + points.counts[c]; ++p) {
      bool supports = false;
      for (int row = 0; row + 1 < n_classes; ++row) supports = supports || coefficients[row * size + p] != 0.0;
      if (supports) support.push_back(p);
    }
    trained.counts.push_back(static_cast<std::int32_t>(support.size() - before));
  }
  for (const std::ptrdiff_t p : support) trained.support.push_back(points.rows[p]);
  for (int row = 0; row + 1 < n_classes; ++row)
    for (const std::ptrdiff_t p : support) trained.coefficients.push_back(coefficients[row * size + p]);
  trained.gamma.push_back(gamma);
  trained.converged.push_back(converged);
}

// The largest norm of a row, or infinity if it has categories that are no numbers in single precision. Sums run over
// the features in order, so that zeros may be left out.
double largest_norm(DenseRows<double> rows) {
  constexpr double kLargestCategory = 0x1p24;
  const std::ptrdiff_t n_numbers = rows.d - rows.n_categories;
  double largest = 0.0;
  for (std::ptrdiff_t p = 0; p < rows.count; p += kBlock) {
    // Several sums at a time, which hides the latency of the additions.
    const double* row[kBlock];
    double squares[kBlock] = {};
    for (int q = 0; q < kBlock; ++q) row[q] = rows.values + std::min<std::ptrdiff_t>(p + q, rows.count - 1) * rows.d;
    for (std::ptrdiff_t k = 0; k < n_numbers; ++k)
      for (int q = 0; q < kBlock; ++q) squares[q] += row[q][k] * row[q][k];
    for (int q = 0; q < kBlock; ++q) {
      largest = std::max(largest, squares[q]);
      for (std::ptrdiff_t k = n_numbers; k < rows.d; ++k)
        if (std::fabs(row[q][k]) > kLargestCategory) return std::numeric_limits<double>::infinity();
    }
  }
  return std::sqrt(largest);
}

double largest_norm(SparseRows rows) {
  double largest = 0.0;
  for (std::ptrdiff_t p = 0; p < rows.count; ++p) {
    double square = 0.0;
    for (std::int64_t at = rows.begin(p); at < rows.end(p); ++at) square += rows.value(at) * rows.value(at);
    largest = std::max(largest, square);
  }
  return std::sqrt(largest);
}

}  // namespace

template <class Rows>
void train(Rows X, const std::int32_t* codes, const std::int32_t* subsample, const double* weights,
           std::ptrdiff_t size, const Settings& settings, TrainingSpace& space, Trained& trained) {
  const Scale scale = append_subsample_factors(X, subsample, size, settings.scaler, settings.n_numbers, trained.scale);
  const GroupedRows grouped = group_by_class(subsample, weights, size, codes);
  trained.n_classes.push_back(static_cast<std::int32_t>(grouped.classes.size()));
  trained.classes.insert(trained.classes.end(), grouped.classes.begin(), grouped.classes.end());
  if (grouped.classes.size() == 1) {
    trained.counts.push_back(0);
    trained.gamma.push_back(0.0);
    trained.converged.push_back(1);
    return;
  }
  typename Layout<Rows>::Matrix points;
  points.gather(X, grouped.rows.data(), size, scale);
  const bool finite = all_finite(points.values());
  const bool heuristic = std::isnan(settings.seed);
  const double norm = finite ? largest_norm(points.rows()) : std::numeric_limits<double>::infinity();
  // In single precision if that is enough, else in double.
  if (is_single_enough(norm, X.d, heuristic ? kMinSingleGamma : settings.seed * settings.multiplier)) {
    const SquaredDistances<float> squared = pairwise_distances<float>(points.round(), space);
    const Heuristic seed = heuristic ? jaakkola_gamma(grouped, squared) : Heuristic{settings.seed, true};
    const double gamma = seed.gamma * settings.multiplier;
    if (!heuristic || is_single_enough(norm, X.d, seed, gamma))
      return solve(grouped, kernel_matrix(squared, gamma, space), gamma, finite, settings, trained);
  }
  const SquaredDistances<double> squared = pairwise_distances<double>(points.rows(), space);
  const double gamma = (heuristic ? jaakkola_gamma(grouped, squared).gamma : settings.seed) * settings.multiplier;
  solve(grouped, kernel_matrix(squared, gamma, space), gamma, finite, settings, trained);
}

template void train(DenseRows<float>, const std::int32_t*, const std::int32_t*, const double*, std::ptrdiff_t,
                    const Settings&, TrainingSpace&, Trained&);
template void train(DenseRows<double>, const std::int32_t*, const std::int32_t*, const double*, std::ptrdiff_t,
                    const Settings&, TrainingSpace&, Trained&);
template void train(SparseRows, const std::int32_t*, const std::int32_t*, const double*, std::ptrdiff_t,
                    const Settings&, TrainingSpace&, Trained&);

template <class Rows>
void nearest_of_another_class(Rows X, const std::int32_t* codes, double* squared_distances) {
  constexpr std::ptrdiff_t kPanel = 4096;  // few enough points for their distances to a tile to fit the cache
  typename Layout<Rows>::Matrix panel;
  typename Layout<Rows>::Points points;
  typename Layout<Rows>::Tile tile;
  std::vector<double> squared, nearest;
  std::vector<std::int32_t> rows;
  std::fill_n(squared_distances, X.count, std::numeric_limits<double>::infinity());
  for (std::ptrdiff_t first = 0; first < X.count; first += kPanel) {
    const std::ptrdiff_t size = std::min(kPanel, X.count - first);
    rows.resize(size);
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first));
    panel.gather(X, rows.data(), size, {});
    points.assign(panel.rows());
    squared.resize(size * kTile);
    nearest.resize(size);
    for (std::ptrdiff_t row = 0; row < X.count; row += kTile) {
      const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, X.count - row);
      tile.load(X, row, count);
      tile.distances(points, squared.data(), nearest.data());
      for (std::ptrdiff_t p = 0; p < size; ++p)
        for (std::ptrdiff_t i = 0; i < count; ++i) {
          double& closest = squared_distances[row + i];
          const double distance = squared[p * kTile + i];
          closest = codes[first + p] != codes[row + i] && distance < closest ? distance : closest;
        }
    }
  }
}

template void nearest_of_another_class(DenseRows<float>, const std::int32_t*, double*);
template void nearest_of_another_class(DenseRows<double>, const std::int32_t*, double*);
template void nearest_of_another_class(SparseRows, const std::int32_t*, double*);

}  // namespace pacbayes
