// Decision values in single precision, with bounds on their errors: see filter.h. Compiled once per instruction set.

#include "pack.h"
#include "routines.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

constexpr int kSingles = 2 * kLanes;

// Packs of rows that are processed together, with kBlock points.
constexpr int kPacks = kLanes == 8 ? 4 : 2;
static_assert(kTile % (kPacks * kSingles) == 0);

inline Singles absolute(Singles x) { return maximum(x, broadcast_single(0.0f) - x); }

// Bound the error of decision values from the sums of absolute values and the errors of the exponents. Bounds are
// computed in single precision as well, hence the factor.
inline void store_errors(const FilterMachine& machine, Singles sum, Singles exponent_error, float* errors) {
  constexpr float kRounding = 1.01f, kLargestExponentError = 0.5f;
  const Singles error = (exponent_error + broadcast_single(machine.sum_error)) * sum * broadcast_single(kRounding) +
                        broadcast_single(machine.constant);
  const Singles useless = broadcast_single(std::numeric_limits<float>::infinity());
  store(errors, select(broadcast_single(kLargestExponentError) > exponent_error, error, useless));
}

}  // namespace

void filter_support(const double* points, const std::int32_t* rows, std::ptrdiff_t count, std::ptrdiff_t d,
                    std::ptrdiff_t n_categories, const double* factors, const double* fill, std::ptrdiff_t n_fill,
                    const double* centre, double rate, float* vectors, double* offsets, double* largest,
                    double* scratch) {
  const std::ptrdiff_t n_numbers = d - n_categories;
  for (std::ptrdiff_t k = 0; k < d; ++k) largest[k] = centre[k] < 0 ? -centre[k] : centre[k];
  for (std::ptrdiff_t p = 0; p < count; ++p, vectors += d) {
    const double* point = points + static_cast<std::ptrdiff_t>(rows[p]) * d;
    for (std::ptrdiff_t k = 0; k < n_fill; ++k) scratch[k] = point[k] == point[k] ? point[k] : fill[k];
    for (std::ptrdiff_t k = n_fill; k < d; ++k) scratch[k] = point[k];
    for (std::ptrdiff_t k = 0; k < d; ++k) {
      const double size = scratch[k] < 0 ? -scratch[k] : scratch[k];
      largest[k] = size > largest[k] ? size : largest[k];
    }
    for (std::ptrdiff_t k = n_numbers; k < d; ++k) vectors[k] = static_cast<float>(scratch[k]);
    for (std::ptrdiff_t k = 0; k < n_numbers; ++k) scratch[k] -= centre[k];
    if (factors)
      for (std::ptrdiff_t k = 0; k < n_numbers; ++k) scratch[k] *= factors[k];
    Pack sums = broadcast(0.0);
    std::ptrdiff_t k = 0;
    for (; k + kLanes <= n_numbers; k += kLanes) sums = multiply_add(load(scratch + k), load(scratch + k), sums);
    double squares = 0.0;
    for (int i = 0; i < kLanes; ++i) squares += sums[i];
    for (; k < n_numbers; ++k) squares += scratch[k] * scratch[k];
    offsets[p] = rate * squares;
    if (factors)
      for (k = 0; k < n_numbers; ++k) vectors[k] = static_cast<float>(2 * rate * factors[k] * scratch[k]);
    else
      for (k = 0; k < n_numbers; ++k) vectors[k] = static_cast<float>(2 * rate * scratch[k]);
  }
}

void filter_tile(const double* tile, const double* centre, std::ptrdiff_t d, std::ptrdiff_t n_categories,
                 const double* fill, std::ptrdiff_t n_fill, float* centred, float* squares, double* largest) {
  for (int i = 0; i < kTile; ++i) squares[i] = 0.0f;
  for (std::ptrdiff_t k = 0; k < d; ++k, tile += kTile, centred += kTile) {
    const Pack instead = broadcast(k < n_fill ? fill[k] : 0.0), middle = broadcast(centre[k]);
    double relative[kTile];
    Pack most = broadcast(0.0);
    for (int i = 0; i < kTile; i += kLanes) {
      Pack feature = load(tile + i);
      if (k < n_fill) feature = select(feature == feature, feature, instead);
      const Pack negative = broadcast(0.0) - feature, size = select(feature > negative, feature, negative);
      most = select(size > most, size, most);  // NaN is left out
      store(relative + i, k < d - n_categories ? feature - middle : feature);
    }
    largest[k] = reduce_max(most);
    for (int i = 0; i < kTile; ++i) centred[i] = static_cast<float>(relative[i]);
    if (k < d - n_categories)
      for (int i = 0; i < kTile; i += kSingles) {
        const Singles feature = load_singles(centred + i);
        store(squares + i, multiply_add(feature, feature, load_singles(squares + i)));
      }
  }
}

void filter_values(const FilterMachine& machine, const float* centred, const float* squares, float* values,
                   float* errors) {
  const std::ptrdiff_t d = machine.d, n_numbers = d - machine.n_categories;
  const Singles differ = broadcast_single(2.0f * machine.rate);
  for (int row = 0; row < kTile; row += kPacks * kSingles) {
    Singles offsets[kPacks];  // g |w x|^2
    for (int j = 0; j < kPacks; ++j) {
      offsets[j] = broadcast_single(0.0f);
      if (!machine.weights) offsets[j] = broadcast_single(machine.rate) * load_singles(squares + row + j * kSingles);
    }
    if (machine.weights)
      for (std::ptrdiff_t k = 0; k < n_numbers; ++k) {
        const Singles weight = broadcast_single(machine.weights[k]);
        for (int j = 0; j < kPacks; ++j) {
          const Singles feature = load_singles(centred + k * kTile + row + j * kSingles);
          offsets[j] = multiply_add(weight * feature, feature, offsets[j]);
        }
      }
    Singles sums[kPacks], absolute_sums[kPacks];
    for (int j = 0; j < kPacks; ++j) {
      sums[j] = broadcast_single(machine.intercept);
      absolute_sums[j] = absolute(sums[j]);
    }
    for (std::ptrdiff_t p = 0; p < machine.n_support; p += kBlock) {
      Singles exponents[kBlock][kPacks];
      for (int q = 0; q < kBlock; ++q)
        for (int j = 0; j < kPacks; ++j)
          exponents[q][j] = broadcast_single(0.0f) - (broadcast_single(machine.offsets[p + q]) + offsets[j]);
      const float* vectors = machine.vectors + p * d;
      for (std::ptrdiff_t k = 0; k < n_numbers; ++k) {
        Singles features[kPacks];
        for (int j = 0; j < kPacks; ++j) features[j] = load_singles(centred + k * kTile + row + j * kSingles);
        for (int q = 0; q < kBlock; ++q) {
          const Singles feature = broadcast_single(vectors[q * d + k]);
          for (int j = 0; j < kPacks; ++j) exponents[q][j] = multiply_add(feature, features[j], exponents[q][j]);
        }
      }
      // Categories that differ add 2 to the squared distance.
      for (std::ptrdiff_t k = n_numbers; k < d; ++k)
        for (int q = 0; q < kBlock; ++q) {
          const Singles category = broadcast_single(vectors[q * d + k]);
          for (int j = 0; j < kPacks; ++j) {
            const Singles other = load_singles(centred + k * kTile + row + j * kSingles);
            exponents[q][j] = select(category == other, exponents[q][j], exponents[q][j] - differ);
          }
        }
      for (int q = 0; q < kBlock; ++q) {
        const Singles coefficient = broadcast_single(machine.coefficients[p + q]);
        for (int j = 0; j < kPacks; ++j) {
          const Singles kernel = power_of_two(exponents[q][j]);
          sums[j] = multiply_add(coefficient, kernel, sums[j]);
          absolute_sums[j] = multiply_add(absolute(coefficient), kernel, absolute_sums[j]);
        }
      }
    }
    for (int j = 0; j < kPacks; ++j) {
      store(values + row + j * kSingles, sums[j]);
      const Singles size = broadcast_single(2.75f) * (offsets[j] + broadcast_single(machine.largest_offset));
      const Singles exponent_error =
          broadcast_single(machine.exponent_error) * size + broadcast_single(machine.exponent_constant);
      store_errors(machine, absolute_sums[j], exponent_error, errors + row + j * kSingles);
    }
  }
}

void filter_exponentials(const float* squared, const double* nearest, const std::int32_t* rows, const float* weights,
                         std::ptrdiff_t count, const FilterMachine& machine, float* values, float* errors) {
  const Singles rate = broadcast_single(-machine.rate);
  for (int row = 0; row < kTile; row += kPacks * kSingles) {
    Singles sums[kPacks], absolute_sums[kPacks];
    for (int j = 0; j < kPacks; ++j) {
      sums[j] = broadcast_single(machine.intercept);
      absolute_sums[j] = absolute(sums[j]);
    }
    for (std::ptrdiff_t p = 0; p < count; ++p) {
      if (machine.rate * nearest[rows[p]] > -kMinPower) continue;  // for large gamma most
      const Singles weight = broadcast_single(weights[p]);
      const float* from = squared + static_cast<std::ptrdiff_t>(rows[p]) * kTile + row;
      for (int j = 0; j < kPacks; ++j) {
        const Singles kernel = power_of_two(rate * load_singles(from + j * kSingles));
        sums[j] = multiply_add(weight, kernel, sums[j]);
        absolute_sums[j] = multiply_add(absolute(weight), kernel, absolute_sums[j]);
      }
    }
    for (int j = 0; j < kPacks; ++j) {
      store(values + row + j * kSingles, sums[j]);
      store_errors(machine, absolute_sums[j], broadcast_single(0.0f), errors + row + j * kSingles);
    }
  }
}

void round_to_single(const double* numbers, std::ptrdiff_t count, float* rounded) {
  for (std::ptrdiff_t i = 0; i < count; ++i) rounded[i] = static_cast<float>(numbers[i]);
}

bool filter_votes(const float* values, const float* errors, std::uint16_t positive, std::uint16_t negative,
                  std::uint16_t* codes, std::uint8_t* certain) {
  int known = 0;
  for (int i = 0; i < kTile; ++i) {
    codes[i] = values[i] > 0.0f ? positive : negative;
    const float size = values[i] > 0.0f ? values[i] : -values[i];
    certain[i] = size > errors[i];  // not if one is NaN
    known += certain[i];
  }
  return known == kTile;
}

}  // namespace pacbayes::PACBAYES_INSTRUCTIONS
