// Rows of features, dense or sparse, and what the routines of tiles.cpp read: points, and tiles of rows.
//
// Dense and sparse types have the same interface. `Layout` maps a type of rows to the others:
//   Matrix  rows copied from others, in double precision
//   Points  what distances are measured from
//   Tile    up to kTile rows that distances are measured to
// `PointsIn` and `TileIn` give the last two in either precision.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "routines.h"

namespace pacbayes {

// The last n_categories features of dense rows are numbers of categories, which are compared for equality only.
template <class Number>
struct DenseRows {
  const Number* values;  // count x d
  std::ptrdiff_t count, d;
  std::ptrdiff_t n_categories = 0;
};

// Compressed sparse rows: the columns of a row are strictly ascending. Values are in single or in double precision.
struct SparseRows {
  const double* doubles;
  const float* floats;  // used if doubles is null
  const std::int32_t* columns;
  const std::int64_t* starts;  // of each row in columns and values, and the end of the last
  std::ptrdiff_t count, d;

  std::int64_t begin(std::ptrdiff_t row) const { return starts[row]; }
  std::int64_t end(std::ptrdiff_t row) const { return starts[row + 1]; }
  double value(std::int64_t i) const { return doubles ? doubles[i] : static_cast<double>(floats[i]); }
};

enum class Scaler { none, minmax, standard };

// Factors that multiply the features: of all d features if columns is null, else of the listed columns, in ascending
// order; all others keep their values. No factors: no scaling.
struct Scale {
  const double* factors = nullptr;
  const std::int32_t* columns = nullptr;
  std::ptrdiff_t size = 0;
  // What NaN in the first features is replaced by, before it is multiplied; dense rows only.
  const double* fill = nullptr;
  std::ptrdiff_t n_fill = 0;

  explicit operator bool() const { return factors != nullptr; }
};

// The factors of many scales, concatenated; starts are used by sparse rows only, fill by tables only.
struct Factors {
  std::vector<double> factors, fill;
  std::vector<std::int32_t> columns;
  std::vector<std::int64_t> starts{0};
};

// Compute the factors that make the given rows as MinMaxScaler((-1, 1)) or StandardScaler would, up to offsets, which
// do not change distances. Append them and return them. A constant feature keeps its values, and so does one whose
// spread is too small or too large to divide by.
template <class Number>
Scale append_factors(DenseRows<Number> X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler, Factors& to);
Scale append_factors(SparseRows X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler, Factors& to);

// The same for rows of a table: the first n_numbers features may be NaN, which becomes the mean of the given rows, as
// SimpleImputer would have it, before they are scaled; all others keep their values. A feature that is NaN in all of
// the given rows is multiplied by zero, since nothing is known about it.
template <class Number>
Scale append_table_factors(DenseRows<Number> X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler,
                           std::ptrdiff_t n_numbers, Factors& to);
// Tables are dense: callers never ask for this.
inline Scale append_table_factors(SparseRows, const std::int32_t*, std::ptrdiff_t, Scaler, std::ptrdiff_t, Factors&) {
  return {};
}

// The factors that a subsample gives: of rows of a table if n_numbers is not negative; none without a scaler.
template <class Rows>
Scale append_subsample_factors(Rows X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler,
                               std::ptrdiff_t n_numbers, Factors& to) {
  if (n_numbers >= 0) return append_table_factors(X, rows, count, scaler, n_numbers, to);
  return scaler == Scaler::none ? Scale{} : append_factors(X, rows, count, scaler, to);
}

inline bool all_finite(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

// ------------------------------------------------------------------------------------------------------
// Dense rows
// ------------------------------------------------------------------------------------------------------

class DenseMatrix {
 public:
  template <class Number>
  void gather(DenseRows<Number> X, const std::int32_t* rows, std::ptrdiff_t count, Scale scale) {
    d_ = X.d;
    count_ = count;
    n_categories_ = X.n_categories;
    values_.resize(count * d_);
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      const Number* from = X.values + static_cast<std::ptrdiff_t>(rows[p]) * d_;
      double* to = values_.data() + p * d_;
      std::copy_n(from, d_, to);
      for (std::ptrdiff_t k = 0; k < scale.n_fill; ++k) to[k] = std::isnan(to[k]) ? scale.fill[k] : to[k];
      if (scale)
        for (std::ptrdiff_t k = 0; k < d_; ++k) to[k] *= scale.factors[k];
    }
  }

  DenseRows<double> rows() const { return {values_.data(), count_, d_, n_categories_}; }
  // The same in single precision, in which all values must be finite.
  DenseRows<float> round() {
    singles_.assign(values_.begin(), values_.end());
    return {singles_.data(), count_, d_, n_categories_};
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  std::vector<float> singles_;
  std::ptrdiff_t count_ = 0, d_ = 0, n_categories_ = 0;
};

// The rows as they are: the caller keeps them.
template <class Number>
class BasicDensePoints {
 public:
  void assign(DenseRows<Number> rows) { rows_ = rows; }
  // Measure distances from the first `count` points at least.
  void limit(std::ptrdiff_t count) { rows_.count = count; }
  std::ptrdiff_t count() const { return rows_.count; }
  std::size_t bytes() const { return 0; }
  const Number* values() const { return rows_.values; }

 private:
  DenseRows<Number> rows_{};
};

template <class Number>
class BasicDenseTile {
 public:
  template <class From>
  static std::size_t bytes(DenseRows<From> X) {
    return X.d * kTile * sizeof(Number);
  }

  // Rows beyond the last are copies of it, so that they do not change the smallest distance.
  template <class From>
  void load(DenseRows<From> X, std::ptrdiff_t first, std::ptrdiff_t count) {
    load_rows(X, count, [first](std::ptrdiff_t i) { return first + i; });
  }

  template <class From>
  void gather(DenseRows<From> X, const std::ptrdiff_t* rows, std::ptrdiff_t count) {
    load_rows(X, count, [rows](std::ptrdiff_t i) { return rows[i]; });
  }

  void load_scaled(const BasicDenseTile& other, Scale scale) {
    resize(other.d_, other.n_categories_, other.count_);
    routines().scale_tile(other.features_.data(), scale.factors, d_, scale.fill, scale.n_fill, features_.data());
  }

  // squared[point * kTile + row], and the smallest one of each point.
  void distances(const BasicDensePoints<Number>& points, Number* squared, Number* nearest) {
    routines().distances<Number>().dense(points.values(), points.count(), d_, n_categories_, features_.data(), count_,
                                         squared, nearest);
  }

  const std::vector<Number>& features() const { return features_; }
  std::ptrdiff_t n_categories() const { return n_categories_; }

 private:
  template <class From, class Which>
  void load_rows(DenseRows<From> X, std::ptrdiff_t count, Which which) {
    resize(X.d, X.n_categories, count);
    for (int i = 0; i < kTile; ++i) {
      const From* row = X.values + which(std::min<std::ptrdiff_t>(i, count - 1)) * d_;
      for (std::ptrdiff_t k = 0; k < d_; ++k) features_[k * kTile + i] = static_cast<Number>(row[k]);
    }
  }

  void resize(std::ptrdiff_t d, std::ptrdiff_t n_categories, std::ptrdiff_t count) {
    d_ = d;
    n_categories_ = n_categories;
    count_ = count;
    features_.resize(d * kTile);
  }

  std::vector<Number> features_;
  std::ptrdiff_t d_ = 0, n_categories_ = 0, count_ = 0;
};

using DenseTile = BasicDenseTile<double>;

// ------------------------------------------------------------------------------------------------------
// Sparse rows
// ------------------------------------------------------------------------------------------------------

class SparseMatrix {
 public:
  void gather(SparseRows X, const std::int32_t* rows, std::ptrdiff_t count, Scale scale);
  SparseRows rows() const { return {values_.data(), nullptr, columns_.data(), starts_.data(), count(), d_}; }
  // The same in single precision, in which all values must be finite.
  SparseRows round() {
    singles_.assign(values_.begin(), values_.end());
    return {nullptr, singles_.data(), columns_.data(), starts_.data(), count(), d_};
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::ptrdiff_t count() const { return static_cast<std::ptrdiff_t>(starts_.size()) - 1; }

  std::vector<double> values_;
  std::vector<float> singles_;
  std::vector<std::int32_t> columns_;
  std::vector<std::int64_t> starts_{0};
  std::ptrdiff_t d_ = 0;
};

// Points in blocks of kBlock.
template <class Number>
class BasicSparsePoints {
 public:
  void assign(SparseRows rows);
  void limit(std::ptrdiff_t) {}
  std::ptrdiff_t count() const { return count_; }
  std::size_t bytes() const { return columns_.size() * (sizeof(std::int32_t) + kBlock * sizeof(Number)); }
  std::ptrdiff_t n_blocks() const { return static_cast<std::ptrdiff_t>(starts_.size()); }
  SparseBlock<Number> block(std::ptrdiff_t b) const;

 private:
  std::vector<std::int32_t> columns_;  // of each block, ended by kNoColumn
  std::vector<Number> values_;
  std::vector<std::int64_t> starts_;
  std::ptrdiff_t count_ = 0;
};

// Rows in groups of kGroup. The columns of a group are expanded to dense slices of limited size, one after
// another, when distances are computed.
template <class Number>
class BasicSparseTile {
 public:
  // Of a typical tile.
  static std::size_t bytes(SparseRows X);

  void load(SparseRows X, std::ptrdiff_t first, std::ptrdiff_t count);
  void load_scaled(const BasicSparseTile& other, Scale scale);
  void distances(const BasicSparsePoints<Number>& points, Number* squared, Number* nearest);

 private:
  struct Group {
    std::vector<std::int32_t> columns;  // the union of the rows' columns, ended by kNoColumn
    std::vector<std::int64_t> starts;   // of each column in lanes and values, and the end of the last
    std::vector<std::uint8_t> lanes;    // rows within the group
    std::vector<Number> values;
  };
  SparseSlice<Number> expand(const Group& group, std::ptrdiff_t first);

  std::vector<Group> groups_;
  std::ptrdiff_t count_ = 0;
  std::vector<std::int32_t> slice_columns_;
  std::vector<Number> slice_values_;
  std::vector<std::int64_t> positions_;
};

template <class Rows>
struct Layout;

template <class Number>
struct Layout<DenseRows<Number>> {
  using Matrix = DenseMatrix;
  template <class Precision>
  using PointsIn = BasicDensePoints<Precision>;
  template <class Precision>
  using TileIn = BasicDenseTile<Precision>;
  using Points = PointsIn<double>;
  using Tile = TileIn<double>;
};

template <>
struct Layout<SparseRows> {
  using Matrix = SparseMatrix;
  template <class Precision>
  using PointsIn = BasicSparsePoints<Precision>;
  template <class Precision>
  using TileIn = BasicSparseTile<Precision>;
  using Points = PointsIn<double>;
  using Tile = TileIn<double>;
};

}  // namespace pacbayes
