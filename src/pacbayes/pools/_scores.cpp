// pacbayes.pools._scores: scores of classes, or numbers, by sums of leaves of trees and by linear models, which are
// trained here, too. Every score is a sum in one order, whatever rows are computed together, and the GIL is released
// meanwhile.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "../_texts.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// ------------------------------------------------------------------------------------------------------
// Trees
// ------------------------------------------------------------------------------------------------------

// A split: points go to `child` if their feature is at most the threshold, or in the set, and to the node after it if
// not. A leaf is its own child, whatever the point.
struct Node {
  double threshold;       // of a set, its number
  std::uint32_t feature;  // with the flags
  std::uint32_t child;
};

constexpr std::uint32_t kIsSet = 1u << 31, kMissingRight = 1u << 30, kFeature = kMissingRight - 1;

constexpr int kSetWords = 4;  // of 64 categories each
using Set = std::uint64_t[kSetWords];

// Rows that are led through a tree together, so that the processor need not wait for any of them.
constexpr std::size_t kTogether = 8;

// Bytes of rows that are led through all trees before the next ones.
constexpr std::size_t kBlockBytes = 1 << 17;

struct Tree {
  std::uint32_t root;
  std::uint32_t output;  // to which its leaves are added
};

// Trees of one hypothesis.
class Trees {
 public:
  // The arrays hold the nodes of one tree after another, each in the order in which it is met when left children come
  // before right ones: `feature` is that of the split, -1 for a leaf. The other arrays are about the splits and the
  // leaves in that order; features below `n_sets` split by sets. Leaves are numbers of rows of `values`.
  Trees(std::int64_t n_features, std::int64_t n_set_features, std::int64_t n_outputs, bool one_output_each,
           Vector<std::int64_t> tree_sizes, Vector<std::int32_t> feature, Vector<double> threshold,
           Vector<bool> missing_left, Matrix<std::uint64_t> sets, Vector<std::int32_t> leaf, Vector<double> values)
      : n_features_(n_features), n_outputs_(n_outputs), width_(one_output_each ? 1 : n_outputs) {
    require(n_features >= 1 && n_features < kFeature, "n_features must be positive and less than 2^30");
    require(n_outputs >= 1, "n_outputs must be positive");
    const std::size_t n_nodes = feature.shape(0);
    require(n_nodes < kMissingRight, "there are too many nodes");
    require(missing_left.shape(0) == threshold.shape(0), "threshold and missing_left must have the same length");
    require(sets.shape(1) == kSetWords, "sets must have four words each");
    require(values.shape(0) % width_ == 0, "values must hold whole leaves");
    const auto n_leaves = static_cast<std::int64_t>(values.shape(0) / width_);
    nodes_.reserve(n_nodes);
    leaf_.assign(n_nodes, 0);
    values_.assign(values.data(), values.data() + values.shape(0));
    std::size_t at = 0, split = 0, set = 0, end = 0;
    std::vector<std::uint32_t> open;  // places of nodes that are still to come
    for (std::size_t t = 0; t < tree_sizes.shape(0); ++t) {
      const std::int64_t size = tree_sizes.data()[t];
      require(size >= 1 && static_cast<std::size_t>(size) <= n_nodes - at, "tree_sizes must add up to the nodes");
      trees_.push_back({static_cast<std::uint32_t>(nodes_.size()),
                        one_output_each ? static_cast<std::uint32_t>(t % static_cast<std::size_t>(n_outputs)) : 0});
      open.assign(1, static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({});
      for (std::int64_t i = 0; i < size; ++i, ++at) {
        require(!open.empty(), "a tree must not go on after its last leaf");
        const std::uint32_t place = open.back();
        open.pop_back();
        const std::int32_t of = feature.data()[at];
        if (of < 0) {
          require(end < leaf.shape(0), "leaf must have an entry for each leaf");
          const std::int32_t number = leaf.data()[end++];
          require(number >= 0 && number < n_leaves, "leaf must name rows of values");
          leaf_[place] = static_cast<std::uint32_t>(number);
          nodes_[place] = {std::numeric_limits<double>::infinity(), 0, place};
          continue;
        }
        require(of < n_features, "feature must be less than n_features");
        require(split < threshold.shape(0), "threshold must have an entry for each split");
        require(nodes_.size() + 2 <= n_nodes, "a tree must have a leaf at the end of each branch");
        Node node{threshold.data()[split], static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(nodes_.size())};
        if (!missing_left.data()[split]) node.feature |= kMissingRight;
        if (of < n_set_features) {
          require(set < sets.shape(0), "sets must have an entry for each split by a set");
          node.feature |= kIsSet;
          node.threshold = static_cast<double>(set++);
        }
        ++split;
        nodes_[place] = node;
        open.push_back(node.child + 1);
        open.push_back(node.child);
        nodes_.resize(nodes_.size() + 2);
      }
      require(open.empty(), "a tree must have a leaf at the end of each branch");
    }
    const bool complete = at == n_nodes && split == threshold.shape(0) && set == sets.shape(0) && end == leaf.shape(0);
    require(complete, "arrays must hold the nodes of the trees and no more");
    sets_.resize(set * kSetWords);
    if (set) std::memcpy(sets_.data(), sets.data(), set * sizeof(Set));
  }

  // Add the leaves that rows reach, tree after tree, to their outputs.
  template <class T>
  void add_scores(Matrix<T> X, OutMatrix<double> out) const {
    const std::size_t n = X.shape(0), d = X.shape(1);
    require(static_cast<std::int64_t>(d) == n_features_, "X must have n_features columns");
    require(out.shape(0) == n && out.shape(1) == n_outputs_, "out must have a row for each row of X");
    nb::gil_scoped_release unlocked;
    const std::size_t fitting = std::max<std::size_t>(kBlockBytes / (d * sizeof(T)), 4 * kTogether);
    for (std::size_t begin = 0; begin < n; begin += fitting) {
      const std::size_t count = std::min(fitting, n - begin);
      const T* const rows = X.data() + begin * d;
      double* const to = out.data() + begin * n_outputs_;
      sets_.empty() ? add_block<T, false>(rows, count, d, to) : add_block<T, true>(rows, count, d, to);
    }
  }

 private:
  template <class T, bool kSets>
  void add_block(const T* rows, std::size_t count, std::size_t d, double* to) const {
    std::uint32_t at[kTogether];
    for (const Tree& tree : trees_) {
      for (std::size_t begin = 0; begin < count; begin += kTogether) {
        const std::size_t together = std::min(kTogether, count - begin);
        lead<T, kSets>(rows + begin * d, together, d, tree.root, at);
        for (std::size_t i = 0; i < together; ++i) {
          double* const sum = to + (begin + i) * n_outputs_ + tree.output;
          const double* const value = values_.data() + leaf_[at[i]] * width_;
          for (std::size_t k = 0; k < width_; ++k) sum[k] += value[k];
        }
      }
    }
  }

  template <class T, bool kSets>
  void lead(const T* rows, std::size_t count, std::size_t d, std::uint32_t root, std::uint32_t* at) const {
    const Node* const nodes = nodes_.data();
    std::size_t start[kTogether];
    for (std::size_t i = 0; i < kTogether; ++i) {
      at[i] = root;
      start[i] = std::min(i, count - 1) * d;  // the last one again, where there are fewer
    }
    std::uint32_t moved;
    do {
      moved = 0;
      for (std::size_t i = 0; i < kTogether; ++i) {
        const Node node = nodes[at[i]];
        const double x = static_cast<double>(rows[start[i] + (node.feature & kFeature)]);
        std::uint32_t is_right =
            static_cast<std::uint32_t>(x > node.threshold) | ((x != x) & ((node.feature & kMissingRight) != 0));
        if (kSets && (node.feature & kIsSet)) is_right = is_outside(x, node);
        const std::uint32_t next = node.child + is_right;
        moved |= next ^ at[i];
        at[i] = next;
      }
    } while (moved);
  }

  // Whether a category is not in the set of a node. One that no set could hold is missing.
  std::uint32_t is_outside(double x, const Node& node) const {
    if (!(x >= 0 && x < 64 * kSetWords)) return (node.feature & kMissingRight) != 0;
    const auto category = static_cast<std::uint32_t>(x);
    const std::uint64_t word = sets_[static_cast<std::size_t>(node.threshold) * kSetWords + category / 64];
    return static_cast<std::uint32_t>(~(word >> (category % 64)) & 1);
  }

  std::int64_t n_features_;
  std::size_t n_outputs_, width_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> leaf_;
  std::vector<double> values_;
  std::vector<std::uint64_t> sets_;
  std::vector<Tree> trees_;
};

// ------------------------------------------------------------------------------------------------------
// Rows of tables
// ------------------------------------------------------------------------------------------------------

// Where a category is in a table of so many entries: the first is for those that are unknown, whose number is -1.
std::size_t entry_of(double category, std::size_t size) {
  return category >= 0 && category + 1 < static_cast<double>(size) ? static_cast<std::size_t>(category) + 1 : 0;
}

// What stands for the size of a table of the parts of a text.
constexpr std::int64_t kOfText = -1;

std::int64_t count_entries(std::int64_t table_size) {
  return table_size == kOfText ? static_cast<std::int64_t>(pacbayes::kTextParts) : table_size;
}

// How many columns of X have a table together.
std::size_t count_columns(std::int64_t table_size) { return table_size == kOfText ? pacbayes::kTextColumns : 1; }

// Write features: columns of X as they are, where they have no table, and otherwise what tables, one after another,
// hold for their categories, or the sum of what they hold for the parts of their texts.
template <class T>
void encode(Matrix<double> X, Vector<std::int32_t> columns, Vector<std::int64_t> table_sizes, Vector<double> tables,
            OutMatrix<T> out) {
  const std::size_t n = X.shape(0), d = X.shape(1), n_features = columns.shape(0);
  require(table_sizes.shape(0) == n_features, "columns and table_sizes must have the same length");
  require(out.shape(0) == n && out.shape(1) == n_features, "out must have a column for each feature");
  const double* table = tables.data();
  std::int64_t left = static_cast<std::int64_t>(tables.shape(0));
  for (std::size_t k = 0; k < n_features; ++k) {
    const std::int64_t size = count_entries(table_sizes.data()[k]), column = columns.data()[k];
    const auto last = static_cast<std::int64_t>(d) - static_cast<std::int64_t>(count_columns(table_sizes.data()[k]));
    require(column >= 0 && column <= last, "columns must be those of X");
    require(size >= 0 && size <= left, "table_sizes must add up to the tables");
    left -= size;
  }
  require(left == 0, "table_sizes must add up to the tables");
  nb::gil_scoped_release unlocked;
  for (std::size_t k = 0; k < n_features; ++k) {
    const auto size = static_cast<std::size_t>(count_entries(table_sizes.data()[k]));
    const double* const column = X.data() + columns.data()[k];
    T* const to = out.data() + k;
    for (std::size_t i = 0; i < n; ++i) {
      double x = column[i * d];
      if (table_sizes.data()[k] == kOfText) {
        x = 0;
        pacbayes::for_each_part(column + i * d, [&](std::size_t part) { x += table[part]; });
      } else if (size) {
        x = table[entry_of(x, size)];
      }
      to[i * n_features] = static_cast<T>(x);
    }
    table += size;
  }
}

// ------------------------------------------------------------------------------------------------------
// Linear models
// ------------------------------------------------------------------------------------------------------

// Knots of splines, and how many splines they make.
constexpr std::size_t kKnots = 5, kBasis = kKnots + 2;

// Add the values of the cubic splines of a number, multiplied by their coefficients, to scores.
void add_splines(double x, double low, double step, const double* coefficients, std::size_t n_outputs, double* to) {
  const double given = (x - low) / step;  // not a number, if a knot is not
  const double place = given > 0 ? std::min(given, static_cast<double>(kKnots - 1)) : 0.0;
  const std::size_t interval = std::min(static_cast<std::size_t>(place), kKnots - 2);
  const double t = place - static_cast<double>(interval), r = 1 - t;
  const double pieces[] = {r * r * r, 3 * t * t * t - 6 * t * t + 4, -3 * t * t * t + 3 * t * t + 3 * t + 1, t * t * t};
  for (std::size_t k = 0; k < n_outputs; ++k) {
    double sum = 0;
    for (std::size_t piece = 0; piece < 4; ++piece)
      sum += coefficients[(interval + piece) * n_outputs + k] * (pieces[piece] / 6);
    to[k] += sum;
  }
}

// Write scores: intercepts, plus coefficients times the numbers, each without its center, or times their splines, if
// there are steps between knots; plus what the tables of the categories, which are the last columns, hold: a row of
// scores for each entry. Missing numbers are taken for the center.
template <class T>
void linear_scores(Matrix<T> X, Vector<double> center, Vector<double> low, Vector<double> step,
                   Matrix<double> coefficients, Vector<std::int64_t> table_sizes, Matrix<double> tables,
                   Vector<double> intercepts, OutMatrix<double> out) {
  const std::size_t n = X.shape(0), d = X.shape(1), p = center.shape(0), n_outputs = intercepts.shape(0);
  const bool splines = step.shape(0) > 0;
  require(low.shape(0) == step.shape(0) && (!splines || step.shape(0) == p), "low and step must have an entry per number");
  for (std::size_t j = 0; j < step.shape(0); ++j) require(step.data()[j] > 0, "step must be positive");
  require(coefficients.shape(0) == (splines ? kBasis * p : p) && coefficients.shape(1) == n_outputs,
          "coefficients must have a row per number, or spline");
  require(out.shape(0) == n && out.shape(1) == n_outputs, "out must have a row for each row of X");
  std::int64_t left = static_cast<std::int64_t>(tables.shape(0));
  std::size_t width = p;
  for (std::size_t c = 0; c < table_sizes.shape(0); ++c) {
    const std::int64_t size = count_entries(table_sizes.data()[c]);
    require(size >= 1 && size <= left, "table_sizes must add up to the tables");
    left -= size;
    width += count_columns(table_sizes.data()[c]);
  }
  require(width == d, "X must have columns for each number and each table");
  require(left == 0 && tables.shape(1) == n_outputs, "table_sizes must add up to the tables");
  nb::gil_scoped_release unlocked;
  for (std::size_t begin = 0; begin < n; begin += kTogether) {
    const std::size_t together = std::min(kTogether, n - begin);
    const T* const rows = X.data() + begin * d;
    double* const to = out.data() + begin * n_outputs;
    for (std::size_t i = 0; i < together; ++i) std::copy_n(intercepts.data(), n_outputs, to + i * n_outputs);
    for (std::size_t j = 0; j < p; ++j) {
      const double* const coefficient = coefficients.data() + j * n_outputs * (splines ? kBasis : 1);
      for (std::size_t i = 0; i < together; ++i) {
        const double given = static_cast<double>(rows[i * d + j]), x = given == given ? given : center.data()[j];
        double* const score = to + i * n_outputs;
        if (splines)
          add_splines(x, low.data()[j], step.data()[j], coefficient, n_outputs, score);
        else
          for (std::size_t k = 0; k < n_outputs; ++k) score[k] += coefficient[k] * (x - center.data()[j]);
      }
    }
    const double* table = tables.data();
    std::size_t j = p;
    for (std::size_t c = 0; c < table_sizes.shape(0); ++c) {
      const auto size = static_cast<std::size_t>(count_entries(table_sizes.data()[c]));
      for (std::size_t i = 0; i < together; ++i) {
        const auto add = [&](std::size_t entry) {
          for (std::size_t k = 0; k < n_outputs; ++k) to[i * n_outputs + k] += table[entry * n_outputs + k];
        };
        if (table_sizes.data()[c] == kOfText)
          pacbayes::for_each_part(rows + i * d + j, add);
        else
          add(entry_of(static_cast<double>(rows[i * d + j]), size));
      }
      j += count_columns(table_sizes.data()[c]);
      table += size * n_outputs;
    }
  }
}

// Turn the scores of a row into probabilities, in place, and return the logarithm of the sum of their exponentials.
double to_probabilities(double* scores, std::size_t n_outputs) {
  const double largest = *std::max_element(scores, scores + n_outputs);
  double sum = 0;
  for (std::size_t k = 0; k < n_outputs; ++k) sum += scores[k] = std::exp(scores[k] - largest);
  for (std::size_t k = 0; k < n_outputs; ++k) scores[k] /= sum;
  return largest + std::log(sum);
}

// Turn the score of the second of two classes into its probability, or scores of several into theirs, in place.
void probabilities(OutMatrix<double> scores) {
  const std::size_t n = scores.shape(0), n_outputs = scores.shape(1);
  require(n_outputs >= 1, "scores must have a column");
  nb::gil_scoped_release unlocked;
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = scores.data() + i * n_outputs;
    if (n_outputs > 1)
      to_probabilities(row, n_outputs);
    else
      row[0] = 1 / (1 + std::exp(-row[0]));
  }
}

// The mean loss of a linear model with a penalty, as a function of its weights: these have a row for each number, for each
// category, and for the intercepts, which are not penalised. It is the logistic loss of classes, or half the squared error
// of numbers.
template <class Target>
struct Problem {
  const double* numbers;           // (n, p), standardised
  const std::int32_t* categories;  // (n, c), as rows of weights
  const double* texts;             // (n, n_texts * kTextColumns); their parts have the last weights before the intercepts
  const Target* targets;
  std::size_t n, p, c, n_texts, n_weights, n_outputs;
  double penalty;

  double loss(const double* w, double* g) const {
    std::fill_n(g, n_weights * n_outputs, 0.0);
    std::vector<double> scores(kTogether * n_outputs);
    double total = 0;
    for (std::size_t begin = 0; begin < n; begin += kTogether) {
      const std::size_t together = std::min(kTogether, n - begin);
      const double* const rows = numbers + begin * p;
      for (std::size_t i = 0; i < together; ++i) {
        std::copy_n(w + (n_weights - 1) * n_outputs, n_outputs, scores.data() + i * n_outputs);
        for (std::size_t j = 0; j < c; ++j) {
          const double* const added = w + categories[(begin + i) * c + j] * n_outputs;
          for (std::size_t k = 0; k < n_outputs; ++k) scores[i * n_outputs + k] += added[k];
        }
        for_each_part_of(begin + i, [&](std::size_t row) {
          for (std::size_t k = 0; k < n_outputs; ++k) scores[i * n_outputs + k] += w[row * n_outputs + k];
        });
      }
      for (std::size_t j = 0; j < p; ++j)
        for (std::size_t i = 0; i < together; ++i) {
          const double x = rows[i * p + j];
          for (std::size_t k = 0; k < n_outputs; ++k) scores[i * n_outputs + k] += x * w[j * n_outputs + k];
        }
      for (std::size_t i = 0; i < together; ++i) total += add_residuals(begin + i, scores.data() + i * n_outputs, g);
      for (std::size_t j = 0; j < p; ++j)
        for (std::size_t i = 0; i < together; ++i) {
          const double x = rows[i * p + j];
          for (std::size_t k = 0; k < n_outputs; ++k) g[j * n_outputs + k] += x * scores[i * n_outputs + k];
        }
    }
    const double count = static_cast<double>(n);
    double squares = 0;
    for (std::size_t at = 0; at < n_weights * n_outputs; ++at) {
      g[at] /= count;
      if (at >= (n_weights - 1) * n_outputs) continue;
      squares += w[at] * w[at];
      g[at] += penalty * w[at];
    }
    return total / count + penalty * squares / 2;
  }

 private:
  // Call a function with the row of weights of each part of the texts of a point.
  template <class Use>
  void for_each_part_of(std::size_t point, Use use) const {
    std::size_t first = n_weights - 1 - n_texts * pacbayes::kTextParts;
    for (std::size_t t = 0; t < n_texts; ++t, first += pacbayes::kTextParts)
      pacbayes::for_each_part(texts + (point * n_texts + t) * pacbayes::kTextColumns,
                              [&](std::size_t part) { use(first + part); });
  }

  // Return the loss of a point, put residuals in the place of its scores, and add them to the gradient by the intercepts
  // and by its categories.
  double add_residuals(std::size_t point, double* score, double* g) const {
    const Target code = targets[point];
    double loss;
    if constexpr (std::is_floating_point_v<Target>) {
      score[0] -= code;
      loss = score[0] * score[0] / 2;
    } else if (n_outputs == 1) {
      const double margin = code ? score[0] : -score[0], decay = std::exp(-std::fabs(margin));
      loss = std::log1p(decay) + (margin < 0 ? -margin : 0.0);
      const double missed = margin < 0 ? 1 / (1 + decay) : decay / (1 + decay);  // probability of the other class
      score[0] = code ? -missed : missed;
    } else {
      loss = -score[code];
      loss += to_probabilities(score, n_outputs);
      score[code] -= 1;
    }
    for (std::size_t j = 0; j < c; ++j) {
      double* const added = g + categories[point * c + j] * n_outputs;
      for (std::size_t k = 0; k < n_outputs; ++k) added[k] += score[k];
    }
    for_each_part_of(point, [&](std::size_t row) {
      for (std::size_t k = 0; k < n_outputs; ++k) g[row * n_outputs + k] += score[k];
    });
    for (std::size_t k = 0; k < n_outputs; ++k) g[(n_weights - 1) * n_outputs + k] += score[k];
    return loss;
  }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Differences of weights and gradients over the last steps.
struct Step {
  std::vector<double> weights, gradient;
  double product;
};

// Minus the gradient times an approximation of the inverse of the second derivatives (J. Nocedal, Updating quasi-Newton
// matrices with limited storage, Mathematics of Computation 35, 1980).
std::vector<double> direction_by(const std::vector<Step>& steps, std::vector<double> q) {
  std::vector<double> shares(steps.size());
  for (std::size_t s = steps.size(); s-- > 0;) {
    shares[s] = dot(steps[s].weights, q) / steps[s].product;
    for (std::size_t i = 0; i < q.size(); ++i) q[i] -= shares[s] * steps[s].gradient[i];
  }
  const double scale = steps.empty() ? 1.0 : steps.back().product / dot(steps.back().gradient, steps.back().gradient);
  for (double& value : q) value *= scale;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const double share = shares[s] - dot(steps[s].gradient, q) / steps[s].product;
    for (std::size_t i = 0; i < q.size(); ++i) q[i] += share * steps[s].weights[i];
  }
  for (double& value : q) value = -value;
  return q;
}

// Minimise the problem from the weights given, which are replaced, until no entry of the gradient exceeds the tolerance
// or no step leads down.
template <class Target>
void minimise(const Problem<Target>& problem, double* weights, double tolerance, int most_steps) {
  constexpr std::size_t kMemory = 10;
  constexpr int kMostHalvings = 40;
  const std::size_t size = problem.n_weights * problem.n_outputs;
  std::vector<double> at(weights, weights + size), gradient(size), next(size), next_gradient(size);
  std::vector<Step> steps;
  double loss = problem.loss(at.data(), gradient.data());
  for (int step = 0; step < most_steps; ++step) {
    double largest = 0;
    for (const double value : gradient) largest = std::max(largest, std::fabs(value));
    if (!(largest > tolerance)) break;
    std::vector<double> direction = direction_by(steps, gradient);
    double slope = dot(direction, gradient);
    double length = steps.empty() ? std::min(1.0, 1 / std::sqrt(dot(gradient, gradient))) : 1.0;
    bool lower = false;
    double next_loss = loss;
    for (int halving = 0; halving < kMostHalvings && slope < 0 && !lower; ++halving) {
      for (std::size_t i = 0; i < size; ++i) next[i] = at[i] + length * direction[i];
      next_loss = problem.loss(next.data(), next_gradient.data());
      lower = next_loss <= loss + 1e-4 * length * slope;
      if (!lower) length /= 2;
    }
    if (!lower) break;
    Step taken{std::vector<double>(size), std::vector<double>(size), 0};
    for (std::size_t i = 0; i < size; ++i) {
      taken.weights[i] = next[i] - at[i];
      taken.gradient[i] = next_gradient[i] - gradient[i];
    }
    taken.product = dot(taken.weights, taken.gradient);
    if (taken.product > 1e-12 * dot(taken.gradient, taken.gradient)) {
      if (steps.size() == kMemory) steps.erase(steps.begin());
      steps.push_back(std::move(taken));
    }
    at.swap(next);
    gradient.swap(next_gradient);
    loss = next_loss;
  }
  std::copy(at.begin(), at.end(), weights);
}

// Weights up to which those of numbers are found by a factorisation, rather than step by step, where there are no texts,
// of which each point has few parts.
constexpr std::size_t kMostFactored = 1500;

// What of a pivot must be left of its column for more than rounding to be there.
constexpr double kLeastPivot = 1e-13;

// The least squared error with a penalty, by Cholesky's factorisation of the normal equations: row by row of its lower
// triangle, so that every sum is in one order. A column that others make up, which only a vanishing penalty allows, has no
// weight.
void solve_least_squares(const Problem<double>& problem, double* weights) {
  const std::size_t m = problem.n_weights;
  std::vector<double> normal(m * m, 0.0), row(m, 0.0), right(m, 0.0);
  for (std::size_t i = 0; i < problem.n; ++i) {
    std::copy_n(problem.numbers + i * problem.p, problem.p, row.begin());
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(problem.p), row.end(), 0.0);
    for (std::size_t j = 0; j < problem.c; ++j) row[problem.categories[i * problem.c + j]] = 1;
    row[m - 1] = 1;
    for (std::size_t a = 0; a < m; ++a) {
      if (row[a] == 0) continue;  // most categories and splines
      double* const to = normal.data() + a * m;
      for (std::size_t b = 0; b <= a; ++b) to[b] += row[a] * row[b];
      right[a] += row[a] * problem.targets[i];
    }
  }
  const double penalty = problem.penalty * static_cast<double>(problem.n);
  std::vector<bool> is_left_out(m, false);
  for (std::size_t a = 0; a < m; ++a) {
    double* const own = normal.data() + a * m;
    if (a + 1 < m) own[a] += penalty;
    const double whole = own[a];
    for (std::size_t b = 0; b <= a; ++b) {
      const double* const other = normal.data() + b * m;
      double sum = own[b];
      for (std::size_t k = 0; k < b; ++k) sum -= own[k] * other[k];
      own[b] = a == b ? sum : is_left_out[b] ? 0.0 : sum / other[b];
    }
    is_left_out[a] = !(own[a] > kLeastPivot * whole);
    own[a] = is_left_out[a] ? 1.0 : std::sqrt(own[a]);
  }
  for (std::size_t a = 0; a < m; ++a) {
    for (std::size_t b = 0; b < a; ++b) right[a] -= normal[a * m + b] * right[b];
    right[a] = is_left_out[a] ? 0.0 : right[a] / normal[a * m + a];
  }
  for (std::size_t a = m; a-- > 0;) {
    for (std::size_t b = a + 1; b < m; ++b) right[a] -= normal[b * m + a] * right[b];
    right[a] = is_left_out[a] ? 0.0 : right[a] / normal[a * m + a];
  }
  std::copy(right.begin(), right.end(), weights);
}

// Train a logistic regression, or a ridge regression if targets are numbers.
template <class Target>
void train_linear(Matrix<double> numbers, Matrix<std::int32_t> categories, Matrix<double> texts, Vector<Target> targets,
                  double penalty, double tolerance, int most_steps, OutMatrix<double> weights) {
  using pacbayes::kTextColumns, pacbayes::kTextParts;
  constexpr bool kIsNumber = std::is_floating_point_v<Target>;
  const std::size_t n = numbers.shape(0), p = numbers.shape(1), c = categories.shape(1);
  const std::size_t n_weights = weights.shape(0), n_outputs = weights.shape(1), n_texts = texts.shape(1) / kTextColumns;
  const auto n_classes = static_cast<std::int64_t>(std::max<std::size_t>(n_outputs, 2));
  require(n >= 1 && categories.shape(0) == n && texts.shape(0) == n && targets.shape(0) == n,
          "arrays must have a row for each point");
  require(texts.shape(1) % kTextColumns == 0, "texts must have columns for all their parts");
  require(n_weights >= p + n_texts * kTextParts + 1 && n_outputs >= 1,
          "weights must have a row for each number, each part of a text and the intercepts");
  require(!kIsNumber || n_outputs == 1, "numbers must have one output");
  for (std::size_t i = 0; i < n; ++i)
    require(kIsNumber ? std::isfinite(targets.data()[i]) : targets.data()[i] >= 0 && targets.data()[i] < n_classes,
            "targets must be finite, or those of classes");
  for (std::size_t i = 0; i < n * c; ++i) {
    const std::int64_t row = categories.data()[i];
    require(row >= static_cast<std::int64_t>(p) && row < static_cast<std::int64_t>(n_weights - n_texts * kTextParts) - 1,
            "categories must name rows of weights");
  }
  nb::gil_scoped_release unlocked;
  const Problem<Target> problem{numbers.data(), categories.data(), texts.data(), targets.data(), n, p, c, n_texts,
                                n_weights, n_outputs, penalty};
  if constexpr (kIsNumber)
    if (n_weights <= kMostFactored && n_texts == 0) return solve_least_squares(problem, weights.data());
  minimise(problem, weights.data(), tolerance, most_steps);
}

}  // namespace

NB_MODULE(_scores, module) {
  module.doc() = "Scores of classes, or numbers, by trees and by linear models.";
  nb::class_<Trees>(module, "Trees", "Trees of one hypothesis, checked once.")
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t, bool, Vector<std::int64_t>, Vector<std::int32_t>,
                    Vector<double>, Vector<bool>, Matrix<std::uint64_t>, Vector<std::int32_t>, Vector<double>>(),
           "n_features"_a, "n_set_features"_a, "n_outputs"_a, "one_output_each"_a, "tree_sizes"_a.noconvert(),
           "feature"_a.noconvert(), "threshold"_a.noconvert(), "missing_left"_a.noconvert(), "sets"_a.noconvert(),
           "leaf"_a.noconvert(), "values"_a.noconvert())
      .def("add_scores", &Trees::add_scores<double>, "X"_a.noconvert(), "out"_a.noconvert())
      .def("add_scores", &Trees::add_scores<float>, "X"_a.noconvert(), "out"_a.noconvert());
  module.def("encode", encode<double>, "X"_a.noconvert(), "columns"_a.noconvert(), "table_sizes"_a.noconvert(),
             "tables"_a.noconvert(), "out"_a.noconvert());
  module.def("encode", encode<float>, "X"_a.noconvert(), "columns"_a.noconvert(), "table_sizes"_a.noconvert(),
             "tables"_a.noconvert(), "out"_a.noconvert());
  module.def("linear_scores", linear_scores<double>, "X"_a.noconvert(), "center"_a.noconvert(),
             "low"_a.noconvert(), "step"_a.noconvert(), "coefficients"_a.noconvert(), "table_sizes"_a.noconvert(), "tables"_a.noconvert(),
             "intercepts"_a.noconvert(), "out"_a.noconvert());
  module.def("linear_scores", linear_scores<float>, "X"_a.noconvert(), "center"_a.noconvert(),
             "low"_a.noconvert(), "step"_a.noconvert(), "coefficients"_a.noconvert(), "table_sizes"_a.noconvert(), "tables"_a.noconvert(),
             "intercepts"_a.noconvert(), "out"_a.noconvert());
  module.def("probabilities", probabilities, "scores"_a.noconvert());
  module.def("train_linear", train_linear<std::int32_t>, "numbers"_a.noconvert(), "categories"_a.noconvert(),
             "texts"_a.noconvert(), "targets"_a.noconvert(), "penalty"_a, "tolerance"_a, "most_steps"_a,
             "weights"_a.noconvert());
  module.def("train_linear", train_linear<double>, "numbers"_a.noconvert(), "categories"_a.noconvert(),
             "texts"_a.noconvert(), "targets"_a.noconvert(), "penalty"_a, "tolerance"_a, "most_steps"_a,
             "weights"_a.noconvert());
}
