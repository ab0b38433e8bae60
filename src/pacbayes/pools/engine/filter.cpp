// Decision values in single precision, with bounds on their errors: see filter.h. Compiled once per instruction set.

#include "pack.h"
#include "routines.h"

namespace pacbayes::PACBAYES_INSTRUCTIONS {

namespace {

constexpr int kSingles = 2 * kLanes;

// Packs of rows that are processed together, with kBlock points.
constexpr int kPacks = kLanes == 8 ? 4 : 2;
static_assert(kTile % (kPacks * kSingles) == 0);

// Not std::min: see pack.h.
inline std::ptrdiff_t smaller(std::ptrdiff_t a, std::ptrdiff_t b) { return a < b ? a : b; }

inline Singles absolute(Singles x) { return maximum(x, broadcast_single(0.0f) - x); }

// Decision values at some packs of rows, and the sums of the absolute values of what is added. Values are added up in
// runs, and the runs with what rounding takes away from their sum.
class DecisionSums {
 public:
  explicit DecisionSums(const FilterMachine& machine) : machine_(machine) {
    for (int j = 0; j < kPacks; ++j) {
      total_[j] = broadcast_single(machine.intercept);
      absolute_total_[j] = absolute(total_[j]);
      lost_[j] = run_[j] = absolute_run_[j] = broadcast_single(0.0f);
    }
  }

  void add(int j, Singles weight, Singles kernel) {
    run_[j] = multiply_add(weight, kernel, run_[j]);
    absolute_run_[j] = multiply_add(absolute(weight), kernel, absolute_run_[j]);
  }

  void end_run() {
    for (int j = 0; j < kPacks; ++j) {
      const Singles sum = total_[j] + run_[j], added = sum - total_[j];  // Knuth's TwoSum
      lost_[j] = lost_[j] + ((total_[j] - (sum - added)) + (run_[j] - added));
      total_[j] = sum;
      absolute_total_[j] = absolute_total_[j] + absolute_run_[j];
      run_[j] = absolute_run_[j] = broadcast_single(0.0f);
    }
  }

  // Write the values and bounds on their errors, given those of the exponents. Bounds are computed in single precision
  // as well, hence the factor.
  void write(int j, Singles exponent_error, float* values, float* errors) const {
    constexpr float kRounding = 1.01f, kLargestExponentError = 0.5f;
    const Singles relative = exponent_error + broadcast_single(machine_.sum_error);
    const Singles error =
        relative * absolute_total_[j] * broadcast_single(kRounding) + broadcast_single(machine_.constant);
    const Singles useless = broadcast_single(std::numeric_limits<float>::infinity());
    store(values + j * kSingles, total_[j] + lost_[j]);
    store(errors + j * kSingles, select(broadcast_single(kLargestExponentError) > exponent_error, error, useless));
  }

 private:
  const FilterMachine& machine_;
  Singles total_[kPacks], lost_[kPacks], absolute_total_[kPacks], run_[kPacks], absolute_run_[kPacks];
};

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
  double exact_squares[kTile] = {};
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
      for (int i = 0; i < kTile; ++i) exact_squares[i] += relative[i] * relative[i];
  }
  for (int i = 0; i < kTile; ++i) squares[i] = static_cast<float>(exact_squares[i]);
}

void filter_values(const FilterMachine& machine, const float* centred, const float* squares, float* values,
                   float* errors) {
  const std::ptrdiff_t d = machine.d, n_numbers = d - machine.n_categories;
  const Singles zero = broadcast_single(0.0f), differ = broadcast_single(-2.0f * machine.rate);
  for (int row = 0; row < kTile; row += kPacks * kSingles) {
    const float* const rows = centred + row;
    Singles offsets[kPacks];  // g |w x|^2
    for (int j = 0; j < kPacks; ++j)
      offsets[j] = machine.weights ? zero : broadcast_single(machine.rate) * load_singles(squares + row + j * kSingles);
    if (machine.weights)
      for (std::ptrdiff_t begin = 0; begin < n_numbers; begin += kFeatureRun) {
        Singles run[kPacks];
        for (auto& sum : run) sum = zero;
        for (std::ptrdiff_t k = begin; k < smaller(begin + kFeatureRun, n_numbers); ++k) {
          const Singles weight = broadcast_single(machine.weights[k]);
          for (int j = 0; j < kPacks; ++j) {
            const Singles feature = load_singles(rows + k * kTile + j * kSingles);
            run[j] = multiply_add(weight * feature, feature, run[j]);
          }
        }
        for (int j = 0; j < kPacks; ++j) offsets[j] = offsets[j] + run[j];
      }
    DecisionSums sums(machine);
    for (std::ptrdiff_t first = 0; first < machine.n_support; first += kSupportRun) {
      const std::ptrdiff_t end = smaller(first + kSupportRun, machine.n_support);
      for (std::ptrdiff_t p = first; p < end; p += kBlock) {
        const float* vectors = machine.vectors + p * d;
        Singles exponents[kBlock][kPacks];
        for (auto& of_vector : exponents)
          for (auto& exponent : of_vector) exponent = zero;
        for (std::ptrdiff_t begin = 0; begin < n_numbers; begin += kFeatureRun) {
          Singles run[kBlock][kPacks];
          for (auto& of_vector : run)
            for (auto& sum : of_vector) sum = zero;
          for (std::ptrdiff_t k = begin; k < smaller(begin + kFeatureRun, n_numbers); ++k) {
            Singles features[kPacks];
            for (int j = 0; j < kPacks; ++j) features[j] = load_singles(rows + k * kTile + j * kSingles);
            for (int q = 0; q < kBlock; ++q) {
              const Singles feature = broadcast_single(vectors[q * d + k]);
              for (int j = 0; j < kPacks; ++j) run[q][j] = multiply_add(feature, features[j], run[q][j]);
            }
          }
          for (int q = 0; q < kBlock; ++q)
            for (int j = 0; j < kPacks; ++j) exponents[q][j] = exponents[q][j] + run[q][j];
        }
        for (int q = 0; q < kBlock; ++q)
          for (int j = 0; j < kPacks; ++j)
            exponents[q][j] = exponents[q][j] - (broadcast_single(machine.offsets[p + q]) + offsets[j]);
        if (machine.n_categories > 0) {
          Singles different[kBlock][kPacks];
          for (auto& of_vector : different)
            for (auto& count : of_vector) count = zero;
          for (std::ptrdiff_t k = n_numbers; k < d; ++k)
            for (int q = 0; q < kBlock; ++q) {
              const Singles category = broadcast_single(vectors[q * d + k]);
              for (int j = 0; j < kPacks; ++j) {
                const Singles other = load_singles(rows + k * kTile + j * kSingles);
                different[q][j] = different[q][j] + select(category == other, zero, broadcast_single(1.0f));
              }
            }
          for (int q = 0; q < kBlock; ++q)
            for (int j = 0; j < kPacks; ++j) exponents[q][j] = multiply_add(differ, different[q][j], exponents[q][j]);
        }
        for (int q = 0; q < kBlock; ++q) {
          const Singles coefficient = broadcast_single(machine.coefficients[p + q]);
          for (int j = 0; j < kPacks; ++j) sums.add(j, coefficient, power_of_two(exponents[q][j]));
        }
      }
      sums.end_run();
    }
    const Singles own = broadcast_single(machine.offset_error), common = broadcast_single(machine.exponent_error);
    for (int j = 0; j < kPacks; ++j) {
      const Singles both = offsets[j] + broadcast_single(machine.largest_offset);  // g (X^2 + S^2)
      const Singles exponent_error = own * offsets[j] + common * both + broadcast_single(machine.exponent_constant);
      sums.write(j, exponent_error, values + row, errors + row);
    }
  }
}

void filter_exponentials(const float* squared, const double* nearest, const std::int32_t* rows, const float* weights,
                         std::ptrdiff_t count, const FilterMachine& machine, float* values, float* errors) {
  const Singles rate = broadcast_single(-machine.rate);
  for (int row = 0; row < kTile; row += kPacks * kSingles) {
    DecisionSums sums(machine);
    for (std::ptrdiff_t first = 0; first < count; first += kSupportRun) {
      for (std::ptrdiff_t p = first; p < smaller(first + kSupportRun, count); ++p) {
        if (machine.rate * nearest[rows[p]] > -kMinPower) continue;  // for large gamma most
        const Singles weight = broadcast_single(weights[p]);
        const float* from = squared + static_cast<std::ptrdiff_t>(rows[p]) * kTile + row;
        for (int j = 0; j < kPacks; ++j) sums.add(j, weight, power_of_two(rate * load_singles(from + j * kSingles)));
      }
      sums.end_run();
    }
    for (int j = 0; j < kPacks; ++j) sums.write(j, broadcast_single(0.0f), values + row, errors + row);
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
