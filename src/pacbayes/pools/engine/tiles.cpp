// Squared distances, kernel values and weighted sums over a tile of rows. Compiled once per instruction set.

#include "pack.h"
#include "routines.h"

#include "../arithmetic/kernel.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

template <class Number>
using Numbers = decltype(broadcast_number(Number{}));

// Numbers in a pack.
template <class Number>
constexpr int kCount = sizeof(Numbers<Number>) / sizeof(Number);

// Packs of rows that are processed together. With kBlock points this makes enough independent sums to hide the latency
// of the additions, in half of the registers.
constexpr int kDensePacks = kLanes == 8 ? 4 : 2;

template <class Number>
constexpr int kSparsePacks = kGroup / kCount<Number>;

// Categories that differ have one-hot columns that differ in two places.
template <class Number>
inline void add_unless_equal(Numbers<Number>& sum, Numbers<Number> a, Numbers<Number> b) {
  sum = sum + select(a == b, broadcast_number(Number{0}), broadcast_number(Number{2}));
}

// Each load from the tile serves kPoints points, and the sums stay in registers.
template <int kPoints, int kPacks, class Number>
inline void distances_to_strip(const Number* points, std::ptrdiff_t d, std::ptrdiff_t n_categories, const Number* strip,
                               Number* squared, Numbers<Number> (&closest)[kPoints]) {
  constexpr int kWidth = kCount<Number>;
  Numbers<Number> sums[kPoints][kPacks];
  for (auto& of_point : sums)
    for (auto& sum : of_point) sum = broadcast_number(Number{0});
  for (std::ptrdiff_t k = 0; k < d - n_categories; ++k) {
    for (int p = 0; p < kPoints; ++p) {
      const Numbers<Number> feature = broadcast_number(points[p * d + k]);
      for (int j = 0; j < kPacks; ++j)
        add_square(sums[p][j], feature - load_numbers(strip + k * kTile + j * kWidth));
    }
  }
  for (std::ptrdiff_t k = d - n_categories; k < d; ++k) {
    for (int p = 0; p < kPoints; ++p) {
      const Numbers<Number> category = broadcast_number(points[p * d + k]);
      for (int j = 0; j < kPacks; ++j)
        add_unless_equal<Number>(sums[p][j], category, load_numbers(strip + k * kTile + j * kWidth));
    }
  }
  for (int p = 0; p < kPoints; ++p) {
    for (int j = 0; j < kPacks; ++j) {
      const Numbers<Number> sum = limit(sums[p][j]);
      store(squared + p * kTile + j * kWidth, sum);
      closest[p] = minimum(closest[p], sum);
    }
  }
}

// Columns after the packs that hold rows repeat the last of these.
template <int kPoints, class Number>
inline void distances_to_tile(const Number* points, std::ptrdiff_t d, std::ptrdiff_t n_categories, const Number* tile,
                              std::ptrdiff_t rows, Number* squared, Number* nearest) {
  constexpr int kWidth = kCount<Number>, kStrip = kDensePacks * kWidth;
  static_assert(kTile % kStrip == 0 && kDensePacks <= 4);
  Numbers<Number> closest[kPoints];
  for (auto& of_point : closest) of_point = broadcast_number(std::numeric_limits<Number>::max());
  int row = 0;
  for (; row + kStrip - kWidth < rows; row += kStrip)
    distances_to_strip<kPoints, kDensePacks>(points, d, n_categories, tile + row, squared + row, closest);
  const auto left = (rows - row + kWidth - 1) / kWidth;  // packs, fewer than a strip has
  if (left == 1) distances_to_strip<kPoints, 1>(points, d, n_categories, tile + row, squared + row, closest);
  if (left == 2) distances_to_strip<kPoints, 2>(points, d, n_categories, tile + row, squared + row, closest);
  if (left == 3) distances_to_strip<kPoints, 3>(points, d, n_categories, tile + row, squared + row, closest);
  row += static_cast<int>(left > 0 ? left : 0) * kWidth;
  for (; row < kTile; row += kWidth)
    for (int p = 0; p < kPoints; ++p)
      store(squared + p * kTile + row, load_numbers(squared + p * kTile + row - kWidth));
  for (int p = 0; p < kPoints; ++p) nearest[p] = reduce_min(closest[p]);
}

template <class Number>
void dense_distances(const Number* points, std::ptrdiff_t count, std::ptrdiff_t d, std::ptrdiff_t n_categories,
                     const Number* tile, std::ptrdiff_t rows, Number* squared, Number* nearest) {
  std::ptrdiff_t p = 0;
  for (; p + kBlock <= count; p += kBlock)
    distances_to_tile<kBlock>(points + p * d, d, n_categories, tile, rows, squared + p * kTile, nearest + p);
  points += p * d, squared += p * kTile, nearest += p;
  static_assert(kBlock == 4, "the rest is 1, 2 or 3 points");
  switch (count - p) {
    case 1: return distances_to_tile<1>(points, d, n_categories, tile, rows, squared, nearest);
    case 2: return distances_to_tile<2>(points, d, n_categories, tile, rows, squared, nearest);
    case 3: return distances_to_tile<3>(points, d, n_categories, tile, rows, squared, nearest);
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
template <class Number>
void accumulate_sparse_distances(SparseBlock<Number> block, SparseSlice<Number> slice, std::int64_t& position,
                                 Number* squared) {
  constexpr int kPacks = kSparsePacks<Number>, kWidth = kCount<Number>;
  // Loops over the points have a constant length, so that they are unrolled and the sums stay in registers.
  Numbers<Number> sums[kBlock][kPacks];
  for (int p = 0; p < kBlock; ++p)
    for (int j = 0; j < kPacks; ++j)
      sums[p][j] = p < block.count ? load_numbers(squared + p * kTile + j * kWidth) : broadcast_number(Number{0});
  const std::int32_t* columns = slice.columns;
  const Number* rows = slice.values;
  std::int64_t b = position;
  for (;; ++b) {
    const std::int32_t column = block.columns[b];
    // Columns that are zero in all points of the block.
    const std::int32_t stop = column < slice.end ? column : slice.end;
    for (; *columns < stop; ++columns, rows += kGroup)
      for (int j = 0; j < kPacks; ++j) {
        const Numbers<Number> feature = load_numbers(rows + j * kWidth);
        for (int p = 0; p < kBlock; ++p) add_square(sums[p][j], feature);
      }
    if (column >= slice.end) break;
    // A column of the block: that of the slice or, if the slice does not have it, the zeros after its end.
    const bool common = *columns == column;
    const Number* features = common ? rows : slice.values + slice.size * kGroup;
    for (int p = 0; p < kBlock; ++p) {
      const Numbers<Number> feature = broadcast_number(block.values[b * kBlock + p]);
      for (int j = 0; j < kPacks; ++j) add_square(sums[p][j], feature - load_numbers(features + j * kWidth));
    }
    columns += common;
    rows += common ? kGroup : 0;
  }
  position = b;
  for (int p = 0; p < kBlock; ++p)
    for (int j = 0; j < kPacks; ++j)
      if (p < block.count) store(squared + p * kTile + j * kWidth, sums[p][j]);
}

template <class Number>
void finish_sparse_distances(std::ptrdiff_t count, std::ptrdiff_t rows, Number* squared, Number* nearest) {
  for (std::ptrdiff_t p = 0; p < count; ++p, squared += kTile) {
    for (std::ptrdiff_t row = rows; row < kTile; ++row) squared[row] = squared[rows - 1];
    Numbers<Number> closest = broadcast_number(std::numeric_limits<Number>::max());
    for (int row = 0; row < kTile; row += kCount<Number>) {
      const Numbers<Number> sum = limit(load_numbers(squared + row));
      store(squared + row, sum);
      closest = row == 0 ? sum : minimum(closest, sum);
    }
    nearest[p] = reduce_min(closest);
  }
}

// Whether all kernel values of a point on the tile underflow to zero. For large gamma most do.
inline bool all_underflow(double gamma, double nearest) { return gamma * nearest > -kMinExponent; }
inline bool all_underflow(float gamma, float nearest) { return gamma * nearest > -kMinSingleExponent; }

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

template <class Number>
void kernel_values(const Number* squared, const Number* nearest, std::ptrdiff_t count, double gamma,
                   std::ptrdiff_t width, std::ptrdiff_t stride, float* kernel) {
  const auto rate = static_cast<Number>(gamma);
  Number values[kTile];
  for (std::ptrdiff_t p = 0; p < count; ++p, squared += kTile, kernel += stride) {
    if (all_underflow(rate, nearest[p])) {
      for (std::ptrdiff_t i = 0; i < width; ++i) kernel[i] = 0.0f;
      continue;
    }
    for (int i = 0; i < kTile; i += kCount<Number>)
      store(values + i, exponential(broadcast_number(-rate) * load_numbers(squared + i)));
    if (width == kTile)
      for (int i = 0; i < kTile; ++i) kernel[i] = static_cast<float>(values[i]);
    else
      for (std::ptrdiff_t i = 0; i < width; ++i) kernel[i] = static_cast<float>(values[i]);
  }
}

#if defined(__AVX2__)
// to[i * stride + p] = from[p * stride + i] for p, i < 8: pairs, then quadruples, then halves are exchanged.
inline void transpose_block(const float* from, std::ptrdiff_t stride, float* to) {
  __m256 rows[8], pairs[8];
  for (int i = 0; i < 8; ++i) rows[i] = _mm256_loadu_ps(from + i * stride);
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
      rows[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xee);
    }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * stride, _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * stride, _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31));
  }
}
#else
inline void transpose_block(const float* from, std::ptrdiff_t stride, float* to) {
  for (int i = 0; i < 8; ++i)
    for (int p = 0; p < 8; ++p) to[i * stride + p] = from[p * stride + i];
}
#endif

void transpose_tile(const float* from, std::ptrdiff_t width, std::ptrdiff_t stride, float* to) {
  std::ptrdiff_t i = 0;
  for (; i + 8 <= width; i += 8)
    for (int p = 0; p < kTile; p += 8) transpose_block(from + p * stride + i, stride, to + i * stride + p);
  for (; i < width; ++i)
    for (int p = 0; p < kTile; ++p) to[i * stride + p] = from[p * stride + i];
}

template <class Number>
Number nearest_others(const Number* squared, std::int32_t point_class, const std::int32_t* classes,
                      std::ptrdiff_t width, Number nearest, Number* nearest_of_rows) {
  constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
  Number distances[kTile];
  for (std::ptrdiff_t i = 0; i < width; ++i) distances[i] = classes[i] != point_class ? squared[i] : kInfinity;
  for (std::ptrdiff_t i = width; i < kTile; ++i) distances[i] = kInfinity;
  for (std::ptrdiff_t i = 0; i < width; ++i)
    nearest_of_rows[i] = distances[i] < nearest_of_rows[i] ? distances[i] : nearest_of_rows[i];
  Numbers<Number> closest = broadcast_number(nearest);
  for (int i = 0; i < kTile; i += kCount<Number>) closest = minimum(closest, load_numbers(distances + i));
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

// Functions of filter.cpp, smo.cpp and cholesky.cpp.
template <class Pointer>
using Function = std::remove_pointer_t<Pointer>;
Function<decltype(Routines::filter_support)> filter_support;
Function<decltype(Routines::filter_tile)> filter_tile;
Function<decltype(Routines::filter_values)> filter_values;
Function<decltype(Routines::filter_exponentials)> filter_exponentials;
Function<decltype(Routines::round_to_single)> round_to_single;
Function<decltype(Routines::filter_votes)> filter_votes;
Function<decltype(Routines::minimize)> minimize;
Function<decltype(Routines::factorize)> factorize;
Function<decltype(Routines::solve_factorized)> solve_factorized;

#define PACBAYES_TEXT_OF(word) #word
#define PACBAYES_TEXT(word) PACBAYES_TEXT_OF(word)

template <class Number>
constexpr DistanceRoutines<Number> kDistances = {dense_distances<Number>, accumulate_sparse_distances<Number>,
                                                 finish_sparse_distances<Number>, kernel_values<Number>,
                                                 nearest_others<Number>};

extern const Routines kRoutines;
const Routines kRoutines = {
    PACBAYES_TEXT(PACBAYES_INSTRUCTIONS),
    kDistances<double>,
    kDistances<float>,
    scale_tile,
    exponentials,
    transpose_tile,
    accumulate,
    accumulate_exponentials,
    accumulate_exponentials_at,
    filter_support,
    filter_tile,
    filter_values,
    filter_exponentials,
    round_to_single,
    filter_votes,
    minimize,
    factorize,
    solve_factorized,
};

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
