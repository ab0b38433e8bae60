// Squared distances between the points of a subsample, which training starts from.

#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "rows.h"

namespace pacbayes {

inline std::ptrdiff_t round_up(std::ptrdiff_t size, std::ptrdiff_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Memory that training uses again for one machine after another.
struct TrainingSpace {
  template <class Number>
  struct Distances {
    std::vector<Number> squared, nearest;
  };
  Distances<double> doubles;
  Distances<float> singles;
  std::vector<float> kernel;

  template <class Number>
  Distances<Number>& distances() {
    if constexpr (std::is_same_v<Number, double>)
      return doubles;
    else
      return singles;
  }

  // Make room for `size` numbers, whatever they are.
  template <class Number>
  static void grow(std::vector<Number>& numbers, std::ptrdiff_t size) {
    if (static_cast<std::ptrdiff_t>(numbers.size()) < size) numbers.resize(size);
  }

  // Do not keep the memory of large subsamples, which take long enough to allocate it anew.
  void release_if_large() {
    constexpr std::size_t kLarge = std::size_t{1} << 24;
    if (doubles.squared.size() * sizeof(double) + singles.squared.size() * sizeof(float) > kLarge) *this = {};
  }
};

// Squared distances between all points of a subsample, in tiles: those of point p to the points of tile t begin at
// (t * size + p) * kTile. They are symmetric, to the bit: only those of points up to the end of the tile are used.
template <class Number>
struct SquaredDistances {
  const std::vector<Number>& tiles;
  const std::vector<Number>& nearest;
  std::ptrdiff_t size;

  std::ptrdiff_t n_tiles() const { return round_up(size, kTile) / kTile; }
  // Points whose distances to tile t are used.
  std::ptrdiff_t used(std::ptrdiff_t t) const { return std::min<std::ptrdiff_t>(size, (t + 1) * kTile); }
  // Points in tile t.
  std::ptrdiff_t width(std::ptrdiff_t t) const { return std::min<std::ptrdiff_t>(kTile, size - t * kTile); }
  const Number* row(std::ptrdiff_t t, std::ptrdiff_t p) const { return tiles.data() + (t * size + p) * kTile; }
};

template <class Number, class Rows>
SquaredDistances<Number> pairwise_distances(Rows rows, TrainingSpace& space) {
  const std::ptrdiff_t size = rows.count, n_tiles = round_up(size, kTile) / kTile;
  TrainingSpace::Distances<Number>& to = space.distances<Number>();
  space.grow(to.squared, n_tiles * size * kTile);
  space.grow(to.nearest, n_tiles * size);
  const SquaredDistances<Number> squared{to.squared, to.nearest, size};
  typename Layout<Rows>::template PointsIn<Number> points;
  typename Layout<Rows>::template TileIn<Number> tile;
  points.assign(rows);
  for (std::ptrdiff_t t = 0; t < n_tiles; ++t) {
    tile.load(rows, t * kTile, squared.width(t));
    points.limit(squared.used(t));
    tile.distances(points, to.squared.data() + t * size * kTile, to.nearest.data() + t * size);
  }
  return squared;
}

}  // namespace pacbayes
