// Distances, kernels and weighted sums over a tile of rows. Compiled once per instruction set.

#include "pack.h"
#include "routines.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

// kPoints points at a time: what is loaded of the tile is used for all of them, and sums stay in registers. Differences
// are squared directly: |x|^2 - 2 x.s + |s|^2 would cancel where points are close. Each sum runs over the features in
// order, so a distance is the same to the bit in whatever block it is computed.
template <int kPoints>
inline void distances_of(const double* const* points, std::ptrdiff_t d, const double* tile, double* squared,
                         double* nearest) {
  constexpr int kPacks = 2;
  Pack closest[kPoints];
  for (int row = 0; row < kTile; row += kPacks * kLanes) {
    Pack sums[kPoints][kPacks];
    for (auto& of_point : sums)
      for (Pack& sum : of_point) sum = fill(0.0);
    for (std::ptrdiff_t k = 0; k < d; ++k) {
      for (int p = 0; p < kPoints; ++p) {
        const Pack feature = fill(points[p][k]);
        for (int j = 0; j < kPacks; ++j) {
          const Pack difference = feature - load(tile + k * kTile + row + j * kLanes);
          sums[p][j] += difference * difference;
        }
      }
    }
    for (int p = 0; p < kPoints; ++p) {
      for (int j = 0; j < kPacks; ++j) {
        store(squared + p * kTile + row + j * kLanes, sums[p][j]);
        closest[p] = row + j == 0 ? sums[p][j] : select(closest[p] > sums[p][j], sums[p][j], closest[p]);
      }
    }
  }
  for (int p = 0; p < kPoints; ++p) nearest[p] = least(closest[p]);
}

void squared_distances(const double* points, const std::int32_t* rows, std::ptrdiff_t count, std::ptrdiff_t d,
                       const double* tile, double* squared, double* nearest) {
  constexpr int kPoints = 4;
  std::ptrdiff_t p = 0;
  for (; p + kPoints <= count; p += kPoints) {
    const double* four[kPoints];
    for (int q = 0; q < kPoints; ++q) four[q] = points + rows[p + q] * d;
    distances_of<kPoints>(four, d, tile, squared + p * kTile, nearest + p);
  }
  for (; p < count; ++p) {
    const double* one = points + rows[p] * d;
    distances_of<1>(&one, d, tile, squared + p * kTile, nearest + p);
  }
}

// Whether all kernel values of a point on the tile vanish: wide of the mark, most do.
inline bool vanishes(double gamma, double nearest) { return gamma * nearest > -kSmallestExponent; }

void exponentials(const double* squared, const double* nearest, std::ptrdiff_t count, double gamma, double* kernel) {
  const Pack rate = fill(-gamma);
  for (std::ptrdiff_t p = 0; p < count; ++p) {
    const double* from = squared + p * kTile;
    double* to = kernel + p * kTile;
    if (vanishes(gamma, nearest[p])) {
      std::memset(to, 0, kTile * sizeof(double));
      continue;
    }
    for (int i = 0; i < kTile; i += kLanes) store(to + i, exponential(rate * load(from + i)));
  }
}

// Rows of the tile whose sums are kept in registers at a time.
constexpr int kSums = 4;

void weigh(const double* kernel, const std::int32_t* rows, const double* weights, std::ptrdiff_t count,
           double* values) {
  for (int row = 0; row < kTile; row += kSums * kLanes) {
    Pack sums[kSums];
    for (int j = 0; j < kSums; ++j) sums[j] = load(values + row + j * kLanes);
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      const Pack weight = fill(weights[p]);
      const double* from = kernel + static_cast<std::ptrdiff_t>(rows[p]) * kTile + row;
      for (int j = 0; j < kSums; ++j) sums[j] += weight * load(from + j * kLanes);
    }
    for (int j = 0; j < kSums; ++j) store(values + row + j * kLanes, sums[j]);
  }
}

void weigh_exponentials(const double* squared, const double* nearest, const std::int32_t* rows, const double* weights,
                        std::ptrdiff_t count, double gamma, double* values) {
  const Pack rate = fill(-gamma);
  for (int row = 0; row < kTile; row += kSums * kLanes) {
    Pack sums[kSums];
    for (int j = 0; j < kSums; ++j) sums[j] = load(values + row + j * kLanes);
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      if (vanishes(gamma, nearest[rows[p]])) continue;
      const Pack weight = fill(weights[p]);
      const double* from = squared + static_cast<std::ptrdiff_t>(rows[p]) * kTile + row;
      for (int j = 0; j < kSums; ++j) sums[j] += weight * exponential(rate * load(from + j * kLanes));
    }
    for (int j = 0; j < kSums; ++j) store(values + row + j * kLanes, sums[j]);
  }
}

}  // namespace

void minimize(const Problem& problem, Solution& solution);  // smo.cpp

#define PACBAYES_TEXT_OF(word) #word
#define PACBAYES_TEXT(word) PACBAYES_TEXT_OF(word)

extern const Routines kRoutines;
const Routines kRoutines = {
    PACBAYES_TEXT(PACBAYES_INSTRUCTIONS), squared_distances, exponentials, weigh, weigh_exponentials, minimize,
};

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
