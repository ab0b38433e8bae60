#include "svm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "routines.h"

namespace pacbayes {

namespace {

std::ptrdiff_t round_up(std::ptrdiff_t size, std::ptrdiff_t multiple) { return (size + multiple - 1) / multiple * multiple; }

std::ptrdiff_t pairs_of(std::ptrdiff_t n_classes) { return n_classes * (n_classes - 1) / 2; }

// Up to kTile rows as a tile: features in runs, rows beyond the last as copies of it, so that no distance is made up.
template <class Number>
void fill_tile(Rows<Number> X, const std::int32_t* rows, std::ptrdiff_t count, const double* scale, double* tile) {
  for (int i = 0; i < kTile; ++i) {
    const Number* row = X.data + static_cast<std::ptrdiff_t>(rows[std::min<std::ptrdiff_t>(i, count - 1)]) * X.d;
    for (std::ptrdiff_t k = 0; k < X.d; ++k)
      tile[k * kTile + i] = scale ? static_cast<double>(row[k]) * scale[k] : static_cast<double>(row[k]);
  }
}

}  // namespace

// ------------------------------------------------------------------------------------------------------
// Training
// ------------------------------------------------------------------------------------------------------

double SquaredDistances::operator()(std::ptrdiff_t p, std::ptrdiff_t q) const {
  return tiles[(q / kTile * size + p) * kTile + q % kTile];
}

template <class Number>
SquaredDistances distances_between(Rows<Number> X, const std::int32_t* subsample, std::ptrdiff_t size,
                                   const double* scale) {
  const std::ptrdiff_t tiles = round_up(size, kTile) / kTile;
  SquaredDistances squared{std::vector<double>(tiles * size * kTile), std::vector<double>(tiles * size), size};
  std::vector<double> points(size * X.d), tile(X.d * kTile);
  std::vector<std::int32_t> in_order(size);
  std::iota(in_order.begin(), in_order.end(), 0);
  for (std::ptrdiff_t p = 0; p < size; ++p)
    for (std::ptrdiff_t k = 0; k < X.d; ++k) {
      const double feature = static_cast<double>(X.data[static_cast<std::ptrdiff_t>(subsample[p]) * X.d + k]);
      points[p * X.d + k] = scale ? feature * scale[k] : feature;
    }
  for (std::ptrdiff_t t = 0; t < tiles; ++t) {
    fill_tile(X, subsample + t * kTile, std::min<std::ptrdiff_t>(kTile, size - t * kTile), scale, tile.data());
    routines().squared_distances(points.data(), in_order.data(), size, X.d, tile.data(),
                                 squared.tiles.data() + t * size * kTile, squared.nearest.data() + t * size);
  }
  return squared;
}

SquaredDistances tiled(const double* squared, const std::vector<std::int32_t>& order) {
  const auto size = static_cast<std::ptrdiff_t>(order.size());
  const std::ptrdiff_t tiles = round_up(size, kTile) / kTile;
  SquaredDistances result{std::vector<double>(tiles * size * kTile), std::vector<double>(tiles * size), size};
  for (std::ptrdiff_t t = 0; t < tiles; ++t)
    for (std::ptrdiff_t p = 0; p < size; ++p) {
      double* run = result.tiles.data() + (t * size + p) * kTile;
      for (int i = 0; i < kTile; ++i)
        run[i] = squared[order[p] * size + order[std::min<std::ptrdiff_t>(t * kTile + i, size - 1)]];
      result.nearest[t * size + p] = *std::min_element(run, run + kTile);
    }
  return result;
}

Grouped group_by_class(const std::int32_t* subsample, std::ptrdiff_t size, const std::int32_t* codes) {
  Grouped grouped;
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
  return grouped;
}

namespace {

double median(std::vector<double>& numbers) {
  const std::size_t half = numbers.size() / 2;
  std::nth_element(numbers.begin(), numbers.begin() + half, numbers.end());
  if (numbers.size() % 2 == 1) return numbers[half];
  return (numbers[half] + *std::max_element(numbers.begin(), numbers.begin() + half)) / 2;
}

// Seed of the kernel width, from the distances to the nearest points of another class: jaakkola_gamma of _rbf_svm.py.
double jaakkola_gamma(const Grouped& points, const SquaredDistances& squared) {
  std::vector<double> distances;
  distances.reserve(squared.size);
  std::ptrdiff_t first = 0;
  for (const std::int32_t count : points.counts) {
    const std::ptrdiff_t last = first + count;
    for (std::ptrdiff_t p = first; p < last; ++p) {
      double nearest = std::numeric_limits<double>::infinity();
      for (std::ptrdiff_t q = 0; q < first; ++q) nearest = std::min(nearest, squared(p, q));
      for (std::ptrdiff_t q = last; q < squared.size; ++q) nearest = std::min(nearest, squared(p, q));
      distances.push_back(std::sqrt(nearest));
    }
    first = last;
  }
  double typical = median(distances);
  if (typical == 0) {
    distances.erase(std::remove(distances.begin(), distances.end(), 0.0), distances.end());
    typical = distances.empty() ? 1.0 : median(distances);
  }
  return std::clamp(1 / (2 * typical * typical), 1e-100, 1e100);
}

// The kernel matrix, rows padded with zeros to whole packs.
std::vector<float> kernel_matrix(const SquaredDistances& squared, double gamma, std::ptrdiff_t stride) {
  const std::ptrdiff_t size = squared.size;
  std::vector<float> kernel(size * stride, 0.0f);
  std::vector<double> tile(size * kTile);
  for (std::ptrdiff_t t = 0; t * kTile < size; ++t) {
    routines().exponentials(squared.tiles.data() + t * size * kTile, squared.nearest.data() + t * size, size, gamma,
                            tile.data());
    const std::ptrdiff_t width = std::min<std::ptrdiff_t>(kTile, size - t * kTile);
    for (std::ptrdiff_t p = 0; p < size; ++p)
      for (std::ptrdiff_t i = 0; i < width; ++i)
        kernel[p * stride + t * kTile + i] = static_cast<float>(tile[p * kTile + i]);
  }
  return kernel;
}

// Room for the solution of a problem of up to `stride` points.
struct Workspace {
  explicit Workspace(std::ptrdiff_t stride) : room(5 * stride), size(stride) {}
  double* operator[](int array) { return room.data() + array * size; }
  std::vector<double> room;
  std::ptrdiff_t size;
};

}  // namespace

void train(const Grouped& points, const SquaredDistances& squared, const Settings& settings, Trained& trained) {
  const int n_classes = static_cast<int>(points.classes.size());
  trained.n_classes.push_back(n_classes);
  trained.classes.insert(trained.classes.end(), points.classes.begin(), points.classes.end());
  if (n_classes == 1) {
    trained.counts.push_back(0);
    trained.gamma.push_back(0.0);
    trained.converged.push_back(1);
    return;
  }
  const double seed = std::isnan(settings.seed) ? jaakkola_gamma(points, squared) : settings.seed;
  const double gamma = seed * settings.multiplier;
  const std::ptrdiff_t size = squared.size, stride = round_up(size, kPadding);
  const std::vector<float> kernel = kernel_matrix(squared, gamma, stride);
  std::vector<std::ptrdiff_t> starts(n_classes, 0);
  for (int c = 1; c < n_classes; ++c) starts[c] = starts[c - 1] + points.counts[c - 1];

  std::vector<double> coefficients((n_classes - 1) * size, 0.0);
  Workspace workspace(stride);
  std::vector<float> part;
  // A distance that is not a number would be passed over by every comparison.
  bool converged = std::none_of(squared.tiles.begin(), squared.tiles.end(), [](double x) { return std::isnan(x); });
  for (int a = 0; a < n_classes; ++a) {
    for (int b = a + 1; b < n_classes; ++b) {
      const std::ptrdiff_t n_a = points.counts[a], n_b = points.counts[b];
      Problem problem{kernel.data(), stride,     static_cast<int>(n_a + n_b), workspace[0],
                      settings.C,    settings.tolerance, settings.max_iterations};
      if (n_classes > 2) {  // The rows and columns of these two classes.
        problem.stride = round_up(n_a + n_b, kPadding);
        part.assign((n_a + n_b) * problem.stride, 0.0f);
        for (std::ptrdiff_t p = 0; p < n_a + n_b; ++p) {
          const float* row = kernel.data() + (p < n_a ? starts[a] + p : starts[b] + p - n_a) * stride;
          std::copy_n(row + starts[a], n_a, part.data() + p * problem.stride);
          std::copy_n(row + starts[b], n_b, part.data() + p * problem.stride + n_a);
        }
        problem.kernel = part.data();
      }
      std::fill_n(workspace[0], n_a, 1.0);
      std::fill_n(workspace[0] + n_a, n_b, -1.0);
      Solution solution{workspace[1], workspace[2], workspace[3], workspace[4], 0.0, 0, false};
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

// ------------------------------------------------------------------------------------------------------
// Voting
// ------------------------------------------------------------------------------------------------------

namespace {

// Kernel values or squared distances of points to the rows of a tile, kTile of them per point.
struct TileOf {
  const double* squared;
  const double* nearest;
  const double* kernel;         // at the machine's width, or null: yet to be exponentiated
  const std::int32_t* support;  // rows of these arrays that hold the machine's support vectors
};

// Decision values of all pairs of classes at the rows of a tile: values[pair * kTile + row].
void decide_tile(const Machine& machine, TileOf tile, std::vector<double>& own_kernel, double* values) {
  const Routines& run = routines();
  const int k = machine.n_classes;
  const std::ptrdiff_t n = machine.n_support;
  for (std::ptrdiff_t pair = 0; pair < pairs_of(k); ++pair)
    std::fill_n(values + pair * kTile, kTile, machine.intercepts[pair]);
  if (k == 2 && !tile.kernel) {
    run.weigh_exponentials(tile.squared, tile.nearest, tile.support, machine.coefficients, n, machine.gamma, values);
    return;
  }
  std::vector<std::int32_t> in_order;
  if (!tile.kernel) {  // Each kernel value serves k - 1 pairs of classes.
    own_kernel.resize(n * kTile);
    in_order.resize(n);
    std::iota(in_order.begin(), in_order.end(), 0);
    for (std::ptrdiff_t p = 0; p < n; ++p)
      run.exponentials(tile.squared + static_cast<std::ptrdiff_t>(tile.support[p]) * kTile,
                       tile.nearest + tile.support[p], 1, machine.gamma, own_kernel.data() + p * kTile);
    tile.kernel = own_kernel.data();
    tile.support = in_order.data();
  }
  std::vector<std::ptrdiff_t> starts(k, 0);
  for (int c = 1; c < k; ++c) starts[c] = starts[c - 1] + machine.counts[c - 1];
  for (int a = 0; a < k; ++a) {
    for (int b = a + 1; b < k; ++b, values += kTile) {
      run.weigh(tile.kernel, tile.support + starts[a], machine.coefficients + (b - 1) * n + starts[a],
                machine.counts[a], values);
      run.weigh(tile.kernel, tile.support + starts[b], machine.coefficients + a * n + starts[b], machine.counts[b],
                values);
    }
  }
}

// The class with most votes of its pairs, the first of them in a tie, as LIBSVM has it.
void elect(const Machine& machine, const double* values, std::ptrdiff_t count, std::uint16_t* votes) {
  const int k = machine.n_classes;
  if (k == 1) {
    std::fill_n(votes, count, static_cast<std::uint16_t>(machine.classes[0]));
  } else if (k == 2) {
    const auto positive = static_cast<std::uint16_t>(machine.classes[0]);
    const auto negative = static_cast<std::uint16_t>(machine.classes[1]);
    for (std::ptrdiff_t i = 0; i < count; ++i) votes[i] = values[i] > 0 ? positive : negative;
  } else {
    std::vector<int> tally(k * kTile, 0);
    for (int a = 0; a < k; ++a)
      for (int b = a + 1; b < k; ++b, values += kTile)
        for (std::ptrdiff_t i = 0; i < count; ++i) ++tally[(values[i] > 0 ? a : b) * kTile + i];
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      int winner = 0;
      for (int c = 1; c < k; ++c)
        if (tally[c * kTile + i] > tally[winner * kTile + i]) winner = c;
      votes[i] = static_cast<std::uint16_t>(machine.classes[winner]);
    }
  }
}

// Machines of one kernel width.
struct Width {
  double gamma;
  std::vector<std::size_t> machines;
  bool shared;  // exponentiate the kernel of all points once, for all of them
};

std::vector<Width> group_by_width(const std::vector<Machine>& machines, std::ptrdiff_t points) {
  std::vector<Width> widths;
  std::unordered_map<double, std::size_t> of_gamma;
  for (std::size_t h = 0; h < machines.size(); ++h) {
    const auto [at, is_new] = of_gamma.try_emplace(machines[h].gamma, widths.size());
    if (is_new) widths.push_back({machines[h].gamma, {}, false});
    widths[at->second].machines.push_back(h);
  }
  for (Width& width : widths) {
    std::ptrdiff_t uses = 0;
    for (const std::size_t h : width.machines) uses += machines[h].n_support;
    width.shared = uses > points;
  }
  return widths;
}

// Asks machines that share squared distances about one tile after another.
class SharedVote {
 public:
  SharedVote(const std::vector<Machine>& machines, std::ptrdiff_t points)
      : machines_(machines), points_(points), widths_(group_by_width(machines, points)) {
    std::ptrdiff_t most = 1;
    for (const Machine& machine : machines) most = std::max(most, pairs_of(machine.n_classes));
    values_.resize(most * kTile);
    if (std::any_of(widths_.begin(), widths_.end(), [](const Width& width) { return width.shared; }))
      kernel_.resize(points * kTile);
  }

  void operator()(const double* squared, const double* nearest, std::ptrdiff_t row, std::ptrdiff_t count,
                  const Ballot& ballot) {
    std::uint16_t votes[kTile];
    for (const Width& width : widths_) {
      if (width.shared) routines().exponentials(squared, nearest, points_, width.gamma, kernel_.data());
      for (const std::size_t h : width.machines) {
        const Machine& machine = machines_[h];
        decide_tile(machine, {squared, nearest, width.shared ? kernel_.data() : nullptr, machine.support}, own_kernel_,
                    values_.data());
        elect(machine, values_.data(), count, votes);
        ballot(h, row, count, votes);
      }
    }
  }

 private:
  const std::vector<Machine>& machines_;
  std::ptrdiff_t points_;
  std::vector<Width> widths_;
  std::vector<double> values_, kernel_, own_kernel_;
};

// Distances of one machine's support vectors to the rows of a tile, for machines that share few points or none.
class OwnTile {
 public:
  explicit OwnTile(Rows<double> points) : points_(points) {}

  TileOf operator()(const Machine& machine, const double* tile) {
    const std::ptrdiff_t n = machine.n_support, d = points_.d;
    squared_.resize(n * kTile);
    nearest_.resize(n);
    while (static_cast<std::ptrdiff_t>(in_order_.size()) < n)
      in_order_.push_back(static_cast<std::int32_t>(in_order_.size()));
    const double* points = points_.data;
    const std::int32_t* rows = machine.support;
    if (machine.scale) {
      scaled_points_.resize(n * d);
      scaled_tile_.resize(d * kTile);
      for (std::ptrdiff_t p = 0; p < n; ++p)
        for (std::ptrdiff_t k = 0; k < d; ++k)
          scaled_points_[p * d + k] = points_.data[static_cast<std::ptrdiff_t>(rows[p]) * d + k] * machine.scale[k];
      for (std::ptrdiff_t k = 0; k < d; ++k)
        for (int i = 0; i < kTile; ++i) scaled_tile_[k * kTile + i] = tile[k * kTile + i] * machine.scale[k];
      points = scaled_points_.data();
      tile = scaled_tile_.data();
      rows = in_order_.data();
    }
    routines().squared_distances(points, rows, n, d, tile, squared_.data(), nearest_.data());
    return {squared_.data(), nearest_.data(), nullptr, in_order_.data()};
  }

 private:
  Rows<double> points_;
  std::vector<double> squared_, nearest_, scaled_points_, scaled_tile_;
  std::vector<std::int32_t> in_order_;
};

// Calls body(first row, number of rows, tile) for one tile of rows after another.
template <class Number, class Body>
void for_each_tile(Rows<Number> X, Body body) {
  std::vector<double> tile(X.d * kTile);
  std::int32_t rows[kTile];
  for (std::ptrdiff_t row = 0; row < X.count; row += kTile) {
    const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, X.count - row);
    std::iota(rows, rows + count, 0);
    fill_tile(Rows<Number>{X.data + row * X.d, count, X.d}, rows, count, nullptr, tile.data());
    body(row, count, tile.data());
  }
}

}  // namespace

template <class Number>
void vote(const std::vector<Machine>& machines, Rows<double> points, Rows<Number> X, std::size_t memory,
          const Ballot& ballot) {
  std::ptrdiff_t uses = 0;
  bool scaled = false;
  for (const Machine& machine : machines) {
    uses += machine.n_support;
    scaled = scaled || machine.scale;
  }
  // Distances are shared if points serve several machines and there is room for them and for a kernel; machines with a
  // scaling of their own share none. What comes out is the same to the bit.
  const bool fits = static_cast<std::size_t>(points.count) * 2 * kTile * sizeof(double) <= memory;
  if (!scaled && fits && 2 * uses > 3 * points.count) {
    SharedVote ask(machines, points.count);
    std::vector<double> squared(points.count * kTile), nearest(points.count);
    std::vector<std::int32_t> in_order(points.count);
    std::iota(in_order.begin(), in_order.end(), 0);
    for_each_tile(X, [&](std::ptrdiff_t row, std::ptrdiff_t count, const double* tile) {
      routines().squared_distances(points.data, in_order.data(), points.count, X.d, tile, squared.data(),
                                   nearest.data());
      ask(squared.data(), nearest.data(), row, count, ballot);
    });
    return;
  }
  OwnTile own(points);
  std::vector<double> values, own_kernel;
  std::uint16_t votes[kTile];
  for_each_tile(X, [&](std::ptrdiff_t row, std::ptrdiff_t count, const double* tile) {
    for (std::size_t h = 0; h < machines.size(); ++h) {
      values.resize(std::max<std::size_t>(values.size(), pairs_of(machines[h].n_classes) * kTile));
      decide_tile(machines[h], own(machines[h], tile), own_kernel, values.data());
      elect(machines[h], values.data(), count, votes);
      ballot(h, row, count, votes);
    }
  });
}

void vote_by_distances(const std::vector<Machine>& machines, const double* squared, std::ptrdiff_t points,
                       std::ptrdiff_t rows, const Ballot& ballot) {
  SharedVote ask(machines, points);
  std::vector<double> tile(points * kTile), nearest(points);
  for (std::ptrdiff_t row = 0; row < rows; row += kTile) {
    const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, rows - row);
    for (std::ptrdiff_t p = 0; p < points; ++p) {
      const double* from = squared + p * rows + row;
      double* to = tile.data() + p * kTile;
      for (int i = 0; i < kTile; ++i) to[i] = from[std::min<std::ptrdiff_t>(i, count - 1)];
      nearest[p] = *std::min_element(to, to + kTile);
    }
    ask(tile.data(), nearest.data(), row, count, ballot);
  }
}

template <class Number>
void nearest_of_another_class(Rows<Number> X, const std::int32_t* codes, double* squared_distances) {
  constexpr std::ptrdiff_t kPanel = 4096;  // points at a time, so that their distances to a tile fit the cache
  const std::ptrdiff_t panel = std::min(kPanel, X.count);
  std::vector<double> points(panel * X.d), squared(panel * kTile), nearest(panel);
  std::vector<std::int32_t> in_order(panel);
  std::iota(in_order.begin(), in_order.end(), 0);
  std::fill_n(squared_distances, X.count, std::numeric_limits<double>::infinity());
  for (std::ptrdiff_t first = 0; first < X.count; first += panel) {
    const std::ptrdiff_t size = std::min(panel, X.count - first);
    std::copy_n(X.data + first * X.d, size * X.d, points.data());
    for_each_tile(X, [&](std::ptrdiff_t row, std::ptrdiff_t count, const double* tile) {
      routines().squared_distances(points.data(), in_order.data(), size, X.d, tile, squared.data(), nearest.data());
      for (std::ptrdiff_t p = 0; p < size; ++p)
        for (std::ptrdiff_t i = 0; i < count; ++i) {
          double& closest = squared_distances[row + i];
          const double distance = squared[p * kTile + i];
          closest = codes[first + p] != codes[row + i] && distance < closest ? distance : closest;
        }
    });
  }
}

template <class Number>
void decide(const Machine& machine, Rows<double> points, Rows<Number> X, double* values) {
  const std::ptrdiff_t pairs = pairs_of(machine.n_classes);
  OwnTile own(points);
  std::vector<double> tile_values(pairs * kTile), own_kernel;
  for_each_tile(X, [&](std::ptrdiff_t row, std::ptrdiff_t count, const double* tile) {
    decide_tile(machine, own(machine, tile), own_kernel, tile_values.data());
    for (std::ptrdiff_t pair = 0; pair < pairs; ++pair)
      std::copy_n(tile_values.data() + pair * kTile, count, values + pair * X.count + row);
  });
}

template SquaredDistances distances_between(Rows<float>, const std::int32_t*, std::ptrdiff_t, const double*);
template SquaredDistances distances_between(Rows<double>, const std::int32_t*, std::ptrdiff_t, const double*);
template void vote(const std::vector<Machine>&, Rows<double>, Rows<float>, std::size_t, const Ballot&);
template void vote(const std::vector<Machine>&, Rows<double>, Rows<double>, std::size_t, const Ballot&);
template void nearest_of_another_class(Rows<float>, const std::int32_t*, double*);
template void nearest_of_another_class(Rows<double>, const std::int32_t*, double*);
template void decide(const Machine&, Rows<double>, Rows<float>, double*);
template void decide(const Machine&, Rows<double>, Rows<double>, double*);

}  // namespace pacbayes
