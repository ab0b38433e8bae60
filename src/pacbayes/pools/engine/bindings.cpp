// pacbayes.pools._engine: arrays in, arrays out. The interpreter's lock is released while the engine works, so that threads
// can train and ask ranges of hypotheses side by side.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "routines.h"
#include "svm.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using pacbayes::Machine;
using pacbayes::Rows;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Votes = nb::ndarray<std::uint16_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

template <class T>
Rows<T> rows_of(const Matrix<T>& X) {
  return {X.data(), static_cast<std::ptrdiff_t>(X.shape(0)), static_cast<std::ptrdiff_t>(X.shape(1))};
}

// A NumPy array that owns what was in the vector.
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
  return result;
}

template <class T>
nb::dict train(Matrix<T> X, Vector<std::int32_t> codes, Vector<std::int32_t> subsamples, Vector<std::int64_t> sizes,
               double seed, Vector<double> multipliers, Vector<double> C, std::optional<Matrix<double>> scale,
               double tolerance, std::int64_t max_iterations) {
  const std::size_t m = sizes.shape(0);
  require(codes.shape(0) == X.shape(0), "codes must have one entry per row of X");
  require(multipliers.shape(0) == m && C.shape(0) == m, "multipliers and C must have one entry per subsample");
  require(!scale || (scale->shape(0) == m && scale->shape(1) == X.shape(1)), "scale must be subsamples x features");
  std::size_t points = 0;
  for (std::size_t h = 0; h < m; ++h) {
    require(sizes.data()[h] > 0, "subsamples must not be empty");
    points += sizes.data()[h];
  }
  require(points == subsamples.shape(0), "sizes must sum to the length of subsamples");
  for (std::size_t i = 0; i < points; ++i)
    require(subsamples.data()[i] >= 0 && static_cast<std::size_t>(subsamples.data()[i]) < X.shape(0),
            "subsamples must hold row numbers of X");
  pacbayes::Trained trained;
  {
    nb::gil_scoped_release unlocked;
    const std::int32_t* subsample = subsamples.data();
    for (std::size_t h = 0; h < m; ++h) {
      const auto grouped = pacbayes::group_by_class(subsample, sizes.data()[h], codes.data());
      pacbayes::SquaredDistances squared;
      if (grouped.classes.size() > 1)
        squared = pacbayes::distances_between(rows_of(X), grouped.rows.data(), sizes.data()[h],
                                              scale ? scale->data() + h * X.shape(1) : nullptr);
      pacbayes::train(grouped, squared, {seed, multipliers.data()[h], C.data()[h], tolerance, max_iterations}, trained);
      subsample += sizes.data()[h];
    }
  }
  return to_numpy(std::move(trained));
}

nb::dict train_by_distances(Matrix<double> squared, Vector<std::int32_t> codes, double seed, double multiplier, double C,
                            double tolerance, std::int64_t max_iterations) {
  const std::size_t size = codes.shape(0);
  require(size > 0 && squared.shape(0) == size && squared.shape(1) == size, "squared must be points x points");
  pacbayes::Trained trained;
  {
    nb::gil_scoped_release unlocked;
    std::vector<std::int32_t> points(size);
    for (std::size_t p = 0; p < size; ++p) points[p] = static_cast<std::int32_t>(p);
    const auto grouped = pacbayes::group_by_class(points.data(), size, codes.data());
    const auto in_tiles = pacbayes::tiled(squared.data(), grouped.rows);
    pacbayes::train(grouped, in_tiles, {seed, multiplier, C, tolerance, max_iterations}, trained);
  }
  return to_numpy(std::move(trained));
}

// Machines as `train` gives them, several in a row.
struct Ensemble {
  Vector<std::int32_t> n_classes, classes, counts, support;
  Vector<double> coefficients, intercepts, gamma;
  std::optional<Matrix<double>> scale;

  Ensemble(Vector<std::int32_t> n_classes, Vector<std::int32_t> classes, Vector<std::int32_t> counts,
           Vector<std::int32_t> support, Vector<double> coefficients, Vector<double> intercepts, Vector<double> gamma,
           std::optional<Matrix<double>> scale)
      : n_classes(n_classes), classes(classes), counts(counts), support(support), coefficients(coefficients),
        intercepts(intercepts), gamma(gamma), scale(scale) {}

  // Views of the arrays, which must outlive them.
  std::vector<Machine> machines(std::size_t points, std::size_t d) const;
};

std::vector<Machine> Ensemble::machines(std::size_t points, std::size_t d) const {
  const std::size_t m = n_classes.shape(0);
  require(gamma.shape(0) == m, "gamma must have one entry per machine");
  require(!scale || (scale->shape(0) == m && scale->shape(1) == d), "scale must be machines x features");
  std::vector<Machine> machines(m);
  std::size_t at_class = 0, at_support = 0, at_coefficient = 0, at_intercept = 0;
  for (std::size_t h = 0; h < m; ++h) {
    require(n_classes.data()[h] >= 1, "machines must have a class");
    const std::size_t k = n_classes.data()[h];
    require(at_class + k <= classes.shape(0) && at_class + k <= counts.shape(0), "classes are too few");
    std::size_t n = 0;
    for (std::size_t c = 0; c < k; ++c) {
      require(classes.data()[at_class + c] >= 0 && classes.data()[at_class + c] <= 0xffff, "classes must be codes");
      require(counts.data()[at_class + c] >= 0, "counts must not be negative");
      n += counts.data()[at_class + c];
    }
    Machine& machine = machines[h];
    machine.n_classes = static_cast<int>(k);
    machine.classes = classes.data() + at_class;
    machine.counts = counts.data() + at_class;
    machine.support = support.data() + at_support;
    machine.n_support = static_cast<std::ptrdiff_t>(n);
    machine.coefficients = coefficients.data() + at_coefficient;
    machine.intercepts = intercepts.data() + at_intercept;
    machine.gamma = gamma.data()[h];
    machine.scale = scale ? scale->data() + h * d : nullptr;
    at_class += k;
    at_support += n;
    at_coefficient += (k - 1) * n;
    at_intercept += k * (k - 1) / 2;
  }
  require(at_class == classes.shape(0) && at_class == counts.shape(0) && at_support == support.shape(0) &&
              at_coefficient == coefficients.shape(0) && at_intercept == intercepts.shape(0),
          "arrays of machines do not fit together");
  for (std::size_t i = 0; i < at_support; ++i)
    require(support.data()[i] >= 0 && static_cast<std::size_t>(support.data()[i]) < points,
            "support must hold row numbers of points");
  return machines;
}

// Writes down every vote.
pacbayes::Ballot record(std::uint16_t* votes, std::size_t rows) {
  return [votes, rows](std::size_t h, std::ptrdiff_t row, std::ptrdiff_t count, const std::uint16_t* cast) {
    std::copy_n(cast, count, votes + h * rows + row);
  };
}

template <class T>
void vote(Matrix<T> X, Matrix<double> points, const Ensemble& ensemble, std::size_t memory, Votes votes) {
  require(X.shape(1) == points.shape(1), "X and points must have the same features");
  const auto machines = ensemble.machines(points.shape(0), points.shape(1));
  require(votes.shape(0) == machines.size() && votes.shape(1) == X.shape(0), "votes must be machines x rows");
  nb::gil_scoped_release unlocked;
  pacbayes::vote(machines, rows_of(points), rows_of(X), memory, record(votes.data(), votes.shape(1)));
}

void vote_by_distances(Matrix<double> squared, const Ensemble& ensemble, Votes votes) {
  const auto machines = ensemble.machines(squared.shape(0), 0);
  require(votes.shape(0) == machines.size() && votes.shape(1) == squared.shape(1), "votes must be machines x rows");
  nb::gil_scoped_release unlocked;
  pacbayes::vote_by_distances(machines, squared.data(), squared.shape(0), squared.shape(1),
                              record(votes.data(), votes.shape(1)));
}

// Mistakes of machines at the rows of X that did not train them. X begins at row `first` of the sample.
template <class T>
void count_mistakes(Matrix<T> X, Vector<std::int32_t> codes, std::int64_t first, Matrix<double> points,
                    const Ensemble& ensemble, Vector<std::int32_t> subsamples, Vector<std::int64_t> sizes,
                    std::size_t memory,
                    nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> mistakes) {
  require(X.shape(1) == points.shape(1), "X and points must have the same features");
  require(codes.shape(0) == X.shape(0), "codes must have one entry per row of X");
  const auto machines = ensemble.machines(points.shape(0), points.shape(1));
  require(sizes.shape(0) == machines.size() && mistakes.shape(0) == machines.size(),
          "sizes and mistakes must have one entry per machine");
  // The next training row of each machine, and the end of them: subsamples are sorted.
  std::vector<const std::int32_t*> next(machines.size()), end(machines.size());
  const std::int32_t* at = subsamples.data();
  for (std::size_t h = 0; h < machines.size(); ++h) {
    require(sizes.data()[h] >= 0 && sizes.data()[h] <= subsamples.data() + subsamples.shape(0) - at,
            "sizes must sum to the length of subsamples");
    end[h] = at + sizes.data()[h];
    next[h] = std::lower_bound(at, end[h], first);
    at = end[h];
    mistakes.data()[h] = 0;
  }
  nb::gil_scoped_release unlocked;
  pacbayes::vote(machines, rows_of(points), rows_of(X), memory,
                 [&](std::size_t h, std::ptrdiff_t row, std::ptrdiff_t count, const std::uint16_t* votes) {
                   std::int64_t wrong = 0;
                   for (std::ptrdiff_t i = 0; i < count; ++i) wrong += votes[i] != codes.data()[row + i];
                   for (; next[h] != end[h] && *next[h] < first + row + count; ++next[h]) {
                     const std::ptrdiff_t trained = *next[h] - first - row;
                     wrong -= votes[trained] != codes.data()[row + trained];
                   }
                   mistakes.data()[h] += wrong;
                 });
}

template <class T>
void decide(Matrix<T> X, Matrix<double> points, const Ensemble& ensemble, Values values) {
  require(X.shape(1) == points.shape(1), "X and points must have the same features");
  const auto machines = ensemble.machines(points.shape(0), points.shape(1));
  require(machines.size() == 1, "decision values are those of one machine");
  require(values.shape(0) == ensemble.intercepts.shape(0) && values.shape(1) == X.shape(0),
          "values must be pairs x rows");
  nb::gil_scoped_release unlocked;
  pacbayes::decide(machines[0], rows_of(points), rows_of(X), values.data());
}

template <class T>
void nearest_of_another_class(Matrix<T> X, Vector<std::int32_t> codes,
                              nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> squared) {
  require(codes.shape(0) == X.shape(0) && squared.shape(0) == X.shape(0), "codes and squared must be as long as X");
  nb::gil_scoped_release unlocked;
  pacbayes::nearest_of_another_class(rows_of(X), codes.data(), squared.data());
}

// exp(-gamma * squared), for tests of the exponential.
void kernel(Vector<double> squared, double gamma, nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
  require(squared.shape(0) % pacbayes::kTile == 0 && out.shape(0) == squared.shape(0), "whole tiles are needed");
  const std::size_t count = squared.shape(0) / pacbayes::kTile;
  const std::vector<double> nearest(count, 0.0);
  pacbayes::routines().exponentials(squared.data(), nearest.data(), count, gamma, out.data());
}

template <class T>
void bind_for(nb::module_& module) {
  module.def("train", train<T>, "X"_a, "codes"_a, "subsamples"_a, "sizes"_a, "seed"_a, "multipliers"_a, "C"_a,
             "scale"_a.none(), "tolerance"_a, "max_iterations"_a);
  // What is written to must not be converted: the result would be lost with the copy.
  module.def("vote", vote<T>, "X"_a, "points"_a, "ensemble"_a, "memory"_a, "votes"_a.noconvert());
  module.def("count_mistakes", count_mistakes<T>, "X"_a, "codes"_a, "first"_a, "points"_a, "ensemble"_a,
             "subsamples"_a, "sizes"_a, "memory"_a, "mistakes"_a.noconvert());
  module.def("nearest_of_another_class", nearest_of_another_class<T>, "X"_a, "codes"_a, "squared"_a.noconvert());
  module.def("decide", decide<T>, "X"_a, "points"_a, "ensemble"_a, "values"_a.noconvert());
}

}  // namespace

NB_MODULE(_engine, module) {
  module.doc() = "Many small RBF-kernel SVMs, trained and asked at once.";
  module.attr("instructions") = pacbayes::routines().name;
  module.attr("tile_rows") = pacbayes::kTile;
  nb::class_<Ensemble>(module, "Ensemble")
      .def(nb::init<Vector<std::int32_t>, Vector<std::int32_t>, Vector<std::int32_t>, Vector<std::int32_t>,
                    Vector<double>, Vector<double>, Vector<double>, std::optional<Matrix<double>>>(),
           "n_classes"_a, "classes"_a, "counts"_a, "support"_a, "coefficients"_a, "intercepts"_a, "gamma"_a,
           "scale"_a.none());
  bind_for<double>(module);
  bind_for<float>(module);
  module.def("train_by_distances", train_by_distances, "squared"_a, "codes"_a, "seed"_a, "multiplier"_a, "C"_a,
             "tolerance"_a, "max_iterations"_a);
  module.def("vote_by_distances", vote_by_distances, "squared"_a, "ensemble"_a, "votes"_a.noconvert());
  module.def("kernel", kernel, "squared"_a, "gamma"_a, "out"_a.noconvert());
}
