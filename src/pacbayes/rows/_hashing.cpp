// pacbayes.rows._hashing: 64-bit hashes of numbers in their columns, by which rows of a sample are recognised; and of the
// parts of texts.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "../_texts.h"

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

// Which letters and digits of ASCII are alike, and what stands between words; all bytes of other letters belong to words.
std::uint8_t fold(std::uint8_t byte) {
  if (byte >= 'A' && byte <= 'Z') return static_cast<std::uint8_t>(byte - 'A' + 'a');
  return byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ? byte : std::uint8_t{' '};
}

// The part that a sequence of bytes stands for (FNV-1a), different for words and for what is inside of them.
std::size_t find_part(const std::uint8_t* begin, const std::uint8_t* end, std::uint64_t kind) {
  std::uint64_t h = 0xcbf29ce484222325 + kind;
  for (; begin != end; ++begin) h = (h ^ *begin) * 0x100000001b3;
  return mix(h) % pacbayes::kTextParts;
}

// Which parts texts have: their words, and all sequences of three bytes of these, with a space at both ends. A text in
// UTF-8 ends where the next one begins.
void hash_texts(nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> bytes,
                nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> ends,
                nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
  using namespace pacbayes;
  if (out.shape(0) != ends.shape(0) || out.shape(1) != kTextColumns)
    throw nb::value_error("out must have a row for each text, and a column for every 52 parts");
  std::int64_t before = 0;
  for (std::size_t i = 0; i < ends.shape(0); before = ends.data()[i++])
    if (ends.data()[i] < before || ends.data()[i] > static_cast<std::int64_t>(bytes.shape(0)))
      throw nb::value_error("ends must rise up to the number of bytes");
  nb::gil_scoped_release unlocked;
  std::vector<std::uint8_t> text;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < ends.shape(0); begin = ends.data()[i++]) {
    text.assign(1, ' ');
    for (std::int64_t at = begin; at <= ends.data()[i]; ++at) {
      const std::uint8_t byte = at < ends.data()[i] ? fold(bytes.data()[at]) : std::uint8_t{' '};
      if (byte != ' ' || text.back() != ' ') text.push_back(byte);
    }
    std::uint64_t parts[kTextColumns] = {};
    const auto add = [&](std::size_t from, std::size_t to, std::uint64_t kind) {
      const std::size_t part = find_part(text.data() + from, text.data() + to, kind);
      parts[part / kTextBits] |= std::uint64_t{1} << part % kTextBits;
    };
    std::size_t word = 1;
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (at >= 2) add(at - 2, at + 1, 1);
      if (text[at] != ' ') continue;
      add(word, at, 0);
      word = at + 1;
    }
    for (std::size_t c = 0; c < kTextColumns; ++c)
      out.data()[i * kTextColumns + c] = static_cast<double>(parts[c]);
  }
}

}  // namespace

NB_MODULE(_hashing, module) {
  module.doc() = "Hashes of numbers in their columns, and of the parts of texts.";
  module.attr("TEXT_COLUMNS") = pacbayes::kTextColumns;
  module.attr("TEXT_BITS") = pacbayes::kTextBits;
  module.def("hash_texts", hash_texts, "bytes"_a.noconvert(), "ends"_a.noconvert(), "out"_a.noconvert());
  module.def("hash_values", hash_values, "values"_a.noconvert(), "columns"_a.noconvert(), "out"_a.noconvert(),
             "exact"_a);
  module.def("mix_words", mix_words, "words"_a.noconvert());
  module.def("hash_rows", hash_rows, "X"_a.noconvert(), "out"_a.noconvert(), "exact"_a);
}
