// Cholesky factors of symmetric positive definite matrices, and the solution of linear systems by them. Compiled once
// per instruction set.
//
// Every entry is one sum that runs over the columns in ascending order, by `multiply_add` alone: lanes hold different
// rows, never parts of a sum. Results are therefore the same for all packs that fuse products with additions.

#include "pack.h"
#include "routines.h"

#include <math.h>

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

// Rows and columns whose sums are kept in registers.
#if defined(__AVX512F__)
constexpr int kStripPacks = 4;
#else
constexpr int kStripPacks = 2;
#endif
constexpr int kColumns = 4, kStrip = kStripPacks * kLanes;
static_assert(kTile % kStrip == 0 && kTile % kColumns == 0);

// Row `row` of a matrix in tiles: its columns are kTile apart, and the next rows of the tile follow each other.
template <class Number>
Number* row_at(Number* matrix, std::ptrdiff_t size, std::ptrdiff_t row) {
  return matrix + row / kTile * size * kTile + row % kTile;
}

// Turn negative sums of up to kColumns columns, over all columns before, into entries of the factor. `strip` points to
// the rows, `across` to the rows with the numbers of the columns: these are among them if `own` is not negative, from
// row `own` of the strip on, and what is above them in the tile, `above` rows and the strip's own, is set to zero.
// Returns false at a pivot that is not positive.
bool finish_columns(Pack (&sums)[kColumns][kStripPacks], int count, std::ptrdiff_t own, std::ptrdiff_t above,
                    double* strip, double* across) {
  for (int c = 0; c < count; ++c) {
    double* const column = strip + c * kTile;
    for (int before = 0; before < c; ++before) {
      const Pack factor = broadcast(across[before * kTile + c]);
      for (int j = 0; j < kStripPacks; ++j)
        sums[c][j] = multiply_add(factor, load(strip + before * kTile + j * kLanes), sums[c][j]);
    }
    double pivot = across[c * kTile + c];
    if (own >= 0) {
      for (int j = 0; j < kStripPacks; ++j) store(column + j * kLanes, sums[c][j]);
      const double square = -column[own + c];
      if (!(square > 0)) return false;
      pivot = sqrt(square);
    }
    const Pack inverse = broadcast(-1.0 / pivot);
    for (int j = 0; j < kStripPacks; ++j) store(column + j * kLanes, sums[c][j] * inverse);
    if (own >= 0) {
      for (std::ptrdiff_t i = -above; i < own + c; ++i) column[i] = 0.0;
      column[own + c] = pivot;
    }
  }
  return true;
}

// Compute the entries of a strip of rows in a tile of columns.
bool factorize_strip(double* matrix, std::ptrdiff_t size, std::ptrdiff_t tile, std::ptrdiff_t first) {
  double* const strip = row_at(matrix, size, first);
  std::ptrdiff_t end = first + kStrip < size ? first + kStrip : size;
  if (end > tile + kTile) end = tile + kTile;
  for (std::ptrdiff_t column = tile; column < end; column += kColumns) {
    double* const across = row_at(matrix, size, column);
    const int count = end - column < kColumns ? static_cast<int>(end - column) : kColumns;
    Pack sums[kColumns][kStripPacks];
    for (int c = 0; c < kColumns; ++c)
      for (int j = 0; j < kStripPacks; ++j)
        sums[c][j] = c < count ? broadcast(0.0) - load(strip + (column + c) * kTile + j * kLanes) : broadcast(0.0);
    for (std::ptrdiff_t k = 0; k < column; ++k) {
      Pack rows[kStripPacks];
      for (int j = 0; j < kStripPacks; ++j) rows[j] = load(strip + k * kTile + j * kLanes);
      for (int c = 0; c < kColumns; ++c) {
        const Pack factor = broadcast(across[k * kTile + c]);
        for (int j = 0; j < kStripPacks; ++j) sums[c][j] = multiply_add(factor, rows[j], sums[c][j]);
      }
    }
    if (!finish_columns(sums, count, column - first, first % kTile, strip + column * kTile, across + column * kTile))
      return false;
  }
  return true;
}

}  // namespace

bool factorize(double* matrix, std::ptrdiff_t size) {
  // By tiles of columns, whose rows stay in the cache while all rows below are divided by them.
  for (std::ptrdiff_t tile = 0; tile < size; tile += kTile)
    for (std::ptrdiff_t first = tile; first < size; first += kStrip)
      if (!factorize_strip(matrix, size, tile, first)) return false;
  return true;
}

namespace {

// Solve L z = values.
void solve_forward(const double* factor, std::ptrdiff_t size, double* values) {
  for (std::ptrdiff_t first = 0; first < size; first += kStrip) {
    const double* const strip = row_at(factor, size, first);
    Pack sums[kStripPacks];
    for (int j = 0; j < kStripPacks; ++j) sums[j] = load(values + first + j * kLanes);
    for (std::ptrdiff_t k = 0; k < first; ++k) {
      const Pack weight = broadcast(-values[k]);
      for (int j = 0; j < kStripPacks; ++j) sums[j] = multiply_add(weight, load(strip + k * kTile + j * kLanes), sums[j]);
    }
    for (int j = 0; j < kStripPacks; ++j) store(values + first + j * kLanes, sums[j]);
    for (std::ptrdiff_t k = first; k < first + kStrip && k < size; ++k) {
      const double* const column = strip + k * kTile;  // zero in the rows before k
      const double solved = values[k] / column[k - first];
      for (int i = 0; i < kStrip; i += kLanes)
        store(values + first + i, multiply_add(broadcast(-solved), load(column + i), load(values + first + i)));
      values[k] = solved;
    }
  }
}

// The sum of kTile numbers, by halves.
double sum_of_tile(double* numbers) {
  for (int half = kTile / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) numbers[i] += numbers[i + half];
  return numbers[0];
}

// Solve L' x = values; those after the last are zero.
void solve_backward(const double* factor, std::ptrdiff_t size, double* values) {
  for (std::ptrdiff_t k = size - 1; k >= 0; --k) {
    const double right = values[k];
    values[k] = 0.0;
    double products[kTile];
    for (int i = 0; i < kTile; i += kLanes) store(products + i, broadcast(0.0));
    for (std::ptrdiff_t first = k / kTile * kTile; first < size; first += kTile) {
      const double* const column = row_at(factor, size, first) + k * kTile;
      for (int i = 0; i < kTile; i += kLanes)
        store(products + i, multiply_add(load(column + i), load(values + first + i), load(products + i)));
    }
    values[k] = (right - sum_of_tile(products)) / row_at(factor, size, k)[k * kTile];
  }
}

}  // namespace

void solve_factorized(const double* factor, std::ptrdiff_t size, double* values) {
  solve_forward(factor, size, values);
  for (std::ptrdiff_t i = size; i % kTile != 0; ++i) values[i] = 0.0;
  solve_backward(factor, size, values);
}

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
