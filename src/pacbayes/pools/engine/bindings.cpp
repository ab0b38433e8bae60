// pacbayes.pools._engine: arrays in, arrays out. All arguments are checked here, since the engine trusts them. The GIL
// is released while the engine works, so that threads can train and evaluate ranges of hypotheses in parallel.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "filter.h"
#include "routines.h"
#include "svm.h"

#include "../arithmetic/widths.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using pacbayes::DenseRows;
using pacbayes::Machine;
using pacbayes::Scaler;
using pacbayes::SparseRows;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = Vector<std::int32_t>;
using Doubles = Vector<double>;
template <class T>
using OutVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

template <class T>
void require(bool condition, const char* message, T got) {
  if (condition) return;
  std::ostringstream text;
  text << message << ", got " << got;
  throw std::invalid_argument(text.str());
}

// Whether x is a number from 0 on; not NaN, not infinity.
bool is_finite_nonnegative(double x) { return x >= 0 && std::isfinite(x); }
bool is_finite_positive(double x) { return x > 0 && std::isfinite(x); }

// The codes of classes are the votes of machines.
constexpr std::int32_t kMaxCode = std::numeric_limits<std::uint16_t>::max();
bool is_code(std::int32_t code) { return code >= 0 && code <= kMaxCode; }
constexpr char kCodes[] = "codes must be from 0 to 65535";

// ------------------------------------------------------------------------------------------------------
// Rows
// ------------------------------------------------------------------------------------------------------

// A matrix in compressed sparse row format, checked once.
class CSR {
 public:
  using Data = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;  // of either precision

  CSR(Data data, Integers indices, Vector<std::int64_t> indptr, std::int64_t n_features)
      : data_(data), indices_(indices), indptr_(indptr), n_features_(n_features) {
    require(data.dtype() == nb::dtype<double>() || data.dtype() == nb::dtype<float>(),
            "data must be float64 or float32");
    require(n_features >= 0 && n_features <= pacbayes::kNoColumn, "n_features must be from 0 to 2^31 - 1", n_features);
    require(indptr.shape(0) >= 1 && indptr.data()[0] == 0, "indptr must begin with 0");
    const auto stored = static_cast<std::int64_t>(indices.shape(0));
    require(data.shape(0) == indices.shape(0), "data and indices must have the same length");
    for (std::size_t row = 0; row + 1 < indptr.shape(0); ++row) {
      const std::int64_t begin = indptr.data()[row], end = indptr.data()[row + 1];
      require(begin <= end && end <= stored, "indptr must be ascending and end within data");
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t column = indices.data()[at];
        require(column >= 0 && column < n_features, "indices must be from 0 to n_features - 1", column);
        require(at == begin || indices.data()[at - 1] < column,
                "indices must be sorted and without duplicates in each row");
      }
    }
  }

  std::size_t shape(int axis) const { return axis == 0 ? indptr_.shape(0) - 1 : static_cast<std::size_t>(n_features_); }

  bool is_double() const { return data_.dtype() == nb::dtype<double>(); }

  SparseRows rows() const {
    return {is_double() ? static_cast<const double*>(data_.data()) : nullptr,
            is_double() ? nullptr : static_cast<const float*>(data_.data()),
            indices_.data(),
            indptr_.data(),
            static_cast<std::ptrdiff_t>(shape(0)),
            static_cast<std::ptrdiff_t>(n_features_)};
  }

 private:
  Data data_;
  Integers indices_;
  Vector<std::int64_t> indptr_;
  std::int64_t n_features_;
};

// The last features of dense rows may be categories; callers check that those of sparse rows are not.
template <class T>
DenseRows<T> rows_of(const Matrix<T>& X, std::size_t n_categories = 0) {
  return {X.data(), static_cast<std::ptrdiff_t>(X.shape(0)), static_cast<std::ptrdiff_t>(X.shape(1)),
          static_cast<std::ptrdiff_t>(n_categories)};
}

SparseRows rows_of(const CSR& X, std::size_t = 0) { return X.rows(); }

template <class X_>
constexpr bool is_dense = !std::is_same_v<X_, CSR>;

// Points are in double precision, or sparse like X.
template <class X>
struct PointsOf;
template <class T>
struct PointsOf<Matrix<T>> {
  using type = Matrix<double>;
};
template <>
struct PointsOf<CSR> {
  using type = CSR;
};

// ------------------------------------------------------------------------------------------------------
// Training
// ------------------------------------------------------------------------------------------------------

// A NumPy array that owns the vector's numbers.
template <class T>
nb::object to_numpy(std::vector<T>&& numbers) {
  auto* owned = new std::vector<T>(std::move(numbers));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

nb::dict to_numpy(pacbayes::Trained&& trained) {
  nb::dict result;
  result["n_classes"] = to_numpy(std::move(trained.n_classes));
  result["classes"] = to_numpy(std::move(trained.classes));
  result["counts"] = to_numpy(std::move(trained.counts));
  result["support"] = to_numpy(std::move(trained.support));
  result["coefficients"] = to_numpy(std::move(trained.coefficients));
  result["intercepts"] = to_numpy(std::move(trained.intercepts));
  result["gamma"] = to_numpy(std::move(trained.gamma));
  result["converged"] = to_numpy(std::move(trained.converged));
  result["scale"] = to_numpy(std::move(trained.scale.factors));
  result["fill"] = to_numpy(std::move(trained.scale.fill));
  result["scale_indices"] = to_numpy(std::move(trained.scale.columns));
  result["scale_indptr"] = to_numpy(std::move(trained.scale.starts));
  return result;
}

Scaler scaler_of(const std::optional<std::string>& name) {
  if (!name) return Scaler::none;
  if (*name == "minmax") return Scaler::minmax;
  if (*name == "standard") return Scaler::standard;
  throw std::invalid_argument("scaler must be 'minmax', 'standard' or None, got '" + *name + "'");
}

// Check the subsamples of rows of X, and of how many features these are numbers and categories of a table.
template <class X_>
void check_subsamples(const X_& X, const Integers& subsamples, const Vector<std::int64_t>& sizes,
                      std::optional<std::size_t> n_numbers, std::size_t n_categories) {
  require(is_dense<X_> || (!n_numbers && n_categories == 0), "rows of a table must be dense");
  require(n_numbers || n_categories == 0, "n_numbers must be given where there are categories");
  require(n_categories <= X.shape(1) && n_numbers.value_or(0) <= X.shape(1) - n_categories,
          "n_numbers and n_categories must be at most the number of features");
  std::size_t points = 0;
  for (std::size_t h = 0; h < sizes.shape(0); ++h) {
    require(sizes.data()[h] > 0, "subsamples must not be empty");
    require(static_cast<std::size_t>(sizes.data()[h]) <= subsamples.shape(0) - points,
            "sizes must sum to the length of subsamples");
    points += sizes.data()[h];
  }
  require(points == subsamples.shape(0), "sizes must sum to the length of subsamples");
  for (std::size_t i = 0; i < points; ++i) {
    const std::int32_t row = subsamples.data()[i];
    require(row >= 0 && static_cast<std::size_t>(row) < X.shape(0), "subsamples must be row numbers of X", row);
  }
}

// Check that kernel widths, a seed times a multiplier, are finite.
void check_width(double seed, double multiplier) {
  require(is_finite_nonnegative(multiplier), "multipliers must be finite and not negative", multiplier);
  require(std::isfinite(seed * multiplier), "seed times multipliers must be finite, but it overflows for a multiplier",
          multiplier);
}

// Check that C times the weight of each row of a subsample is finite and positive.
void check_weights(const Doubles& weights, const Integers& subsamples, const Vector<std::int64_t>& sizes,
                   const Doubles& C) {
  require(weights.shape(0) == subsamples.shape(0), "weights must have one entry per entry of subsamples");
  const double* weight = weights.data();
  for (std::size_t h = 0; h < sizes.shape(0); ++h)
    for (std::int64_t i = 0; i < sizes.data()[h]; ++i, ++weight)
      require(is_finite_positive(C.data()[h] * *weight), "C times weights must be finite and positive for a weight",
              *weight);
}

// Train one machine after another: `train_one` gets its number, its subsample and the memory to use.
template <class TrainOne>
nb::dict train_all(const Integers& subsamples, const Vector<std::int64_t>& sizes, TrainOne train_one) {
  pacbayes::Trained trained;
  {
    nb::gil_scoped_release unlocked;
    const std::int32_t* subsample = subsamples.data();
    thread_local pacbayes::TrainingSpace space;  // the next call will have subsamples of the same sizes
    for (std::size_t h = 0; h < sizes.shape(0); ++h) {
      train_one(h, subsample, space, trained);
      subsample += sizes.data()[h];
    }
    space.release_if_large();
  }
  return to_numpy(std::move(trained));
}

template <class X_>
nb::dict train(const X_& X, Integers codes, Integers subsamples, Vector<std::int64_t> sizes,
               double seed, Doubles multipliers, Doubles C, std::optional<std::string> scaler,
               double tolerance, std::int64_t max_iterations, std::optional<std::size_t> n_numbers,
               std::size_t n_categories, std::optional<Doubles> weights) {
  const std::size_t m = sizes.shape(0);
  require(codes.shape(0) == X.shape(0), "codes must have one entry per row of X");
  require(multipliers.shape(0) == m && C.shape(0) == m, "multipliers and C must have one entry per subsample");
  require(std::isnan(seed) || is_finite_nonnegative(seed), "seed must be finite and not negative, or NaN", seed);
  require(is_finite_positive(tolerance), "tolerance must be finite and positive", tolerance);
  require(max_iterations >= 0, "max_iterations must not be negative", max_iterations);
  check_subsamples(X, subsamples, sizes, n_numbers, n_categories);
  for (std::size_t h = 0; h < m; ++h) {
    check_width(std::isnan(seed) ? kMaxSeed : seed, multipliers.data()[h]);
    require(is_finite_positive(C.data()[h]), "C must be finite and positive", C.data()[h]);
  }
  if (weights) check_weights(*weights, subsamples, sizes, C);
  for (std::size_t i = 0; i < subsamples.shape(0); ++i) {
    const std::int32_t code = codes.data()[subsamples.data()[i]];
    require(is_code(code), kCodes, code);
  }
  const Scaler kind = scaler_of(scaler);
  return train_all(subsamples, sizes, [&](std::size_t h, const std::int32_t* subsample, auto& space, auto& trained) {
    const double* of_rows = weights ? weights->data() + (subsample - subsamples.data()) : nullptr;
    pacbayes::train(rows_of(X, n_categories), codes.data(), subsample, of_rows, sizes.data()[h],
                    {seed, multipliers.data()[h], C.data()[h], kind, tolerance, max_iterations,
                     n_numbers ? static_cast<std::ptrdiff_t>(*n_numbers) : -1},
                    space, trained);
  });
}

template <class X_>
nb::dict train_ridges(const X_& X, Doubles targets, Integers subsamples, Vector<std::int64_t> sizes,
                      Doubles multipliers, Doubles ridges, std::optional<std::string> scaler,
                      std::optional<std::size_t> n_numbers, std::size_t n_categories) {
  const std::size_t m = sizes.shape(0);
  require(targets.shape(0) == X.shape(0), "targets must have one entry per row of X");
  require(multipliers.shape(0) == m && ridges.shape(0) == m, "multipliers and ridges must have one entry per subsample");
  check_subsamples(X, subsamples, sizes, n_numbers, n_categories);
  for (std::size_t h = 0; h < m; ++h) {
    check_width(kMaxSeed, multipliers.data()[h]);
    require(is_finite_positive(ridges.data()[h]), "ridges must be finite and positive", ridges.data()[h]);
  }
  const Scaler kind = scaler_of(scaler);
  return train_all(subsamples, sizes, [&](std::size_t h, const std::int32_t* subsample, auto& space, auto& trained) {
    pacbayes::train_ridge(
        rows_of(X, n_categories), targets.data(), subsample, sizes.data()[h],
        {multipliers.data()[h], ridges.data()[h], kind, n_numbers ? static_cast<std::ptrdiff_t>(*n_numbers) : -1},
        space, trained);
  });
}

template <class X_>
void nearest_of_another_class(const X_& X, Integers codes, OutVector<double> squared) {
  require(codes.shape(0) == X.shape(0) && squared.shape(0) == X.shape(0),
          "codes and squared must have one entry per row of X");
  require(X.shape(0) <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
          "X must have fewer than 2^31 rows");
  nb::gil_scoped_release unlocked;
  pacbayes::nearest_of_another_class(rows_of(X), codes.data(), squared.data());
}

template <class X_>
void feature_scale(const X_& X, const std::string& scaler, OutVector<double> factors) {
  require(X.shape(0) >= 1 && X.shape(0) <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
          "X must have at least 1 row and fewer than 2^31");
  require(factors.shape(0) == X.shape(1), "factors must have one entry per feature");
  const Scaler kind = scaler_of(scaler);
  nb::gil_scoped_release unlocked;
  std::vector<std::int32_t> rows(X.shape(0));
  std::iota(rows.begin(), rows.end(), 0);
  pacbayes::Factors storage;
  const pacbayes::Scale scale = pacbayes::append_factors(rows_of(X), rows.data(), rows.size(), kind, storage);
  std::fill_n(factors.data(), factors.shape(0), 1.0);
  for (std::ptrdiff_t i = 0; i < scale.size; ++i)
    factors.data()[scale.columns ? scale.columns[i] : i] = scale.factors[i];
}

// ------------------------------------------------------------------------------------------------------
// Voting
// ------------------------------------------------------------------------------------------------------

// Trained machines, in the arrays of `train`, which are checked once and must not change afterwards.
class Ensemble {
 public:
  Ensemble(Integers n_classes, Integers classes, Integers counts, Integers support, Doubles coefficients,
           Doubles intercepts, Doubles gamma, std::optional<Matrix<double>> scale, std::optional<Matrix<double>> fill,
           std::size_t n_categories)
      : Ensemble(n_classes, classes, counts, support, coefficients, intercepts, gamma) {
    require(scale || (!fill && n_categories == 0), "scale must be given for rows of a table");
    if (!scale) return;
    require(scale->shape(0) == machines_.size(), "scale must have one row per machine");
    check_factors(scale->data(), scale->size());
    dense_scale_ = scale;
    for (std::size_t h = 0; h < machines_.size(); ++h)
      machines_[h].scale = {scale->data() + h * scale->shape(1), nullptr, static_cast<std::ptrdiff_t>(scale->shape(1))};
    require(n_categories <= scale->shape(1), "n_categories must be at most the number of features", n_categories);
    n_categories_ = n_categories;
    if (!fill) return;
    require(fill->shape(0) == machines_.size(), "fill must have one row per machine");
    require(fill->shape(1) <= scale->shape(1) - n_categories, "fill must be of features that are no categories");
    for (std::size_t i = 0; i < fill->size(); ++i)
      require(std::isfinite(fill->data()[i]), "fill must be finite", fill->data()[i]);
    fill_ = fill;
    for (std::size_t h = 0; h < machines_.size(); ++h) {
      machines_[h].scale.fill = fill->data() + h * fill->shape(1);
      machines_[h].scale.n_fill = static_cast<std::ptrdiff_t>(fill->shape(1));
    }
  }

  Ensemble(Integers n_classes, Integers classes, Integers counts, Integers support, Doubles coefficients,
           Doubles intercepts, Doubles gamma, const CSR& scale)
      : Ensemble(n_classes, classes, counts, support, coefficients, intercepts, gamma) {
    require(scale.shape(0) == machines_.size(), "scale must have one row per machine");
    require(scale.is_double(), "scale must be float64");
    const SparseRows rows = scale.rows();
    check_factors(rows.doubles, rows.starts[rows.count]);
    sparse_scale_ = scale;
    for (std::size_t h = 0; h < machines_.size(); ++h)
      machines_[h].scale = {rows.doubles + rows.begin(h), rows.columns + rows.begin(h),
                            static_cast<std::ptrdiff_t>(rows.end(h) - rows.begin(h))};
  }

  // The machines, for points and rows of d features.
  template <class Points>
  const std::vector<Machine>& machines(const Points& points, std::size_t d) const {
    require(points.shape(1) == d, "X and points must have the same features");
    require(n_points_ <= points.shape(0), "support must hold row numbers of points");
    require(!dense_scale_ || (dense_scale_->shape(1) == d && is_dense<Points>),
            "scale must be as wide as X, and dense");
    require(!sparse_scale_ || (sparse_scale_->shape(1) == d && !is_dense<Points>),
            "scale must be as wide as X, and sparse");
    return machines_;
  }

  const std::vector<Machine>& machines() const { return machines_; }
  std::size_t n_categories() const { return n_categories_; }
  std::size_t n_intercepts() const { return intercepts_.shape(0); }

 private:
  Ensemble(Integers n_classes, Integers classes, Integers counts, Integers support, Doubles coefficients,
           Doubles intercepts, Doubles gamma);

  static void check_factors(const double* factors, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      require(is_finite_nonnegative(factors[i]), "scale must be finite and not negative", factors[i]);
  }

  Integers n_classes_, classes_, counts_, support_;
  Doubles coefficients_, intercepts_, gamma_;
  std::optional<Matrix<double>> dense_scale_, fill_;
  std::optional<CSR> sparse_scale_;
  std::vector<Machine> machines_;
  std::size_t n_points_ = 0;  // support vectors are rows below this
  std::size_t n_categories_ = 0;
};

Ensemble::Ensemble(Integers n_classes, Integers classes, Integers counts, Integers support, Doubles coefficients,
                   Doubles intercepts, Doubles gamma)
    : n_classes_(n_classes), classes_(classes), counts_(counts), support_(support), coefficients_(coefficients),
      intercepts_(intercepts), gamma_(gamma) {
  constexpr char kMismatch[] = "the arrays of the machines do not fit together";
  require(gamma.shape(0) == n_classes.shape(0), "gamma must have one entry per machine");
  require(counts.shape(0) == classes.shape(0), "counts must have one entry per class");
  // Entries of each array that earlier machines use. Nothing is added before it is known to fit, so no sum overflows.
  std::size_t class_at = 0, support_at = 0, coefficient_at = 0, intercept_at = 0;
  for (std::size_t h = 0; h < n_classes.shape(0); ++h) {
    require(n_classes.data()[h] >= 1 && n_classes.data()[h] <= kMaxCode + 1, "machines must have 1 to 65536 classes",
            n_classes.data()[h]);
    const std::size_t k = n_classes.data()[h];
    require(k <= classes.shape(0) - class_at, kMismatch);
    std::size_t n = 0;
    for (std::size_t c = class_at; c < class_at + k; ++c) {
      require(is_code(classes.data()[c]), kCodes, classes.data()[c]);
      require(c == class_at || classes.data()[c - 1] < classes.data()[c], "the classes of a machine must be ascending");
      require(counts.data()[c] >= 0, "counts must not be negative", counts.data()[c]);
      n += counts.data()[c];
    }
    require(n <= support.shape(0) - support_at && k * (k - 1) / 2 <= intercepts.shape(0) - intercept_at &&
                (n == 0 || k - 1 <= (coefficients.shape(0) - coefficient_at) / n),
            kMismatch);
    require(is_finite_nonnegative(gamma.data()[h]), "gamma must be finite and not negative", gamma.data()[h]);
    machines_.push_back({static_cast<int>(k), classes.data() + class_at, counts.data() + class_at,
                         support.data() + support_at, static_cast<std::ptrdiff_t>(n),
                         coefficients.data() + coefficient_at, intercepts.data() + intercept_at, gamma.data()[h], {}});
    class_at += k;
    support_at += n;
    coefficient_at += (k - 1) * n;
    intercept_at += k * (k - 1) / 2;
  }
  require(class_at == classes.shape(0) && support_at == support.shape(0) && coefficient_at == coefficients.shape(0) &&
              intercept_at == intercepts.shape(0),
          kMismatch);
  for (std::size_t i = 0; i < support_at; ++i) {
    require(support.data()[i] >= 0, "support must hold row numbers of points", support.data()[i]);
    n_points_ = std::max<std::size_t>(n_points_, static_cast<std::size_t>(support.data()[i]) + 1);
  }
}

template <class X_>
void vote(const X_& X, const typename PointsOf<X_>::type& points, const Ensemble& ensemble, std::size_t memory,
          OutMatrix<std::uint16_t> votes, std::optional<OutMatrix<std::uint8_t>> certain) {
  const auto& machines = ensemble.machines(points, X.shape(1));
  const std::size_t n = X.shape(0);
  require(votes.shape(0) == machines.size() && votes.shape(1) == n, "votes must be machines x rows");
  require(!certain || (certain->shape(0) == machines.size() && certain->shape(1) == n),
          "certain must be machines x rows");
  nb::gil_scoped_release unlocked;
  const std::size_t k = ensemble.n_categories();
  pacbayes::vote(machines, rows_of(points, k), rows_of(X, k), memory, [&](std::size_t h, const pacbayes::Votes& tile) {
    std::copy_n(tile.codes, tile.count, votes.data() + h * n + tile.row);
    if (certain) std::copy_n(tile.certain, tile.count, certain->data() + h * n + tile.row);
  });
}

// Count each machine's mistakes at the rows of X that it was not trained on. X begins at row `first` of the sample. A
// vote that rounding could change is a mistake: see arithmetic/votes.h.
template <class X_>
void count_mistakes(const X_& X, Integers codes, std::int64_t first,
                    const typename PointsOf<X_>::type& points, const Ensemble& ensemble,
                    Integers subsamples, Vector<std::int64_t> sizes, std::size_t memory,
                    OutVector<std::int64_t> mistakes) {
  require(codes.shape(0) == X.shape(0), "codes must have one entry per row of X");
  for (std::size_t i = 0; i < codes.shape(0); ++i) require(is_code(codes.data()[i]), kCodes, codes.data()[i]);
  // Subsamples are 32-bit row numbers.
  require(first >= 0 && first <= std::numeric_limits<std::int32_t>::max(), "first must be a row number", first);
  const auto& machines = ensemble.machines(points, X.shape(1));
  require(sizes.shape(0) == machines.size() && mistakes.shape(0) == machines.size(),
          "sizes and mistakes must have one entry per machine");
  // The next training row of each machine, and the end of its training rows.
  std::vector<const std::int32_t*> next(machines.size()), end(machines.size());
  const std::int32_t* at = subsamples.data();
  const std::int32_t* const last = at + subsamples.shape(0);
  for (std::size_t h = 0; h < machines.size(); ++h) {
    require(sizes.data()[h] >= 0 && sizes.data()[h] <= last - at, "sizes must sum to the length of subsamples");
    end[h] = at + sizes.data()[h];
    require(at == end[h] || *at >= 0, "subsamples must be row numbers");
    require(std::adjacent_find(at, end[h], std::greater_equal<>()) == end[h],
            "each subsample must be sorted and without duplicates");
    next[h] = std::lower_bound(at, end[h], first);
    at = end[h];
    mistakes.data()[h] = 0;
  }
  require(at == last, "sizes must sum to the length of subsamples");
  // As wide as votes, so that many are compared at a time.
  const std::vector<std::uint16_t> truth(codes.data(), codes.data() + codes.shape(0));
  nb::gil_scoped_release unlocked;
  const std::size_t k = ensemble.n_categories();
  pacbayes::vote(machines, rows_of(points, k), rows_of(X, k), memory,
                 [&](std::size_t h, const pacbayes::Votes& votes) {
                   const std::uint16_t* actual = truth.data() + votes.row;
                   const auto is_mistake = [&](std::ptrdiff_t i) -> std::uint16_t {
                     return (votes.codes[i] != actual[i]) | (votes.certain[i] == 0);
                   };
                   std::uint16_t in_tile = 0;
                   for (std::ptrdiff_t i = 0; i < votes.count; ++i) in_tile += is_mistake(i);
                   std::int64_t wrong = in_tile;
                   for (; next[h] != end[h] && *next[h] < first + votes.row + votes.count; ++next[h])
                     wrong -= is_mistake(*next[h] - first - votes.row);
                   mistakes.data()[h] += wrong;
                 });
}

std::size_t count_pairs(const Machine& machine) {
  return static_cast<std::size_t>(machine.n_classes) * (machine.n_classes - 1) / 2;
}

// Decision values of the pairs of classes of all machines, one machine after another.
template <class X_>
void decide(const X_& X, const typename PointsOf<X_>::type& points, const Ensemble& ensemble, OutMatrix<double> values,
            std::size_t memory) {
  const auto& machines = ensemble.machines(points, X.shape(1));
  require(values.shape(0) == ensemble.n_intercepts() && values.shape(1) == X.shape(0), "values must be pairs x rows");
  // Where the values of each machine begin.
  std::vector<double*> begin{values.data()};
  const std::size_t n = X.shape(0);
  for (const Machine& machine : machines) begin.push_back(begin.back() + n * count_pairs(machine));
  nb::gil_scoped_release unlocked;
  const std::size_t k = ensemble.n_categories();
  pacbayes::decide(machines, rows_of(points, k), rows_of(X, k), memory,
                   [&](std::size_t h, std::ptrdiff_t row, std::ptrdiff_t count, const double* tile) {
                     for (double* to = begin[h] + row; to < begin[h + 1]; to += n, tile += pacbayes::kTile)
                       std::copy_n(tile, count, to);
                   });
}

// The margins within which decision values of rows of d features may have either sign, in the order of the intercepts.
void margins(const Ensemble& ensemble, std::int64_t d, OutVector<double> out) {
  require(out.shape(0) == ensemble.n_intercepts(), "out must have one entry per intercept");
  double* to = out.data();
  for (const Machine& machine : ensemble.machines())
    for (const double margin : pacbayes::decision_margins(machine, d)) *to++ = margin;
}

// exp(-gamma * squared), for tests of the exponentials.
template <class Number>
void kernel(Vector<Number> squared, double gamma, OutVector<Number> out) {
  require(squared.shape(0) % pacbayes::kTile == 0 && out.shape(0) == squared.shape(0),
          "squared and out must have the same length, a multiple of tile_rows");
  require(is_finite_nonnegative(gamma), "gamma must be finite and not negative", gamma);
  for (std::size_t i = 0; i < squared.shape(0); ++i)
    require(is_finite_nonnegative(squared.data()[i]), "squared must be finite and not negative", squared.data()[i]);
  const std::size_t count = squared.shape(0) / pacbayes::kTile;
  const std::vector<Number> nearest(count, Number{0});
  if constexpr (std::is_same_v<Number, double>)
    pacbayes::routines().exponentials(squared.data(), nearest.data(), count, gamma, out.data());
  else
    pacbayes::routines().single_distances.kernel(squared.data(), nearest.data(), count, gamma, pacbayes::kTile,
                                                 pacbayes::kTile, out.data());
}

// Decision values of the filter and bounds on their errors, for tests: infinite where it cannot take a machine.
void filter(const Matrix<double>& X, const Matrix<double>& points, const Ensemble& ensemble, OutMatrix<float> values,
            OutMatrix<float> errors) {
  const auto& machines = ensemble.machines(points, X.shape(1));
  const std::size_t n = X.shape(0);
  require(values.shape(0) == machines.size() && values.shape(1) == n && errors.shape(0) == machines.size() &&
              errors.shape(1) == n,
          "values and errors must be machines x rows");
  const auto of_points = rows_of(points, ensemble.n_categories());
  const std::vector<double> centre = pacbayes::filter_centre(of_points);
  pacbayes::DenseTile rows;
  pacbayes::FilterTile tile;
  pacbayes::Filter machine;
  pacbayes::FilterValues found;
  for (std::size_t row = 0; row < n; row += pacbayes::kTile) {
    const std::size_t count = std::min<std::size_t>(pacbayes::kTile, n - row);
    rows.load(rows_of(X, ensemble.n_categories()), row, count);
    for (std::size_t h = 0; h < machines.size(); ++h) {
      tile.load(rows, centre, machines[h].scale);
      if (machine.select(machines[h], of_points, centre, tile.largest()))
        machine.decide(tile, found);
      else
        std::fill_n(found.errors, pacbayes::kTile, std::numeric_limits<float>::infinity());
      std::copy_n(found.values, count, values.data() + h * n + row);
      std::copy_n(found.errors, count, errors.data() + h * n + row);
    }
  }
}

template <class X_>
void bind_for(nb::module_& module) {
  module.def("train", train<X_>, "X"_a, "codes"_a.noconvert(), "subsamples"_a.noconvert(), "sizes"_a.noconvert(),
             "seed"_a, "multipliers"_a, "C"_a, "scaler"_a.none(), "tolerance"_a, "max_iterations"_a,
             "n_numbers"_a.none() = nb::none(), "n_categories"_a = 0, "weights"_a.none() = nb::none());
  module.def("train_ridges", train_ridges<X_>, "X"_a, "targets"_a.noconvert(), "subsamples"_a.noconvert(),
             "sizes"_a.noconvert(), "multipliers"_a, "ridges"_a, "scaler"_a.none(),
             "n_numbers"_a.none() = nb::none(), "n_categories"_a = 0);
  // Integers are not converted, since fractions would be lost, nor what is written to, since the copy would be.
  module.def("vote", vote<X_>, "X"_a, "points"_a, "ensemble"_a, "memory"_a, "votes"_a.noconvert(),
             "certain"_a.noconvert().none() = nb::none());
  module.def("count_mistakes", count_mistakes<X_>, "X"_a, "codes"_a.noconvert(), "first"_a, "points"_a, "ensemble"_a,
             "subsamples"_a.noconvert(), "sizes"_a.noconvert(), "memory"_a, "mistakes"_a.noconvert());
  module.def("decide", decide<X_>, "X"_a, "points"_a, "ensemble"_a, "values"_a.noconvert(), "memory"_a = 0);
  module.def("nearest_of_another_class", nearest_of_another_class<X_>, "X"_a, "codes"_a.noconvert(),
             "squared"_a.noconvert());
  module.def("feature_scale", feature_scale<X_>, "X"_a, "scaler"_a, "factors"_a.noconvert());
}

}  // namespace

NB_MODULE(_engine, module) {
  module.doc() = "Train and evaluate many small RBF-kernel SVMs and kernel ridge regressions.";
  // An ensemble that is alive when the interpreter exits, say in an interactive session, is no leak worth a warning.
  nb::set_leak_warnings(false);
  module.attr("instructions") = pacbayes::routines().name;
  module.attr("tile_rows") = pacbayes::kTile;
  nb::class_<CSR>(module, "CSR")
      .def(nb::init<CSR::Data, Integers, Vector<std::int64_t>, std::int64_t>(), "data"_a.noconvert(),
           "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_features"_a);
  nb::class_<Ensemble>(module, "Ensemble")
      .def(nb::init<Integers, Integers, Integers, Integers, Doubles, Doubles, Doubles, std::optional<Matrix<double>>,
                    std::optional<Matrix<double>>, std::size_t>(),
           "n_classes"_a.noconvert(), "classes"_a.noconvert(), "counts"_a.noconvert(), "support"_a.noconvert(),
           "coefficients"_a, "intercepts"_a, "gamma"_a, "scale"_a.none(), "fill"_a.none() = nb::none(),
           "n_categories"_a = 0)
      .def(nb::init<Integers, Integers, Integers, Integers, Doubles, Doubles, Doubles, const CSR&>(),
           "n_classes"_a.noconvert(), "classes"_a.noconvert(), "counts"_a.noconvert(), "support"_a.noconvert(),
           "coefficients"_a, "intercepts"_a, "gamma"_a, "scale"_a);
  bind_for<Matrix<double>>(module);
  bind_for<Matrix<float>>(module);
  bind_for<CSR>(module);
  module.def("margins", margins, "ensemble"_a, "d"_a, "out"_a.noconvert());
  module.def("kernel", kernel<double>, "squared"_a, "gamma"_a, "out"_a.noconvert());
  module.def("kernel", kernel<float>, "squared"_a.noconvert(), "gamma"_a, "out"_a.noconvert());
  module.def("filter", filter, "X"_a.noconvert(), "points"_a.noconvert(), "ensemble"_a, "values"_a.noconvert(),
             "errors"_a.noconvert());
}
