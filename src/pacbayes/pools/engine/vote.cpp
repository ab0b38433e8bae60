#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "filter.h"
#include "svm.h"

namespace pacbayes {

namespace {

std::ptrdiff_t count_pairs(std::ptrdiff_t n_classes) { return n_classes * (n_classes - 1) / 2; }

// Squared distances of points to the rows of a tile, kTile per point, and which of the points are a machine's support
// vectors.
struct DistancesToTile {
  const double* squared;
  const double* nearest;
  const double* kernel;  // exp(-gamma * squared), or null if it has not been computed
  const std::int32_t* support;
};

// Compute the decision values of all pairs of classes at the rows of a tile: values[pair * kTile + row].
void decide_tile(const Machine& machine, DistancesToTile tile, std::vector<double>& own_kernel, double* values) {
  const Routines& run = routines();
  const int k = machine.n_classes;
  const std::ptrdiff_t n = machine.n_support;
  for (std::ptrdiff_t pair = 0; pair < count_pairs(k); ++pair)
    std::fill_n(values + pair * kTile, kTile, machine.intercepts[pair]);
  if (k == 2) {  // One sum over all support vectors.
    if (tile.kernel)
      run.accumulate(tile.kernel, tile.support, machine.coefficients, n, values);
    else
      run.accumulate_exponentials(tile.squared, tile.nearest, tile.support, machine.coefficients, n, machine.gamma,
                                  values);
    return;
  }
  std::vector<std::int32_t> in_order;
  if (!tile.kernel) {  // Each kernel value is used by k - 1 pairs of classes.
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
      run.accumulate(tile.kernel, tile.support + starts[a], machine.coefficients + (b - 1) * n + starts[a],
                     machine.counts[a], values);
      run.accumulate(tile.kernel, tile.support + starts[b], machine.coefficients + a * n + starts[b],
                     machine.counts[b], values);
    }
  }
}

// Turns decision values at the rows of a tile into votes.
class Majority {
 public:
  Majority(const std::vector<Machine>& machines, std::ptrdiff_t d) {
    for (const Machine& machine : machines) margins_.push_back(decision_margins(machine, d));
  }

  Votes operator()(const Machine& machine, std::size_t h, const double* values, std::ptrdiff_t row,
                   std::ptrdiff_t count) {
    const int k = machine.n_classes;
    const double* margin = margins_[h].data();
    if (k != 2) {
      tallies_.assign(static_cast<std::size_t>(k) * kTile, {});
      for (int a = 0; a < k; ++a)
        for (int b = a + 1; b < k; ++b, ++margin, values += kTile)
          for (std::ptrdiff_t i = 0; i < count; ++i)
            count_pair(values[i], *margin, tallies_[a * kTile + i], tallies_[b * kTile + i]);
    }
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const Vote vote = k == 2 ? elect(values[i], *margin) : elect(k, tallies_.data() + i, kTile);
      codes_[i] = static_cast<std::uint16_t>(machine.classes[vote.winner]);
      certain_[i] = vote.certain;
    }
    return {row, count, codes_, certain_};
  }

 private:
  std::vector<std::vector<double>> margins_;
  std::vector<Tally> tallies_;
  std::uint16_t codes_[kTile];
  std::uint8_t certain_[kTile];
};

// Machines with the same gamma.
struct GammaGroup {
  double gamma;
  std::vector<std::size_t> machines;
  bool shares_kernel;  // the kernel values of all points are computed once, for all machines
};

std::vector<GammaGroup> group_by_gamma(const std::vector<Machine>& machines, std::ptrdiff_t n_points) {
  std::vector<GammaGroup> groups;
  std::unordered_map<double, std::size_t> index;
  for (std::size_t h = 0; h < machines.size(); ++h) {
    const auto [at, is_new] = index.try_emplace(machines[h].gamma, groups.size());
    if (is_new) groups.push_back({machines[h].gamma, {}, false});
    groups[at->second].machines.push_back(h);
  }
  for (GammaGroup& group : groups) {
    std::ptrdiff_t uses = 0;
    for (const std::size_t h : group.machines) uses += machines[h].n_support;
    group.shares_kernel = uses > n_points;
  }
  return groups;
}

std::vector<double> allocate_values(const std::vector<Machine>& machines) {
  std::ptrdiff_t most = 1;
  for (const Machine& machine : machines) most = std::max(most, count_pairs(machine.n_classes));
  return std::vector<double>(most * kTile);
}

// Write the votes that the filter knows at a tile, all of them certain, and append those of its first `count` rows that
// it does not know to `unknown`.
void write_known(const Machine& machine, const FilterValues& found, std::ptrdiff_t row, std::ptrdiff_t count,
                 std::uint16_t* codes, std::uint8_t* certain, std::vector<std::ptrdiff_t>& unknown) {
  const auto positive = static_cast<std::uint16_t>(machine.classes[0]);
  const auto negative = static_cast<std::uint16_t>(machine.classes[1]);
  if (routines().filter_votes(found.values, found.errors, positive, negative, codes, certain)) return;
  for (std::ptrdiff_t i = 0; i < count; ++i)
    if (!certain[i]) unknown.push_back(row + i);
}

// Whether to leave a machine to the exact engine from now on: the filter decided too little.
bool is_hopeless(std::size_t unknown, std::ptrdiff_t seen) { return 2 * static_cast<std::ptrdiff_t>(unknown) > seen; }

// Finds the votes of machines at a tile from distances that they share: by the filter where it knows them, and by the
// exact engine at the few rows where it does not.
class SharedFilters {
 public:
  SharedFilters(const std::vector<Machine>& machines, const std::vector<GammaGroup>& groups, std::ptrdiff_t d)
      : filters_(machines.size()), usable_(machines.size(), 0), failures_(machines.size(), 0) {
    for (const GammaGroup& group : groups)
      for (const std::size_t h : group.machines)
        usable_[h] = !group.shares_kernel && filters_[h].select(machines[h], d);
  }

  // Distances of all points to the rows of the next tile; they must outlive their use.
  void load(const std::vector<double>& squared, const std::vector<double>& nearest) {
    squared_ = squared.data();
    nearest_ = nearest.data();
    rounded_.resize(squared.size());
    routines().round_to_single(squared.data(), static_cast<std::ptrdiff_t>(squared.size()), rounded_.data());
    ++tiles_;
  }

  // Return whether the votes of machine h at the first `count` rows were written; if not, too few are known.
  bool vote(const Machine& machine, std::size_t h, std::ptrdiff_t count, Majority& majority, std::uint16_t* codes,
            std::uint8_t* certain) {
    if (!usable_[h]) return false;
    filters_[h].decide(machine, rounded_.data(), nearest_, found_);
    unknown_.clear();
    write_known(machine, found_, 0, count, codes, certain, unknown_);
    if (unknown_.empty()) return true;
    constexpr std::size_t kFew = kTile / 4;
    if (unknown_.size() > kFew) {
      if (is_hopeless(++failures_[h], tiles_)) usable_[h] = 0;
      return false;
    }
    std::int32_t columns[kFew];
    double values[kFew];
    std::copy(unknown_.begin(), unknown_.end(), columns);
    std::fill_n(values, unknown_.size(), machine.intercepts[0]);
    routines().accumulate_exponentials_at(squared_, machine.support, machine.coefficients, machine.n_support,
                                          machine.gamma, columns, static_cast<int>(unknown_.size()), values);
    const Votes votes = majority(machine, h, values, 0, static_cast<std::ptrdiff_t>(unknown_.size()));
    for (std::size_t i = 0; i < unknown_.size(); ++i) {
      codes[columns[i]] = votes.codes[i];
      certain[columns[i]] = votes.certain[i];
    }
    return true;
  }

 private:
  std::vector<Filter> filters_;
  std::vector<std::uint8_t> usable_;
  std::vector<std::size_t> failures_;  // tiles at which too few votes were known
  const double* squared_ = nullptr;
  const double* nearest_ = nullptr;
  std::vector<float> rounded_;
  std::vector<std::ptrdiff_t> unknown_;
  std::ptrdiff_t tiles_ = 1;  // in favour of the filter
  FilterValues found_;
};

// Distances of all points to a tile, computed once for all machines.
template <class Rows>
class SharedDistances {
 public:
  template <class Points>
  SharedDistances(const std::vector<Machine>& machines, const Points& points)
      : groups_(group_by_gamma(machines, points.count())), squared_(points.count() * kTile), nearest_(points.count()) {
    if (std::any_of(groups_.begin(), groups_.end(), [](const GammaGroup& group) { return group.shares_kernel; }))
      kernel_.resize(points.count() * kTile);
  }

  template <class Points>
  void load(const Points& points, Rows X, std::ptrdiff_t row, std::ptrdiff_t count) {
    tile_.load(X, row, count);
    tile_.distances(points, squared_.data(), nearest_.data());
  }

  // Compute kernel values once for a group, if its machines share them.
  void select(const GammaGroup& group) {
    if (group.shares_kernel)
      routines().exponentials(squared_.data(), nearest_.data(), static_cast<std::ptrdiff_t>(nearest_.size()),
                              group.gamma, kernel_.data());
  }

  // Decision values of a machine of the group that was selected.
  void decide(const Machine& machine, const GammaGroup& group, double* values) {
    const double* kernel = group.shares_kernel ? kernel_.data() : nullptr;
    decide_tile(machine, {squared_.data(), nearest_.data(), kernel, machine.support}, own_kernel_, values);
  }

  const std::vector<GammaGroup>& groups() const { return groups_; }
  const std::vector<double>& squared() const { return squared_; }
  const std::vector<double>& nearest() const { return nearest_; }

 private:
  std::vector<GammaGroup> groups_;
  typename Layout<Rows>::Tile tile_;
  std::vector<double> squared_, nearest_, kernel_, own_kernel_;
};

template <class Points, class Rows>
void vote_shared(const std::vector<Machine>& machines, const Points& points, Rows X, const VoteSink& sink) {
  SharedDistances<Rows> shared(machines, points);
  std::vector<double> values = allocate_values(machines);
  Majority majority(machines, X.d);
  SharedFilters filters(machines, shared.groups(), X.d);
  std::uint16_t codes[kTile];
  std::uint8_t certain[kTile];
  for (std::ptrdiff_t row = 0; row < X.count; row += kTile) {
    const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, X.count - row);
    shared.load(points, X, row, count);
    filters.load(shared.squared(), shared.nearest());
    for (const GammaGroup& group : shared.groups()) {
      shared.select(group);
      for (const std::size_t h : group.machines) {
        if (filters.vote(machines[h], h, count, majority, codes, certain)) {
          sink(h, {row, count, codes, certain});
          continue;
        }
        shared.decide(machines[h], group, values.data());
        sink(h, majority(machines[h], h, values.data(), row, count));
      }
    }
  }
}

// Computes decision values from the distances of one machine's own support vectors, in its own scaling.
template <class Rows>
class OwnDistances {
 public:
  using Tile = typename Layout<Rows>::Tile;

  // The machine must outlive its use.
  template <class Points>
  void select(const Machine& machine, Points points) {
    machine_ = &machine;
    support_.gather(points, machine.support, machine.n_support, machine.scale);
    points_.assign(support_.rows());
    squared_.resize(machine.n_support * kTile);
    nearest_.resize(machine.n_support);
    while (static_cast<std::ptrdiff_t>(in_order_.size()) < machine.n_support)
      in_order_.push_back(static_cast<std::int32_t>(in_order_.size()));
  }

  void decide(Tile& tile, double* values) {
    Tile* used = &tile;
    if (machine_->scale) {
      scaled_.load_scaled(tile, machine_->scale);
      used = &scaled_;
    }
    used->distances(points_, squared_.data(), nearest_.data());
    decide_tile(*machine_, {squared_.data(), nearest_.data(), nullptr, in_order_.data()}, kernel_, values);
  }

 private:
  const Machine* machine_ = nullptr;
  typename Layout<Rows>::Matrix support_;
  typename Layout<Rows>::Points points_;
  Tile scaled_;
  std::vector<double> squared_, nearest_, kernel_;
  std::vector<std::int32_t> in_order_;
};

// Tiles that stay in the cache while one machine after another is evaluated, which spares gathering and scaling its
// support vectors anew for each of them.
constexpr std::size_t kTileBytes = std::size_t{1} << 19;
constexpr std::size_t kMaxTiles = 32;

template <class Rows>
std::size_t tiles_in_cache(Rows X) {
  return std::clamp<std::size_t>(kTileBytes / (Layout<Rows>::Tile::bytes(X) + 1), 1, kMaxTiles);
}

// Finds the votes of one machine after another at a run of rows by the filter, and asks the exact engine where that does
// not know. Sparse rows have no filter.
template <class Rows>
class OwnFilter {
 public:
  template <class Points>
  OwnFilter(Points, std::size_t) {}
  template <class Tile>
  void load(std::size_t, const Tile&) {}
  template <class... Arguments>
  bool vote(const Arguments&...) {
    return false;
  }
};

template <class Number>
class OwnFilter<DenseRows<Number>> {
 public:
  OwnFilter(DenseRows<double> points, std::size_t n_tiles)
      : points_(points), centre_(filter_centre(points)), tiles_(n_tiles), largest_(points.d) {}

  void load(std::size_t t, const DenseTile& tile) {
    tiles_[t].load(tile, centre_);
    if (t == 0) std::fill(largest_.begin(), largest_.end(), 0.0);
    for (std::size_t k = 0; k < largest_.size(); ++k) largest_[k] = std::max(largest_[k], tiles_[t].largest()[k]);
  }

  // Return false if the filter cannot take the machine.
  bool vote(const Machine& machine, std::size_t h, DenseRows<Number> X, const std::vector<DenseTile>& rows,
            std::ptrdiff_t first, std::ptrdiff_t end, OwnDistances<DenseRows<Number>>& own, Majority& majority, std::vector<double>& values,
            const VoteSink& sink) {
    if (!filter_.select(machine, points_, centre_, largest_)) return false;
    const std::ptrdiff_t whole_tiles = (end - first + kTile - 1) / kTile * kTile;
    codes_.resize(whole_tiles);
    certain_.resize(whole_tiles);
    unknown_.clear();
    std::ptrdiff_t row = first;
    for (; row < end && !is_hopeless(unknown_.size(), row - first + kTile); row += kTile) {
      const std::ptrdiff_t t = (row - first) / kTile;
      if (machine.scale.n_fill > 0) filled_.load(rows[t], centre_, machine.scale);
      filter_.decide(machine.scale.n_fill > 0 ? filled_ : tiles_[t], found_);
      write_known(machine, found_, row, std::min<std::ptrdiff_t>(kTile, end - row), codes_.data() + (row - first),
                  certain_.data() + (row - first), unknown_);
    }
    for (; row < end; ++row) unknown_.push_back(row);
    if (!unknown_.empty()) own.select(machine, points_);
    for (std::size_t at = 0; at < unknown_.size(); at += kTile) {
      const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(kTile, unknown_.size() - at));
      exact_.gather(X, unknown_.data() + at, count);
      own.decide(exact_, values.data());
      const Votes votes = majority(machine, h, values.data(), 0, count);
      for (std::ptrdiff_t i = 0; i < count; ++i) {
        codes_[unknown_[at + i] - first] = votes.codes[i];
        certain_[unknown_[at + i] - first] = votes.certain[i];
      }
    }
    for (row = first; row < end; row += kTile)
      sink(h, {row, std::min<std::ptrdiff_t>(kTile, end - row), codes_.data() + (row - first),
               certain_.data() + (row - first)});
    return true;
  }

 private:
  DenseRows<double> points_;
  std::vector<double> centre_;
  std::vector<FilterTile> tiles_;
  FilterTile filled_;
  std::vector<double> largest_;
  Filter filter_;
  FilterValues found_;
  DenseTile exact_;
  std::vector<std::uint16_t> codes_;
  std::vector<std::uint8_t> certain_;
  std::vector<std::ptrdiff_t> unknown_;
};

template <class Points, class Rows>
void vote_alone(const std::vector<Machine>& machines, Points points, Rows X, const VoteSink& sink) {
  using Tile = typename Layout<Rows>::Tile;
  std::vector<Tile> tiles(tiles_in_cache(X));
  OwnFilter<Rows> filter(points, tiles.size());
  OwnDistances<Rows> own;
  std::vector<double> values = allocate_values(machines);
  Majority majority(machines, X.d);
  const auto step = static_cast<std::ptrdiff_t>(tiles.size()) * kTile;
  for (std::ptrdiff_t first = 0; first < X.count; first += step) {
    const std::ptrdiff_t end = std::min(first + step, X.count);
    for (std::ptrdiff_t row = first; row < end; row += kTile) {
      const std::ptrdiff_t t = (row - first) / kTile;
      tiles[t].load(X, row, std::min<std::ptrdiff_t>(kTile, end - row));
      filter.load(t, tiles[t]);
    }
    for (std::size_t h = 0; h < machines.size(); ++h) {
      if (filter.vote(machines[h], h, X, tiles, first, end, own, majority, values, sink)) continue;
      own.select(machines[h], points);
      for (std::ptrdiff_t row = first; row < end; row += kTile) {
        const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, end - row);
        own.decide(tiles[(row - first) / kTile], values.data());
        sink(h, majority(machines[h], h, values.data(), row, count));
      }
    }
  }
}

// Whether to share distances: if points are used by several machines, and there is memory for the distances, for a kernel
// and for all points, which are then assigned. Machines with scalings of their own have no distances in common. Values
// are the same either way, to the bit.
template <class Rows, class Points>
bool share_distances(const std::vector<Machine>& machines, Rows points, std::size_t memory, Points& all) {
  std::ptrdiff_t uses = 0;
  for (const Machine& machine : machines) {
    if (machine.scale) return false;
    uses += machine.n_support;
  }
  const std::size_t bytes = static_cast<std::size_t>(points.count) * 2 * kTile * sizeof(double);
  if (bytes > memory || 2 * uses <= 3 * points.count) return false;
  all.assign(points);
  return bytes + all.bytes() <= memory;
}

}  // namespace

std::vector<double> decision_margins(const Machine& machine, std::ptrdiff_t d) {
  std::vector<double> margins;
  for (int a = 0; a < machine.n_classes; ++a)
    for (int b = a + 1; b < machine.n_classes; ++b)
      margins.push_back(pair_margin(machine, d, a, b, static_cast<int>(margins.size())));
  return margins;
}

template <class Points, class Rows>
void vote(const std::vector<Machine>& machines, Points points, Rows X, std::size_t memory, const VoteSink& sink) {
  typename Layout<Points>::Points all;
  if (share_distances(machines, points, memory, all)) return vote_shared(machines, all, X, sink);
  vote_alone(machines, points, X, sink);
}

template <class Points, class Rows>
void decide(const std::vector<Machine>& machines, Points points, Rows X, std::size_t memory, const ValueSink& sink) {
  std::vector<double> values = allocate_values(machines);
  typename Layout<Points>::Points all;
  if (share_distances(machines, points, memory, all)) {
    SharedDistances<Rows> shared(machines, all);
    for (std::ptrdiff_t row = 0; row < X.count; row += kTile) {
      const std::ptrdiff_t count = std::min<std::ptrdiff_t>(kTile, X.count - row);
      shared.load(all, X, row, count);
      for (const GammaGroup& group : shared.groups()) {
        shared.select(group);
        for (const std::size_t h : group.machines) {
          shared.decide(machines[h], group, values.data());
          sink(h, row, count, values.data());
        }
      }
    }
    return;
  }
  std::vector<typename Layout<Rows>::Tile> tiles(tiles_in_cache(X));
  OwnDistances<Rows> own;
  const auto step = static_cast<std::ptrdiff_t>(tiles.size()) * kTile;
  for (std::ptrdiff_t first = 0; first < X.count; first += step) {
    const std::ptrdiff_t end = std::min(first + step, X.count);
    for (std::ptrdiff_t row = first; row < end; row += kTile)
      tiles[(row - first) / kTile].load(X, row, std::min<std::ptrdiff_t>(kTile, end - row));
    for (std::size_t h = 0; h < machines.size(); ++h) {
      own.select(machines[h], points);
      for (std::ptrdiff_t row = first; row < end; row += kTile) {
        own.decide(tiles[(row - first) / kTile], values.data());
        sink(h, row, std::min<std::ptrdiff_t>(kTile, end - row), values.data());
      }
    }
  }
}

template void vote(const std::vector<Machine>&, DenseRows<double>, DenseRows<float>, std::size_t, const VoteSink&);
template void vote(const std::vector<Machine>&, DenseRows<double>, DenseRows<double>, std::size_t, const VoteSink&);
template void vote(const std::vector<Machine>&, SparseRows, SparseRows, std::size_t, const VoteSink&);
template void decide(const std::vector<Machine>&, DenseRows<double>, DenseRows<float>, std::size_t, const ValueSink&);
template void decide(const std::vector<Machine>&, DenseRows<double>, DenseRows<double>, std::size_t, const ValueSink&);
template void decide(const std::vector<Machine>&, SparseRows, SparseRows, std::size_t, const ValueSink&);

}  // namespace pacbayes
