// pacbayes.rows._hashing: 64-bit hashes of numbers in their columns, by which rows of a sample are recognised.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The mixing function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, Fast splittable pseudorandom number generators,
// OOPSLA 2014).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Of a number in column k: 0 for 0, and the same for every NaN. Without branches, which data would decide at random.
template <bool kExact>
std::uint64_t hash(double value, std::uint64_t k) {
  constexpr std::uint64_t kNaN = 0x7ff8000000000000, kDropped = std::uint64_t{1} << 29;
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = value == value ? bits : kNaN;
  // To 24 significant bits, ties to even, like single precision, but without its range.
  if (!kExact) bits = (bits + (kDropped / 2 - 1) + ((bits >> 29) & 1)) & ~(kDropped - 1);
  const std::uint64_t mixed = mix(bits + 0x9e3779b97f4a7c15 * (k + 1));
  return value == 0.0 ? 0 : mixed;
}

void hash_values(nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> values,
                 nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> columns,
                 nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out, bool exact) {
  const std::size_t count = values.shape(0);
  if (columns.shape(0) != count || out.shape(0) != count)
    throw nb::value_error("values, columns and out must have the same length");
  nb::gil_scoped_release unlocked;
  const auto of = exact ? hash<true> : hash<false>;
  for (std::size_t i = 0; i < count; ++i)
    out.data()[i] = of(values.data()[i], static_cast<std::uint64_t>(columns.data()[i]));
}

// Replace each word by what the mixing function makes of it.
void mix_words(nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> words) {
  nb::gil_scoped_release unlocked;
  for (std::size_t i = 0; i < words.shape(0); ++i) words.data()[i] = mix(words.data()[i]);
}

// The sum of the hashes of each row's numbers.
template <bool kExact>
void sum_rows(const double* X, std::size_t n, std::size_t d, std::uint64_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const double* row = X + i * d;
    std::uint64_t sum = 0;
    for (std::size_t k = 0; k < d; ++k) sum += hash<kExact>(row[k], k);
    out[i] = sum;
  }
}

void hash_rows(nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> X,
               nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out, bool exact) {
  if (out.shape(0) != X.shape(0)) throw nb::value_error("out must have an entry for each row of X");
  nb::gil_scoped_release unlocked;
  (exact ? sum_rows<true> : sum_rows<false>)(X.data(), X.shape(0), X.shape(1), out.data());
}

}  // namespace

NB_MODULE(_hashing, module) {
  module.doc() = "Hashes of numbers in their columns.";
  module.def("hash_values", hash_values, "values"_a.noconvert(), "columns"_a.noconvert(), "out"_a.noconvert(),
             "exact"_a);
  module.def("mix_words", mix_words, "words"_a.noconvert());
  module.def("hash_rows", hash_rows, "X"_a.noconvert(), "out"_a.noconvert(), "exact"_a);
}
