// Squared distances, kernel values and weighted sums over a tile of rows. Compiled once per instruction set.
//
// Squared distances are sums of squared differences: |x|^2 - 2 x.s + |s|^2 would cancel where points are close. Each
// sum runs over the features in ascending order, by `add_square` alone, so a distance has the same bits in any tile,
// block or batch. A feature that is zero in both points adds fma(0, 0, sum) = sum: sparse rows may leave it out and
// still have the same bits as dense ones.

#include "pack.h"
#include "routines.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

// Packs of rows that are processed together. With kBlock points this makes enough independent sums to hide the latency
// of the additions, in half of the registers.
constexpr int kDensePacks = kLanes == 8 ? 4 : 2;

constexpr int kSparsePacks = kGroup / kLanes;

inline void add_square(Pack& sum, Pack difference) { sum = multiply_add(difference, difference, sum); }

// Categories that differ have one-hot columns that differ in two places.
inline void add_unless_equal(Pack& sum, Pack a, Pack b) { sum += select(a == b, broadcast(0.0), broadcast(2.0)); }

// A squared distance that overflows, or is infinity minus infinity, counts as the largest number: gamma * squared is
// never NaN, and no row has an effect on the others of its tile.
constexpr double kMaxSquared = std::numeric_limits<double>::max();
inline Pack limit(Pack squared) { return select(broadcast(kMaxSquared) > squared, squared, broadcast(kMaxSquared)); }

// Each load from the tile serves kPoints points, and the sums stay in registers.
template <int kPoints>
inline void distances_to_tile(const double* points, std::ptrdiff_t d, std::ptrdiff_t n_categories, const double* tile,
                              double* squared, double* nearest) {
  Pack closest[kPoints];
  for (int row = 0; row < kTile; row += kDensePacks * kLanes) {
    Pack sums[kPoints][kDensePacks];
    for (auto& of_point : sums)
      for (Pack& sum : of_point) sum = broadcast(0.0);
    for (std::ptrdiff_t k = 0; k < d - n_categories; ++k) {
      for (int p = 0; p < kPoints; ++p) {
        const Pack feature = broadcast(points[p * d + k]);
        for (int j = 0; j < kDensePacks; ++j)
          add_square(sums[p][j], feature - load(tile + k * kTile + row + j * kLanes));
      }
    }
    for (std::ptrdiff_t k = d - n_categories; k < d; ++k) {
      for (int p = 0; p < kPoints; ++p) {
        const Pack category = broadcast(points[p * d + k]);
        for (int j = 0; j < kDensePacks; ++j)
          add_unless_equal(sums[p][j], category, load(tile + k * kTile + row + j * kLanes));
      }
    }
    for (int p = 0; p < kPoints; ++p) {
      for (int j = 0; j < kDensePacks; ++j) {
        const Pack sum = limit(sums[p][j]);
        store(squared + p * kTile + row + j * kLanes, sum);
        closest[p] = row + j == 0 ? sum : minimum(closest[p], sum);
      }
    }
  }
  for (int p = 0; p < kPoints; ++p) nearest[p] = reduce_min(closest[p]);
}

void dense_distances(const double* points, std::ptrdiff_t count, std::ptrdiff_t d, std::ptrdiff_t n_categories,
                     const double* tile, double* squared, double* nearest) {
  std::ptrdiff_t p = 0;
  for (; p + kBlock <= count; p += kBlock)
    distances_to_tile<kBlock>(points + p * d, d, n_categories, tile, squared + p * kTile, nearest + p);
  points += p * d, squared += p * kTile, nearest += p;
  static_assert(kBlock == 4, "the rest is 1, 2 or 3 points");
  switch (count - p) {
    case 1: return distances_to_tile<1>(points, d, n_categories, tile, squared, nearest);
    case 2: return distances_to_tile<2>(points, d, n_categories, tile, squared, nearest);
    case 3: return distances_to_tile<3>(points, d, n_categories, tile, squared, nearest);
  }
}

void scale_tile(const double* tile, const double* factors, std::ptrdiff_t d, const double* fill, std::ptrdiff_t n_fill,
                double* scaled) {
  for (std::ptrdiff_t k = 0; k < n_fill; ++k) {
    const Pack factor = broadcast(factors[k]), instead = broadcast(fill[k]);
    for (int i = 0; i < kTile; i += kLanes) {
      const Pack feature = load(tile + k * kTile + i);
      store(scaled + k * kTile + i, select(feature == feature, feature, instead) * factor);
    }
  }
  for (std::ptrdiff_t k = n_fill; k < d; ++k) {
    const Pack factor = broadcast(factors[k]);
    for (int i = 0; i < kTile; i += kLanes) store(scaled + k * kTile + i, load(tile + k * kTile + i) * factor);
  }
}

// Merges the sorted columns of the block and of the slice.
void accumulate_sparse_distances(SparseBlock block, SparseSlice slice, std::int64_t& position, double* squared) {
  // Loops over the points have a constant length, so that they are unrolled and the sums stay in registers.
  Pack sums[kBlock][kSparsePacks];
  for (int p = 0; p < kBlock; ++p)
    for (int j = 0; j < kSparsePacks; ++j)
      sums[p][j] = p < block.count ? load(squared + p * kTile + j * kLanes) : broadcast(0.0);
  const std::int32_t* columns = slice.columns;
  const double* rows = slice.values;
  std::int64_t b = position;
  for (;; ++b) {
    const std::int32_t column = block.columns[b];
    // Columns that are zero in all points of the block.
    const std::int32_t stop = column < slice.end ? column : slice.end;
    for (; *columns < stop; ++columns, rows += kGroup)
      for (int j = 0; j < kSparsePacks; ++j) {
        const Pack feature = load(rows + j * kLanes);
        for (int p = 0; p < kBlock; ++p) add_square(sums[p][j], feature);
      }
    if (column >= slice.end) break;
    // A column of the block: that of the slice or, if the slice does not have it, the zeros after its end.
    const bool common = *columns == column;
    const double* features = common ? rows : slice.values + slice.size * kGroup;
    for (int p = 0; p < kBlock; ++p) {
      const Pack feature = broadcast(block.values[b * kBlock + p]);
      for (int j = 0; j < kSparsePacks; ++j) add_square(sums[p][j], feature - load(features + j * kLanes));
    }
    columns += common;
    rows += common ? kGroup : 0;
  }
  position = b;
  for (int p = 0; p < kBlock; ++p)
    for (int j = 0; j < kSparsePacks; ++j)
      if (p < block.count) store(squared + p * kTile + j * kLanes, sums[p][j]);
}

void finish_sparse_distances(std::ptrdiff_t count, std::ptrdiff_t rows, double* squared, double* nearest) {
  for (std::ptrdiff_t p = 0; p < count; ++p, squared += kTile) {
    for (std::ptrdiff_t row = rows; row < kTile; ++row) squared[row] = squared[rows - 1];
    Pack closest = broadcast(kMaxSquared);
    for (int row = 0; row < kTile; row += kLanes) {
      const Pack sum = limit(load(squared + row));
      store(squared + row, sum);
      closest = row == 0 ? sum : minimum(closest, sum);
    }
    nearest[p] = reduce_min(closest);
  }
}

// Whether all kernel values of a point on the tile underflow to zero. For large gamma most do.
inline bool all_underflow(double gamma, double nearest) { return gamma * nearest > -kMinExponent; }

void exponentials(const double* squared, const double* nearest, std::ptrdiff_t count, double gamma, double* kernel) {
  const Pack rate = broadcast(-gamma);
  for (std::ptrdiff_t p = 0; p < count; ++p) {
    const double* from = squared + p * kTile;
    double* to = kernel + p * kTile;
    if (all_underflow(gamma, nearest[p])) {
      std::memset(to, 0, kTile * sizeof(double));
      continue;
    }
    for (int i = 0; i < kTile; i += kLanes) store(to + i, exponential(rate * load(from + i)));
  }
}

void single_exponentials(const double* squared, const double* nearest, std::ptrdiff_t count, double gamma,
                         std::ptrdiff_t width, std::ptrdiff_t stride, float* kernel) {
  double values[kTile];
  for (std::ptrdiff_t p = 0; p < count; ++p, kernel += stride) {
    exponentials(squared + p * kTile, nearest + p, 1, gamma, values);
    for (std::ptrdiff_t i = 0; i < width; ++i) kernel[i] = static_cast<float>(values[i]);
  }
}

double nearest_others(const double* squared, std::int32_t point_class, const std::int32_t* classes,
                      std::ptrdiff_t width, double nearest, double* nearest_of_rows) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double distances[kTile];
  for (std::ptrdiff_t i = 0; i < width; ++i) distances[i] = classes[i] != point_class ? squared[i] : kInfinity;
  for (std::ptrdiff_t i = width; i < kTile; ++i) distances[i] = kInfinity;
  for (std::ptrdiff_t i = 0; i < width; ++i)
    nearest_of_rows[i] = distances[i] < nearest_of_rows[i] ? distances[i] : nearest_of_rows[i];
  Pack closest = broadcast(nearest);
  for (int i = 0; i < kTile; i += kLanes) closest = minimum(closest, load(distances + i));
  return reduce_min(closest);
}

// Packs of rows whose weighted sums are kept in registers.
constexpr int kSums = 4;

void accumulate(const double* kernel, const std::int32_t* rows, const double* weights, std::ptrdiff_t count,
                double* values) {
  for (int row = 0; row < kTile; row += kSums * kLanes) {
    Pack sums[kSums];
    for (int j = 0; j < kSums; ++j) sums[j] = load(values + row + j * kLanes);
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      const Pack weight = broadcast(weights[p]);
      const double* from = kernel + static_cast<std::ptrdiff_t>(rows[p]) * kTile + row;
      for (int j = 0; j < kSums; ++j) sums[j] = multiply_add(weight, load(from + j * kLanes), sums[j]);
    }
    for (int j = 0; j < kSums; ++j) store(values + row + j * kLanes, sums[j]);
  }
}

void accumulate_exponentials(const double* squared, const double* nearest, const std::int32_t* rows,
                             const double* weights, std::ptrdiff_t count, double gamma, double* values) {
  const Pack rate = broadcast(-gamma);
  for (int row = 0; row < kTile; row += kSums * kLanes) {
    Pack sums[kSums];
    for (int j = 0; j < kSums; ++j) sums[j] = load(values + row + j * kLanes);
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      if (all_underflow(gamma, nearest[rows[p]])) continue;
      const Pack weight = broadcast(weights[p]);
      const double* from = squared + static_cast<std::ptrdiff_t>(rows[p]) * kTile + row;
      for (int j = 0; j < kSums; ++j)
        sums[j] = multiply_add(weight, exponential(rate * load(from + j * kLanes)), sums[j]);
    }
    for (int j = 0; j < kSums; ++j) store(values + row + j * kLanes, sums[j]);
  }
}

void accumulate_exponentials_at(const double* squared, const std::int32_t* rows, const double* weights,
                                std::ptrdiff_t count, double gamma, const std::int32_t* columns, int n_columns,
                                double* values) {
  const Pack rate = broadcast(-gamma);
  for (int first = 0; first < n_columns; first += kLanes) {
    double numbers[kLanes];
    std::int32_t own[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const int column = first + i < n_columns ? first + i : n_columns - 1;
      own[i] = columns[column];
      numbers[i] = values[column];
    }
    Pack sums = load(numbers);
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      const double* from = squared + static_cast<std::ptrdiff_t>(rows[p]) * kTile;
      for (int i = 0; i < kLanes; ++i) numbers[i] = from[own[i]];
      sums = multiply_add(broadcast(weights[p]), exponential(rate * load(numbers)), sums);
    }
    store(numbers, sums);
    for (int i = 0; i < kLanes && first + i < n_columns; ++i) values[first + i] = numbers[i];
  }
}

}  // namespace

void minimize(const Problem& problem, Solution& solution);  // smo.cpp

// filter.cpp
void filter_support(const double* points, const std::int32_t* rows, std::ptrdiff_t count, std::ptrdiff_t d,
                    std::ptrdiff_t n_categories, const double* factors, const double* fill, std::ptrdiff_t n_fill,
                    const double* centre, double rate, float* vectors, double* offsets, double* largest,
                    double* scratch);
void filter_tile(const double* tile, const double* centre, std::ptrdiff_t d, std::ptrdiff_t n_categories,
                 const double* fill, std::ptrdiff_t n_fill, float* centred, float* squares, double* largest);
void filter_values(const FilterMachine& machine, const float* centred, const float* squares, float* values,
                   float* errors);
void filter_exponentials(const float* squared, const double* nearest, const std::int32_t* rows, const float* weights,
                         std::ptrdiff_t count, const FilterMachine& machine, float* values, float* errors);

#define PACBAYES_TEXT_OF(word) #word
#define PACBAYES_TEXT(word) PACBAYES_TEXT_OF(word)

extern const Routines kRoutines;
const Routines kRoutines = {
    PACBAYES_TEXT(PACBAYES_INSTRUCTIONS),
    kFused ? 1 : 2,
    dense_distances,
    scale_tile,
    accumulate_sparse_distances,
    finish_sparse_distances,
    exponentials,
    single_exponentials,
    nearest_others,
    accumulate,
    accumulate_exponentials,
    accumulate_exponentials_at,
    filter_support,
    filter_tile,
    filter_values,
    filter_exponentials,
    minimize,
};

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
