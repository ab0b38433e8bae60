// pacbayes.sampling._streams: random numbers of many independent streams, one per hypothesis and purpose.
//
// Philox 4x64-10 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, Parallel random numbers: as easy as 1, 2, 3, SC
// 2011) turns a key and a counter into 256 random bits, so a stream is a set of counters, (position, hypothesis,
// purpose, 0), and costs nothing to set up. The numbers are those of numpy.random.Philox(key=key, counter=(0,
// hypothesis, purpose, 0)).

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../_bits.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

struct Product {
  std::uint64_t high, low;
};

Product multiply(std::uint64_t a, std::uint64_t b) {
#ifdef _MSC_VER
  return {__umulh(a, b), a * b};
#else
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
#endif
}

// A stream that computes the words of kBlocks counters at a time, which hides the latency of the multiplications.
template <int kBlocks>
class Stream {
 public:
  Stream(std::uint64_t key_0, std::uint64_t key_1, std::uint64_t hypothesis, std::uint64_t purpose)
      : key_{key_0, key_1}, hypothesis_(hypothesis), purpose_(purpose) {}

  std::uint64_t operator()() {
    if (used_ == 4 * kBlocks) refill();
    return words_[used_++];
  }

  // A uniform number below `bound`. Words below 2^64 mod bound are rejected, which makes all remainders equally likely.
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t word = (*this)();
    if (word < bound) {  // otherwise it is not below the remainder either, and a division is saved
      const std::uint64_t excess = (0 - bound) % bound;  // 2^64 mod bound
      while (word < excess) word = (*this)();
    }
    return word % bound;
  }

 private:
  void refill() {
    std::uint64_t counters[kBlocks][4], key[2] = {key_[0], key_[1]};
    for (auto& counter : counters) {
      const std::uint64_t start[4] = {position_++, hypothesis_, purpose_, 0};
      std::memcpy(counter, start, sizeof start);
    }
    for (int round = 0; round < 10; ++round) {
      for (auto& counter : counters) {
        const Product first = multiply(0xD2E7470EE14C6C93u, counter[0]);
        const Product second = multiply(0xCA5A826395121157u, counter[2]);
        counter[0] = second.high ^ counter[1] ^ key[0];
        counter[1] = second.low;
        counter[2] = first.high ^ counter[3] ^ key[1];
        counter[3] = first.low;
      }
      key[0] += 0x9E3779B97F4A7C15u;
      key[1] += 0xBB67AE8584CAA73Bu;
    }
    std::memcpy(words_, counters, sizeof words_);
    used_ = 0;
  }

  std::uint64_t key_[2], hypothesis_, purpose_, position_ = 1, words_[4 * kBlocks] = {};
  int used_ = 4 * kBlocks;
};

using Key = nb::ndarray<const std::uint64_t, nb::shape<2>, nb::c_contig, nb::device::cpu>;

constexpr std::int64_t kBits = 64;

using pacbayes::lowest_bit;

// Draw `size` of the numbers below n without replacement, uniformly, and sort them: Floyd's algorithm (J. Bentley, B.
// Floyd, A sample of brilliance, CACM 30, 1987). `taken` has a bit for each of n numbers, all zero before and after.
void draw(Stream<4> stream, std::int64_t n, std::int64_t size, std::vector<std::uint64_t>& taken,
          std::int32_t* subsample) {
  const auto bit = [](std::int64_t number) { return std::uint64_t{1} << (number % kBits); };
  std::int64_t drawn = 0;
  for (std::int64_t last = n - size; last < n; ++last) {
    const auto candidate = static_cast<std::int64_t>(stream.below(last + 1));
    const std::int64_t chosen = taken[candidate / kBits] & bit(candidate) ? last : candidate;
    taken[chosen / kBits] |= bit(chosen);
    subsample[drawn++] = static_cast<std::int32_t>(chosen);
  }
  if (n > 16 * kBits * size) {  // few among many: sorting is faster than looking for them
    for (std::int64_t i = 0; i < size; ++i) taken[subsample[i] / kBits] = 0;
    std::sort(subsample, subsample + size);
    return;
  }
  for (std::size_t word = 0; word < taken.size(); ++word) {
    for (std::uint64_t bits = taken[word]; bits; bits &= bits - 1)
      *subsample++ = static_cast<std::int32_t>(static_cast<std::int64_t>(word) * kBits + lowest_bit(bits));
    taken[word] = 0;
  }
}

// Draw the subsamples of the hypotheses first, first + 1, ... and concatenate them in `out`.
void subsamples(Key key, std::uint64_t purpose, std::uint64_t first, std::int64_t n,
                nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> sizes,
                nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
  if (n < 0 || n > std::numeric_limits<std::int32_t>::max())
    throw std::invalid_argument("n must be from 0 to 2^31 - 1");
  std::int64_t total = 0;
  for (std::size_t h = 0; h < sizes.shape(0); ++h) {
    if (sizes.data()[h] < 0 || sizes.data()[h] > n) throw std::invalid_argument("sizes must be from 0 to n");
    total += sizes.data()[h];
  }
  if (total != static_cast<std::int64_t>(out.shape(0))) throw std::invalid_argument("out must hold all subsamples");
  nb::gil_scoped_release unlocked;
  std::vector<std::uint64_t> taken((n + kBits - 1) / kBits, 0);
  std::int32_t* to = out.data();
  for (std::size_t h = 0; h < sizes.shape(0); ++h) {
    draw(Stream<4>(key.data()[0], key.data()[1], first + h, purpose), n, sizes.data()[h], taken, to);
    to += sizes.data()[h];
  }
}

// Write the first words of the streams of the hypotheses first, first + 1, ... to the rows of `out`.
void words(Key key, std::uint64_t purpose, std::uint64_t first,
           nb::ndarray<std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
  std::uint64_t* to = out.data();
  for (std::size_t h = 0; h < out.shape(0); ++h) {
    Stream<1> stream(key.data()[0], key.data()[1], first + h, purpose);
    for (std::size_t i = 0; i < out.shape(1); ++i) *to++ = stream();
  }
}

// Write a random order of the numbers below count from each of several streams to a row of `out`: that of NumPy's
// Generator.permutation, which draws halves of words and rejects those that are too large once masked.
void permutations(Key key, std::uint64_t purpose,
                  nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> numbers,
                  nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
  if (numbers.shape(0) != out.shape(0)) throw std::invalid_argument("out must have a row for each stream");
  const auto count = static_cast<std::int64_t>(out.shape(1));
  if (count > std::numeric_limits<std::uint32_t>::max()) throw std::invalid_argument("out must have fewer columns");
  for (std::size_t row = 0; row < out.shape(0); ++row) {
    Stream<1> stream(key.data()[0], key.data()[1], static_cast<std::uint64_t>(numbers.data()[row]), purpose);
    std::int64_t* const order = out.data() + row * count;
    for (std::int64_t i = 0; i < count; ++i) order[i] = i;
    std::uint64_t word = 0;
    bool is_first_half = true;
    for (std::int64_t last = count - 1; last > 0; --last) {
      std::uint64_t mask = last, drawn;
      for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
      do {
        word = is_first_half ? stream() : word >> 32;
        is_first_half = !is_first_half;
        drawn = word & 0xffffffffu & mask;
      } while (drawn > static_cast<std::uint64_t>(last));
      std::swap(order[last], order[drawn]);
    }
  }
}

}  // namespace

NB_MODULE(_streams, module) {
  module.doc() = "Random streams, one per hypothesis and purpose.";
  module.def("subsamples", subsamples, "key"_a, "purpose"_a, "first"_a, "n"_a, "sizes"_a.noconvert(),
             "out"_a.noconvert());
  module.def("permutations", permutations, "key"_a, "purpose"_a, "numbers"_a.noconvert(), "out"_a.noconvert());
  module.def("words", words, "key"_a, "purpose"_a, "first"_a, "out"_a.noconvert());
}
