// pacbayes.pools._tree_training: boosted trees, by histograms of gradients, as in scikit-learn's
// HistGradientBoostingClassifier (G. Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NIPS 2017)
// or with symmetric trees, random gains and subsamples of points as in CatBoost (L. Prokhorenkova et al., CatBoost:
// unbiased boosting with categorical features, NeurIPS 2018; J. Friedman, Stochastic gradient boosting, 2002),
// and extremely randomised trees, as in its ExtraTreesClassifier (P. Geurts, D. Ernst, L. Wehenkel, Extremely randomized
// trees, Machine Learning 63, 2006); of numbers as of classes. There, small subsamples take most of their time between
// one node and the next, with the interpreter's lock held; here, it is released. Every sum is in one order, and all that
// is random is by the seed.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "../_bits.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

constexpr int kMostBins = 255;  // of values that are known
constexpr int kSetWords = 4;

// What any split is better than.
constexpr double kNone = -std::numeric_limits<double>::infinity();

// Sums of second derivatives below this are too uncertain to divide by.
constexpr double kLeastHessian = 1e-3;

// Points, as far as second derivatives count them, that a category must have to take part in a split; and how many of
// average gradient are added to each before categories are ordered.
constexpr double kCategorySupport = 10;

// Points of a node up to which the bins that they are in are looked for, rather than all.
constexpr std::size_t kFewPoints = 256;

using pacbayes::lowest_bit;

struct Settings {
  double learning_rate, l2;
  std::int64_t n_rounds, max_leaves, min_leaf, n_candidates;
  double max_samples;
  bool is_symmetric;
};

// The mixing function of SplitMix64, as a generator.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>((next() >> 32) * count >> 32); }

  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // A sum of uniform numbers, of mean 0 and variance 1: close to normal, and the same bits everywhere.
  double about_normal() { return (fraction() + fraction() + fraction() + fraction() - 2) * 1.7320508075688772; }

 private:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

// ------------------------------------------------------------------------------------------------------
// Bins
// ------------------------------------------------------------------------------------------------------

// A column in bins: one for each of its values, or of about as many points if there are more values than bins.
struct Column {
  std::vector<double> thresholds;  // the largest number of each bin but the last
  int n_bins = 0;                  // of values that are known; the next one holds those that are missing
  bool has_missing = false, is_set = false;
};

double between(double low, double high) {
  const double middle = low / 2 + high / 2;
  return middle >= low && middle < high ? middle : low;
}

Column bin_column(const double* X, std::size_t n, std::size_t d, bool is_set, std::uint8_t* bins) {
  Column column;
  column.is_set = is_set;
  std::vector<double> values;
  values.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    if (X[i * d] == X[i * d]) values.push_back(X[i * d]);
  column.has_missing = values.size() < n;
  if (is_set) {
    double largest = -1;
    for (const double value : values) {
      require(value >= 0 && value < kMostBins, "categories must be numbers from 0 to 254");
      largest = std::max(largest, value);
    }
    column.n_bins = static_cast<int>(largest) + 1;
    for (std::size_t i = 0; i < n; ++i)
      bins[i] = static_cast<std::uint8_t>(X[i * d] == X[i * d] ? static_cast<int>(X[i * d]) : column.n_bins);
    return column;
  }
  std::sort(values.begin(), values.end());
  std::vector<double> distinct;
  std::unique_copy(values.begin(), values.end(), std::back_inserter(distinct));
  std::vector<double>& thresholds = column.thresholds;
  if (distinct.size() <= static_cast<std::size_t>(kMostBins)) {
    for (std::size_t k = 1; k < distinct.size(); ++k) thresholds.push_back(between(distinct[k - 1], distinct[k]));
  } else {
    for (std::size_t k = 1; k < static_cast<std::size_t>(kMostBins); ++k) {
      const double low = values[(k * values.size() + kMostBins - 1) / kMostBins - 1];
      const auto next = std::upper_bound(distinct.begin(), distinct.end(), low);
      if (next == distinct.end()) break;
      const double threshold = between(low, *next);
      if (thresholds.empty() || threshold > thresholds.back()) thresholds.push_back(threshold);
    }
  }
  column.n_bins = static_cast<int>(thresholds.size()) + (distinct.empty() ? 0 : 1);
  for (std::size_t i = 0; i < n; ++i) {
    const double x = X[i * d];
    const auto bin = std::lower_bound(thresholds.begin(), thresholds.end(), x) - thresholds.begin();
    bins[i] = static_cast<std::uint8_t>(x == x ? bin : column.n_bins);
  }
  return column;
}

// ------------------------------------------------------------------------------------------------------
// Trees
// ------------------------------------------------------------------------------------------------------

struct Derivatives {
  float gradient, hessian;
};

struct Sums {
  double gradient = 0, hessian = 0;
  std::int64_t count = 0;

  void add(const Sums& other) {
    gradient += other.gradient;
    hessian += other.hessian;
    count += other.count;
  }
  void add(const Derivatives& point) {
    gradient += point.gradient;
    hessian += point.hessian;
    ++count;
  }
  Sums without(const Sums& other) const {
    return {gradient - other.gradient, hessian - other.hessian, count - other.count};
  }
};

struct Split {
  double gain = 0;
  int feature = -1, bin = 0;
  bool missing_left = false;
  std::uint64_t set[kSetWords] = {};
  Sums left;
};

struct Node {
  std::size_t begin, end;  // of its points
  Sums sums;
  double value;
  Split split;
  int left = -1, right = -1;
  int histograms = -1;  // which ones of those that are kept are of its points, if any
};

// What is left of all trees.
struct Output {
  std::vector<std::int64_t> tree_sizes;
  std::vector<std::int32_t> feature;
  std::vector<double> threshold;
  std::vector<std::uint8_t> missing_left;
  std::vector<std::uint64_t> sets;
  std::vector<std::int32_t> leaf;
  std::vector<double> values;
};

class Grower {
 public:
  Grower(const double* X, std::size_t n, std::size_t d, std::size_t n_sets, const Settings& settings,
         std::uint64_t seed)
      : n_(n), settings_(settings), random_(seed), bins_(n * d), rows_(n), moved_(n), drawn_(n), derivatives_(n),
        candidates_(d) {
    for (std::size_t f = 0; f < d; ++f) {
      columns_.push_back(bin_column(X + f, n, d, f < n_sets, bins_.data() + f * n));
      offsets_.push_back(offsets_.back() + static_cast<std::size_t>(columns_[f].n_bins) + 1);
    }
    std::iota(candidates_.begin(), candidates_.end(), 0);
  }

  // Draw the points that the trees of a round are grown on; the others follow, and have a part in the leaves alone.
  void draw_rows() {
    n_drawn_ = std::max<std::size_t>(1, static_cast<std::size_t>(settings_.max_samples * static_cast<double>(n_)));
    if (n_drawn_ == n_) return std::iota(drawn_.begin(), drawn_.end(), 0);
    std::size_t n_in = 0, n_out = n_drawn_;
    for (std::size_t i = 0; i < n_; ++i) {
      const bool is_in = n_in < n_drawn_ && random_.below(static_cast<std::uint32_t>(n_ - i)) < n_drawn_ - n_in;
      drawn_[is_in ? n_in++ : n_out++] = static_cast<std::int32_t>(i);
    }
  }

  // Grow a tree on gradients and second derivatives, add its leaves to scores, each a stride after the one before, and
  // write it down. Gains of splits are as random as they would be by chance, times a strength.
  void grow(const float* gradient, const float* hessian, double* scores, std::size_t stride, double strength,
            Output& out) {
    gradient_ = gradient;
    hessian_ = hessian;
    rows_ = drawn_;
    nodes_.clear();
    unused_.resize(kept_.size());
    std::iota(unused_.begin(), unused_.end(), 0);
    Sums all;
    double squares = 0;
    for (std::size_t i = 0; i < n_drawn_; ++i) {
      const Derivatives point{gradient[rows_[i]], hessian[rows_[i]]};
      all.add(point);
      squares += static_cast<double>(point.gradient) * static_cast<double>(point.gradient);
    }
    deviation_ = strength * std::sqrt(squares / (all.hessian + 1e-15));
    nodes_.push_back({0, n_drawn_, all, 0.0, {}});
    // Derivatives overflow where scores do: their sums have no order then, by which categories could be sorted.
    if (std::isfinite(all.gradient)) settings_.is_symmetric ? grow_by_levels() : grow_by_leaves();
    if (n_drawn_ < n_) add_others();
    write(scores, stride, out);
  }

 private:
  // Let the points that the tree was not grown on into its nodes, whose values are then those of all points.
  void add_others() {
    std::vector<int> node_of(n_);
    for (std::size_t at = 0; at < nodes_.size(); ++at)
      if (nodes_[at].left < 0)
        for (std::size_t i = nodes_[at].begin; i < nodes_[at].end; ++i) node_of[rows_[i]] = static_cast<int>(at);
    for (std::size_t i = n_drawn_; i < n_; ++i) {
      const std::int32_t row = drawn_[i];
      int at = 0;
      while (nodes_[at].left >= 0) {
        const Split& split = nodes_[at].split;
        at = goes_left(split, bins_[split.feature * n_ + row]) ? nodes_[at].left : nodes_[at].right;
      }
      node_of[row] = at;
      nodes_[at].sums.add(Derivatives{gradient_[row], hessian_[row]});
    }
    std::vector<std::size_t> count(nodes_.size() + 1);
    for (std::size_t i = 0; i < n_; ++i) ++count[node_of[i] + 1];
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      count[at + 1] += count[at];
      nodes_[at].begin = nodes_[at].end = count[at];
      if (nodes_[at].left < 0 && at > 0) nodes_[at].value = value_of(nodes_[at].sums);
    }
    for (std::size_t i = 0; i < n_; ++i) rows_[nodes_[node_of[i]].end++] = static_cast<std::int32_t>(i);
  }

  // Divide the leaf that gains most, one after another.
  void grow_by_leaves() {
    std::priority_queue<std::pair<double, int>> waiting;  // the largest gain first
    const auto consider = [&](int at) {
      Node& node = nodes_[at];
      const bool is_leaf = node.sums.count < 2 * settings_.min_leaf || node.sums.hessian < kLeastHessian;
      if (!is_leaf) node.split = find_split(node);
      if (node.split.gain > 0) waiting.emplace(node.split.gain, -at);
      if (node.split.gain <= 0 || !is_worth_keeping(node)) give_back(node);
    };
    order_derivatives(nodes_[0]);
    if (is_worth_keeping(nodes_[0])) fill_histograms(nodes_[0]);
    consider(0);
    for (std::int64_t n_leaves = 1; n_leaves < settings_.max_leaves && !waiting.empty(); ++n_leaves) {
      const int at = -waiting.top().second;
      waiting.pop();
      divide(at);
      if (n_leaves + 1 == settings_.max_leaves) break;
      const int left = nodes_[at].left, right = nodes_[at].right;
      order_derivatives(nodes_[left]);
      order_derivatives(nodes_[right]);
      nodes_[left].sums.count < nodes_[right].sums.count ? subtract(at, left, right) : subtract(at, right, left);
      consider(left);
      consider(right);
    }
  }

  // Divide all leaves of a level by the same split, for the sake of what all of them gain together. A leaf stays as it
  // is where one side would be too small.
  void grow_by_levels() {
    std::vector<int> leaves{0}, next;
    for (std::int64_t left = settings_.max_leaves / 2; left > 0; left /= 2) {
      for (const int at : leaves) order_derivatives(nodes_[at]);
      const Split common = find_common_split(leaves);
      if (common.feature < 0) break;
      next.clear();
      for (const int at : leaves) {
        nodes_[at].split = of_leaf(common, nodes_[at]);
        if (nodes_[at].split.feature < 0) {
          next.push_back(at);
          continue;
        }
        divide(at);
        next.push_back(nodes_[at].left);
        next.push_back(nodes_[at].right);
      }
      leaves.swap(next);
    }
  }

  double value_of(const Sums& sums) const { return -sums.gradient / (sums.hessian + settings_.l2 + 1e-15); }

  // Put derivatives in the order of the points of a node, in which every candidate reads them.
  void order_derivatives(const Node& node) {
    for (std::size_t i = node.begin; i < node.end; ++i) derivatives_[i] = {gradient_[rows_[i]], hessian_[rows_[i]]};
  }

  // Whether adding up the derivatives of a node's points takes longer than subtracting histograms. So many points do
  // not leave room for more histograms than the sample itself takes.
  bool is_worth_keeping(const Node& node) const {
    return static_cast<std::size_t>(settings_.n_candidates) == columns_.size() &&
           (node.end - node.begin) * columns_.size() > offsets_.back();
  }

  // Keep the histograms of a node's points, one for each column.
  void fill_histograms(Node& node) {
    if (unused_.empty()) {
      unused_.push_back(static_cast<int>(kept_.size()));
      kept_.emplace_back();
    }
    node.histograms = unused_.back();
    unused_.pop_back();
    std::vector<Sums>& histograms = kept_[node.histograms];
    histograms.assign(offsets_.back(), {});
    for (std::size_t f = 0; f < columns_.size(); ++f) {
      Sums* const histogram = histograms.data() + offsets_[f];
      const std::uint8_t* const bins = bins_.data() + f * n_;
      for (std::size_t i = node.begin; i < node.end; ++i) histogram[bins[rows_[i]]].add(derivatives_[i]);
    }
  }

  void give_back(Node& node) {
    if (node.histograms >= 0) unused_.push_back(node.histograms);
    node.histograms = -1;
  }

  // The histograms of the larger one of two nodes are those of both together without those of the smaller one.
  void subtract(int both, int smaller, int larger) {
    if (nodes_[both].histograms < 0) return;
    if (!is_worth_keeping(nodes_[larger])) return give_back(nodes_[both]);
    fill_histograms(nodes_[smaller]);
    std::swap(nodes_[larger].histograms, nodes_[both].histograms);
    std::vector<Sums>& histograms = kept_[nodes_[larger].histograms];
    const std::vector<Sums>& others = kept_[nodes_[smaller].histograms];
    for (std::size_t k = 0; k < histograms.size(); ++k) histograms[k] = histograms[k].without(others[k]);
  }

  // Let the features that a split is chosen from be the first candidates, and return how many they are.
  std::size_t draw_candidates() {
    const std::size_t d = columns_.size(), count = static_cast<std::size_t>(settings_.n_candidates);
    if (count < d) {  // the first ones of a random order
      for (std::size_t k = 0; k < count; ++k)
        std::swap(candidates_[k], candidates_[k + random_.below(static_cast<std::uint32_t>(d - k))]);
      std::sort(candidates_.begin(), candidates_.begin() + count);
    }
    return count;
  }

  Split find_split(const Node& node) {
    const std::size_t count = draw_candidates();
    Split best;
    double best_key = kNone;
    for (std::size_t k = 0; k < count; ++k) {
      const int f = candidates_[k];
      if (columns_[f].n_bins + columns_[f].has_missing < 2) continue;
      Split own;  // is compared with others after a random number is added
      const bool is_kept = node.histograms >= 0;
      histogram_ = is_kept ? kept_[node.histograms].data() + offsets_[f] : own_histogram_;
      is_kept ? list_bins(f, node, false) : fill(f, node);
      Split& found = deviation_ > 0 ? own : best;
      columns_[f].is_set ? scan_set(f, node, found) : scan(f, node, found);
      if (deviation_ > 0) take_at_random(own, own.gain - node.value * node.sums.gradient, best, best_key);
      if (!is_kept) clear();
    }
    return best;
  }

  // Add up the derivatives of a node's points by bin, and list the bins that have any; and empty these bins again.
  void fill(int f, const Node& node) {
    node.end - node.begin >= kFewPoints ? list_bins(f, node, true) : fill_bins(f, node);
  }
  void clear() {
    for (int j = 0; j < n_filled_; ++j) own_histogram_[filled_[j]] = {};
  }

  // List the bins that have points of a node, that of missing values last, after derivatives are added up by bin where
  // they are not yet. The own histogram is empty before, and again afterwards.
  void list_bins(int f, const Node& node, bool is_empty) {
    const std::uint8_t* const bins = bins_.data() + f * n_;
    if (is_empty)
      for (std::size_t i = node.begin; i < node.end; ++i) own_histogram_[bins[rows_[i]]].add(derivatives_[i]);
    n_filled_ = 0;
    for (int bin = 0; bin <= columns_[f].n_bins; ++bin) {  // without branches: half of them may have points
      filled_[n_filled_] = bin;
      n_filled_ += histogram_[bin].count > 0;
    }
  }

  // The same for a node of few points, which leave most bins as they are.
  void fill_bins(int f, const Node& node) {
    const std::uint8_t* const bins = bins_.data() + f * n_;
    std::uint64_t filled[kSetWords] = {};
    for (std::size_t i = node.begin; i < node.end; ++i) {
      const std::uint8_t bin = bins[rows_[i]];
      own_histogram_[bin].add(derivatives_[i]);
      filled[bin / 64] |= std::uint64_t{1} << (bin % 64);
    }
    n_filled_ = 0;
    for (int word = 0; word < kSetWords; ++word)
      for (std::uint64_t bits = filled[word]; bits; bits &= bits - 1) filled_[n_filled_++] = 64 * word + lowest_bit(bits);
  }

  // By how much a split reduces the loss, without what all splits of the node have in common; with `best` of another
  // split, whether it is better, without a division in most cases.
  bool is_better(const Sums& left, const Sums& right, double& best) const {
    const double a = left.hessian + settings_.l2 + 1e-15, b = right.hessian + settings_.l2 + 1e-15;
    const double reduced = left.gradient * left.gradient * b + right.gradient * right.gradient * a;
    if (!(reduced > best * (a * b))) return false;
    best = reduced / (a * b);
    return true;
  }

  bool is_small(const Sums& side) const {
    return side.count < settings_.min_leaf || side.hessian < kLeastHessian;
  }

  void take_if_better(Split& best, Split found, double reduced, const Node& node) const {
    found.gain = reduced + node.value * node.sums.gradient;
    if (found.gain > best.gain) best = found;
  }

  // The reduction that a split of a node must exceed to be the best so far.
  double to_exceed(const Split& best, const Node& node) const {
    return std::max(0.0, best.gain - node.value * node.sums.gradient);
  }

  void scan(int f, const Node& node, Split& best) const {
    const Sums& missing = histogram_[columns_[f].n_bins];
    const int n_known = n_filled_ - (missing.count > 0);
    double reduced = to_exceed(best, node);
    Split found;
    // Missing values to the right, and then to the left.
    for (const bool missing_left : {false, true}) {
      if (missing_left && missing.count == 0) break;
      Sums left = missing_left ? missing : Sums{};
      // All that are known are on one side only if others are missing.
      const int end = n_known - (missing.count == 0 || missing_left);
      for (int k = 0; k < end; ++k) {
        left.add(histogram_[filled_[k]]);
        if (is_small(left)) continue;
        const Sums right = node.sums.without(left);
        if (is_small(right)) break;
        if (is_better(left, right, reduced)) {
          found.feature = f;
          // New points in bins without points of this node go to the right of it.
          found.bin = k + 1 < n_known ? filled_[k] : columns_[f].n_bins - 1;
          found.left = left;
          found.missing_left = missing_left;
        }
      }
    }
    if (found.feature < 0) return;
    // If none is missing here, they go where most points go.
    if (missing.count == 0) found.missing_left = 2 * found.left.count > node.sums.count;
    take_if_better(best, found, reduced, node);
  }

  // Categories in the order of their mean gradients are scanned from both ends (W. D. Fisher, On grouping for maximum
  // homogeneity, JASA 53, 1958).
  void scan_set(int f, const Node& node, Split& best) {
    const double support = static_cast<double>(node.sums.count) / node.sums.hessian;
    order_.clear();
    const auto add = [&](int bin) {
      const Sums& sums = histogram_[bin];
      if (sums.hessian * support >= kCategorySupport)
        order_.emplace_back(sums.gradient / (sums.hessian + kCategorySupport), bin);
    };
    for (int k = 0; k < n_filled_; ++k) add(filled_[k]);
    if (order_.size() < 2) return;
    std::sort(order_.begin(), order_.end());
    const std::size_t used = order_.size();
    double reduced = to_exceed(best, node);
    std::size_t n_left = 0;
    bool from_above = false;
    Split found;
    for (const bool reverse : {false, true}) {
      const std::size_t middle = (used + 1) / 2 - reverse;
      Sums left;
      for (std::size_t k = 0; k < middle; ++k) {
        left.add(histogram_[order_[reverse ? used - 1 - k : k].second]);
        if (is_small(left)) continue;
        const Sums right = node.sums.without(left);
        if (is_small(right)) break;
        if (is_better(left, right, reduced)) {
          found.feature = f;
          found.left = left;
          n_left = k + 1;
          from_above = reverse;
        }
      }
    }
    if (found.feature < 0) return;
    found.missing_left = 2 * found.left.count > node.sums.count;
    if (histogram_[columns_[f].n_bins].count > 0) found.missing_left = false;
    for (std::size_t k = 0; k < n_left; ++k) {
      const int bin = order_[from_above ? used - 1 - k : k].second;
      if (bin == columns_[f].n_bins)
        found.missing_left = true;
      else
        found.set[bin / 64] |= std::uint64_t{1} << (bin % 64);
    }
    take_if_better(best, found, reduced, node);
  }

  // By how much a leaf reduces the loss.
  double reduction(const Sums& sums) const {
    return sums.gradient * sums.gradient / (sums.hessian + settings_.l2 + 1e-15);
  }

  // By how much two leaves do, by one division.
  double reduction(const Sums& left, const Sums& right) const {
    const double a = left.hessian + settings_.l2 + 1e-15, b = right.hessian + settings_.l2 + 1e-15;
    return (left.gradient * left.gradient * b + right.gradient * right.gradient * a) / (a * b);
  }

  // Find the split that reduces the loss most if all leaves are divided by it.
  Split find_common_split(const std::vector<int>& leaves) {
    double whole = 0;
    for (const int at : leaves) whole += reduction(nodes_[at].sums);
    const std::size_t count = draw_candidates();
    Split best;
    double best_key = kNone;
    for (std::size_t k = 0; k < count; ++k) {
      const int f = candidates_[k];
      if (columns_[f].n_bins + columns_[f].has_missing < 2) continue;
      const Split found = scan_level(f, leaves);
      take_at_random(found, whole + found.gain, best, best_key);
    }
    return best;
  }

  // Keep a split if it is better than the best so far. What it reduces the loss by is a sum of squares: a random number
  // is added to the root of it, which has about the same deviation whatever the split.
  void take_at_random(const Split& found, double reduced, Split& best, double& best_key) {
    const double shift = deviation_ > 0 ? deviation_ * random_.about_normal() : 0.0;
    if (found.feature < 0) return;
    const double key = std::sqrt(std::max(0.0, reduced)) + shift;
    if (key <= best_key) return;
    best_key = key;
    best = found;
  }

  // The best split of a column for all leaves together. Each adds to a place in the order of the bins by how much its
  // gain changes there: sums up to a place are gains of all leaves.
  Split scan_level(int f, const std::vector<int>& leaves) {
    const Column& column = columns_[f];
    const int n_bins = column.n_bins;
    histogram_ = own_histogram_;
    // Numbers are in the order of their bins; categories in that of their mean gradients, those of few points last.
    int place[kMostBins + 1];
    std::iota(place, place + n_bins + 1, 0);
    int n_places = n_bins;
    if (column.is_set) n_places = order_categories(f, place);
    double changes[2][kMostBins + 2] = {};
    for (const int at : leaves) {
      const Node& node = nodes_[at];
      if (node.sums.count < 2 * settings_.min_leaf || node.sums.hessian < kLeastHessian) continue;
      fill(f, node);
      if (column.is_set)
        std::sort(filled_, filled_ + n_filled_, [&](int a, int b) { return place[a] < place[b]; });
      const Sums missing = column.is_set ? Sums{} : own_histogram_[n_bins];
      const double undivided = reduction(node.sums);
      for (int missing_left = 0; missing_left <= (missing.count > 0); ++missing_left) {
        Sums left;
        double previous = 0;
        const auto go_left = [&](const Sums& more, int at_place) {
          left.add(more);
          const Sums right = node.sums.without(left);
          const double gain = is_small(left) || is_small(right) ? 0.0 : reduction(left, right) - undivided;
          for (int side = missing_left; side <= (missing_left || missing.count == 0); ++side)
            changes[side][at_place] += gain - previous;
          previous = gain;
        };
        // They are alone on their side up to the first place that has points of the leaf.
        if (missing_left) go_left(missing, 0);
        for (int j = 0; j < n_filled_; ++j) {
          if (!column.is_set && filled_[j] == n_bins) break;
          if (place[filled_[j]] >= n_places) break;
          go_left(own_histogram_[filled_[j]], place[filled_[j]]);
        }
      }
      clear();
    }
    Split found;
    int best_place = 0;
    for (int side = 0; side <= (column.has_missing && !column.is_set); ++side) {
      double gain = 0;
      for (int p = 0; p < n_places; ++p) {
        gain += changes[side][p];
        if (gain > found.gain) {
          found.gain = gain;
          found.feature = f;
          found.missing_left = side;
          best_place = p;
        }
      }
    }
    found.bin = best_place;
    if (found.feature >= 0 && column.is_set) {
      found.bin = 0;
      for (int bin = 0; bin < n_bins; ++bin)
        if (place[bin] <= best_place) found.set[bin / 64] |= std::uint64_t{1} << (bin % 64);
      found.missing_left = column.has_missing && place[n_bins] <= best_place;
    }
    return found;
  }

  // Find the place of each category, in the order of mean gradients of all points, and return how many have enough.
  int order_categories(int f, int* place) {
    const Node all{0, n_drawn_, nodes_[0].sums, 0.0, {}};
    const double support = static_cast<double>(all.sums.count) / all.sums.hessian;
    fill(f, all);
    order_.clear();
    for (int j = 0; j < n_filled_; ++j) {
      const Sums& sums = own_histogram_[filled_[j]];
      if (sums.hessian * support >= kCategorySupport)
        order_.emplace_back(sums.gradient / (sums.hessian + kCategorySupport), filled_[j]);
    }
    clear();
    std::sort(order_.begin(), order_.end());
    std::fill_n(place, columns_[f].n_bins + 1, kMostBins + 1);
    for (std::size_t k = 0; k < order_.size(); ++k) place[order_[k].second] = static_cast<int>(k);
    return static_cast<int>(order_.size());
  }

  // The part of a common split that a leaf has: no feature if one side would be too small.
  Split of_leaf(const Split& common, const Node& node) const {
    Split split = common;
    split.left = {};
    const std::uint8_t* const bins = bins_.data() + common.feature * n_;
    std::int64_t n_missing = 0;
    for (std::size_t i = node.begin; i < node.end; ++i) {
      const std::uint8_t bin = bins[rows_[i]];
      n_missing += bin == columns_[common.feature].n_bins;
      if (goes_left(common, bin)) split.left.add(derivatives_[i]);
    }
    if (is_small(split.left) || is_small(node.sums.without(split.left))) return {};
    if (n_missing == 0) split.missing_left = 2 * split.left.count > node.sums.count;
    return split;
  }

  bool goes_left(const Split& split, std::uint8_t bin) const {
    const Column& column = columns_[split.feature];
    if (bin == column.n_bins) return split.missing_left;
    return column.is_set ? (split.set[bin / 64] >> (bin % 64)) & 1 : bin <= split.bin;
  }

  // Divide the points of a node between two new ones, without changing their order.
  void divide(int at) {
    const Split split = nodes_[at].split;
    const Column& column = columns_[split.feature];
    const std::uint8_t* const bins = bins_.data() + split.feature * n_;
    const std::size_t begin = nodes_[at].begin, end = nodes_[at].end;
    bool is_left[kMostBins + 1];
    for (int bin = 0; bin < column.n_bins; ++bin)
      is_left[bin] = column.is_set ? (split.set[bin / 64] >> (bin % 64)) & 1 : bin <= split.bin;
    is_left[column.n_bins] = split.missing_left;
    std::size_t n_left = begin, n_right = 0;
    for (std::size_t i = begin; i < end; ++i) {  // without branches, which data would decide at random
      const std::int32_t row = rows_[i];
      const bool left = is_left[bins[row]];
      rows_[n_left] = row;
      moved_[n_right] = row;
      n_left += left;
      n_right += !left;
    }
    std::copy_n(moved_.begin(), n_right, rows_.begin() + static_cast<std::ptrdiff_t>(n_left));
    const Sums right = nodes_[at].sums.without(split.left);
    nodes_[at].left = static_cast<int>(nodes_.size());
    nodes_[at].right = nodes_[at].left + 1;
    nodes_.push_back({begin, n_left, split.left, value_of(split.left), {}});
    nodes_.push_back({n_left, end, right, value_of(right), {}});
  }

  void write(double* scores, std::size_t stride, Output& out) {
    out.tree_sizes.push_back(static_cast<std::int64_t>(nodes_.size()));
    std::vector<int> open{0};
    while (!open.empty()) {
      const Node& node = nodes_[open.back()];
      open.pop_back();
      if (node.left < 0) {
        const double value = settings_.learning_rate * node.value;
        for (std::size_t i = node.begin; i < node.end; ++i) scores[rows_[i] * stride] += value;
        out.feature.push_back(-1);
        out.leaf.push_back(static_cast<std::int32_t>(out.values.size()));
        out.values.push_back(value);
        continue;
      }
      const Split& split = node.split;
      const std::vector<double>& thresholds = columns_[split.feature].thresholds;
      const auto bin = static_cast<std::size_t>(split.bin);
      const bool is_set = columns_[split.feature].is_set;
      out.feature.push_back(split.feature);
      out.threshold.push_back(is_set ? 0.0
                                     : bin < thresholds.size() ? thresholds[bin]
                                                               : std::numeric_limits<double>::infinity());
      out.missing_left.push_back(split.missing_left);
      if (is_set) out.sets.insert(out.sets.end(), split.set, split.set + kSetWords);
      open.push_back(node.right);
      open.push_back(node.left);
    }
  }

  std::size_t n_;
  Settings settings_;
  Random random_;
  std::vector<std::uint8_t> bins_;  // one column after another
  std::vector<Column> columns_;
  std::vector<std::int32_t> rows_, moved_;
  std::vector<std::int32_t> drawn_;  // the points that trees of this round are grown on, and then the others
  std::size_t n_drawn_ = 0;
  double deviation_ = 0;  // of what is added to roots of gains
  std::vector<Derivatives> derivatives_;
  std::vector<int> candidates_;
  std::vector<Node> nodes_;
  std::vector<std::pair<double, int>> order_;
  std::vector<std::size_t> offsets_{0};  // of the columns in the histograms of a node
  std::vector<std::vector<Sums>> kept_;  // histograms of all columns, each of one node
  std::vector<int> unused_;              // those that are of no node
  const Sums* histogram_ = nullptr;
  Sums own_histogram_[kMostBins + 1];
  int filled_[kMostBins + 2], n_filled_ = 0;
  const float* gradient_ = nullptr;
  const float* hessian_ = nullptr;
};

// Derivatives of the logistic loss by the scores of all outputs, one output after another.
void differentiate(const std::vector<double>& scores, const std::int32_t* codes, std::size_t n, std::size_t n_outputs,
                   std::vector<float>& gradient, std::vector<float>& hessian) {
  std::vector<double> p(n_outputs);
  for (std::size_t i = 0; i < n; ++i) {
    const double* const score = scores.data() + i * n_outputs;
    if (n_outputs == 1) {
      p[0] = 1 / (1 + std::exp(-score[0]));
    } else {
      const double largest = *std::max_element(score, score + n_outputs);
      double sum = 0;
      for (std::size_t k = 0; k < n_outputs; ++k) sum += p[k] = std::exp(score[k] - largest);
      for (std::size_t k = 0; k < n_outputs; ++k) p[k] /= sum;
    }
    for (std::size_t k = 0; k < n_outputs; ++k) {
      const bool is_class = codes[i] == static_cast<std::int32_t>(n_outputs == 1 ? 1 : k);
      gradient[k * n + i] = static_cast<float>(is_class ? p[k] - 1 : p[k]);
      hessian[k * n + i] = static_cast<float>(p[k] * (1 - p[k]));
    }
  }
}

// Derivatives of Huber's loss, of numbers that have one output: squared up to the error that a share of the points do not
// exceed, and absolute beyond (J. Friedman, Greedy function approximation: a gradient boosting machine, Annals of
// Statistics 29, 2001). In the place of second derivatives, which vanish there, are those of the parabola that touches
// the loss from above.
void differentiate(const std::vector<double>& scores, const double* targets, std::size_t n, double share,
                   std::vector<float>& gradient, std::vector<float>& hessian) {
  std::vector<double> errors(n);
  for (std::size_t i = 0; i < n; ++i) errors[i] = std::fabs(scores[i] - targets[i]);
  const auto place = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(n))) - 1;
  std::nth_element(errors.begin(), errors.begin() + place, errors.end());
  const double largest = errors[static_cast<std::size_t>(place)];
  for (std::size_t i = 0; i < n; ++i) {
    const double error = scores[i] - targets[i], size = std::fabs(error);
    const double weight = size > largest ? largest / size : 1.0;
    gradient[i] = static_cast<float>(error * weight);
    hessian[i] = static_cast<float>(weight);
  }
}

// ------------------------------------------------------------------------------------------------------
// Extremely randomised trees
// ------------------------------------------------------------------------------------------------------

// Trees of classes, by Gini's impurity, or of numbers, by their variance. Both are what the squares of sums leave: of the
// indicators of each class, or of the numbers.
template <class Target>
class Forest {
 public:
  Forest(const float* X, const Target* targets, std::size_t n, std::size_t d, std::size_t n_sums,
         std::size_t n_candidates, std::size_t min_leaf, std::uint64_t seed)
      : n_(n), n_sums_(n_sums), n_candidates_(n_candidates), min_leaf_(min_leaf), random_(seed), columns_(n * d),
        all_targets_(targets), rows_(n), moved_(n), targets_(n), moved_targets_(n), values_(n), candidates_(d),
        all_(n_sums), left_(n_sums) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t f = 0; f < d; ++f) columns_[f * n + i] = X[i * d + f];
    std::iota(candidates_.begin(), candidates_.end(), 0);
  }

  // Grow a tree on all points, and write it down. If its leaves are limited, the split that gains most is next.
  void grow(std::int64_t max_leaves, Output& out) {
    std::iota(rows_.begin(), rows_.end(), 0);
    std::copy_n(all_targets_, n_, targets_.begin());
    nodes_.assign(1, {0, n_, {}});
    const bool is_limited = max_leaves < static_cast<std::int64_t>(n_);
    std::vector<std::pair<double, int>> waiting;
    const auto consider = [&](int at) {
      Branch& node = nodes_[at];
      if (node.end - node.begin < 2 * min_leaf_ || is_pure(node)) return;
      add_up(node);
      const auto count = static_cast<double>(node.end - node.begin);
      double squares = 0;
      for (const Sum one : all_) squares += static_cast<double>(one) * static_cast<double>(one);
      node.choice = choose(node.begin, node.end);
      if (node.choice.feature < 0) return;
      waiting.emplace_back(node.choice.purity - squares / count, -at);
      if (is_limited) std::push_heap(waiting.begin(), waiting.end());
    };
    consider(0);
    for (std::int64_t n_leaves = 1; n_leaves < max_leaves && !waiting.empty(); ++n_leaves) {
      if (is_limited) std::pop_heap(waiting.begin(), waiting.end());
      const int at = -waiting.back().second;
      waiting.pop_back();
      const std::size_t begin = nodes_[at].begin, end = nodes_[at].end;
      const std::size_t middle = divide(begin, end, nodes_[at].choice);
      nodes_[at].left = static_cast<int>(nodes_.size());
      nodes_.push_back({begin, middle, {}});
      nodes_.push_back({middle, end, {}});
      const int left = nodes_[at].left;
      consider(left);
      consider(left + 1);
    }
    write(out);
  }

 private:
  static constexpr bool kIsNumber = std::is_floating_point_v<Target>;
  using Sum = std::conditional_t<kIsNumber, double, std::int64_t>;

  struct Choice {
    int feature = -1;
    float threshold = 0;
    bool missing_left = false;
    double purity = -1;
  };

  struct Branch {
    std::size_t begin, end;  // of its points
    Choice choice;
    int left = -1;  // the right one follows
  };

  bool is_pure(const Branch& node) const {
    const auto begin = targets_.begin() + static_cast<std::ptrdiff_t>(node.begin);
    const auto end = targets_.begin() + static_cast<std::ptrdiff_t>(node.end);
    return std::all_of(begin, end, [&](Target one) { return one == *begin; });
  }

  // Add a point to sums if it is on the side that they are of.
  void add(std::vector<Sum>& sums, std::size_t i, bool is_inside) const {
    if constexpr (kIsNumber)
      sums[0] += is_inside ? targets_[i] : 0.0;
    else
      sums[targets_[i]] += is_inside;
  }

  void add_up(const Branch& node) {
    std::fill(all_.begin(), all_.end(), Sum{0});
    for (std::size_t i = node.begin; i < node.end; ++i) add(all_, i, true);
  }

  void write(Output& out) {
    out.tree_sizes.push_back(static_cast<std::int64_t>(nodes_.size()));
    std::vector<int> open{0};
    while (!open.empty()) {
      const Branch& node = nodes_[open.back()];
      open.pop_back();
      if (node.left < 0) {
        add_up(node);
        out.feature.push_back(-1);
        out.leaf.push_back(number_of_leaf(static_cast<double>(node.end - node.begin), out));
        continue;
      }
      out.feature.push_back(node.choice.feature);
      out.threshold.push_back(node.choice.threshold);
      out.missing_left.push_back(node.choice.missing_left);
      open.push_back(node.left + 1);
      open.push_back(node.left);
    }
  }

  // The best of some features, each with a random threshold; more of them as long as all are constant.
  Choice choose(std::size_t begin, std::size_t end) {
    Choice best;
    bool any_varies = false;
    const std::size_t d = candidates_.size();
    for (std::size_t k = 0; k < d && (k < n_candidates_ || !any_varies); ++k) {
      std::swap(candidates_[k], candidates_[k + random_.below(static_cast<std::uint32_t>(d - k))]);
      any_varies |= consider(candidates_[k], begin, end, best);
    }
    return best;
  }

  // Return whether a feature varies, and keep it if it is the best so far.
  bool consider(int f, std::size_t begin, std::size_t end, Choice& best) {
    const float* const column = columns_.data() + static_cast<std::size_t>(f) * n_;
    float low = std::numeric_limits<float>::infinity(), high = -low;
    std::int64_t n_missing = 0;
    for (std::size_t i = begin; i < end; ++i) values_[i] = column[rows_[i]];
    for (std::size_t i = begin; i < end; ++i) {
      low = std::min(low, values_[i]);  // of a number that is missing, the other one
      high = std::max(high, values_[i]);
      n_missing += values_[i] != values_[i];
    }
    const auto count = static_cast<std::int64_t>(end - begin);
    if (n_missing == count || (!(low < high) && n_missing == 0)) return false;
    float threshold = std::numeric_limits<float>::infinity();  // all that are known to the left
    if (low < high) {
      threshold = static_cast<float>(low + random_.fraction() * (static_cast<double>(high) - low));
      if (!(threshold < high)) threshold = low;
    }
    const std::int64_t n_left = add_up_left(begin, end, threshold);
    compare({f, threshold, false, 0}, n_left, count, best, n_missing == 0);
    if (n_missing > 0 && low < high) {
      for (std::size_t i = begin; i < end; ++i) add(left_, i, values_[i] != values_[i]);
      compare({f, threshold, true, 0}, n_left + n_missing, count, best, false);
    }
    return true;
  }

  // Add up the points whose values are at most a threshold, and return how many they are.
  std::int64_t add_up_left(std::size_t begin, std::size_t end, float threshold) {
    std::fill(left_.begin(), left_.end(), Sum{0});
    std::int32_t n_left = 0;
    for (std::size_t i = begin; i < end; ++i) n_left += values_[i] <= threshold;
    if (!kIsNumber && n_sums_ == 2) {
      std::int32_t n_second = 0;
      for (std::size_t i = begin; i < end; ++i)
        n_second += static_cast<std::int32_t>(values_[i] <= threshold) & static_cast<std::int32_t>(targets_[i]);
      left_[0] = n_left - n_second;
      left_[1] = n_second;
    } else {
      for (std::size_t i = begin; i < end; ++i) add(left_, i, values_[i] <= threshold);
    }
    return n_left;
  }

  // Keep a split if its sides, of which `left_` adds up one, are purer than those of the best: by the squares of sums.
  void compare(Choice found, std::int64_t n_left, std::int64_t count, Choice& best, bool most_decide) const {
    double squares[2] = {0, 0};
    for (std::size_t k = 0; k < n_sums_; ++k) {
      const auto left = static_cast<double>(left_[k]), right = static_cast<double>(all_[k] - left_[k]);
      squares[0] += left * left;
      squares[1] += right * right;
    }
    const auto least = static_cast<std::int64_t>(min_leaf_);
    if (n_left < least || count - n_left < least) return;
    found.purity = squares[0] / static_cast<double>(n_left) + squares[1] / static_cast<double>(count - n_left);
    // If none is missing here, they go where most points go.
    if (most_decide) found.missing_left = 2 * n_left > count;
    if (found.purity > best.purity) best = found;
  }

  std::size_t divide(std::size_t begin, std::size_t end, const Choice& choice) {
    const float* const column = columns_.data() + static_cast<std::size_t>(choice.feature) * n_;
    std::size_t n_left = begin, n_right = 0;
    for (std::size_t i = begin; i < end; ++i) {  // without branches, which data would decide at random
      const std::int32_t row = rows_[i];
      const Target target = targets_[i];
      const float x = column[row];
      const bool left = x <= choice.threshold || (x != x && choice.missing_left);
      rows_[n_left] = moved_[n_right] = row;
      targets_[n_left] = moved_targets_[n_right] = target;
      n_left += left;
      n_right += !left;
    }
    std::copy_n(moved_.begin(), n_right, rows_.begin() + static_cast<std::ptrdiff_t>(n_left));
    std::copy_n(moved_targets_.begin(), n_right, targets_.begin() + static_cast<std::ptrdiff_t>(n_left));
    return n_left;
  }

  // Which of the leaves has this mean, or these shares of classes: of two, by how much the second is above one half.
  std::int32_t number_of_leaf(double count, Output& out) {
    const bool is_second_enough = n_sums_ == 2;
    std::vector<double> means;
    for (std::size_t k = is_second_enough; k < n_sums_; ++k)
      means.push_back(static_cast<double>(all_[k]) / count - (is_second_enough ? 0.5 : 0.0));
    const auto [found, is_new] = leaves_.try_emplace(means, static_cast<std::int32_t>(leaves_.size()));
    if (is_new) out.values.insert(out.values.end(), means.begin(), means.end());
    return found->second;
  }

  std::size_t n_, n_sums_, n_candidates_, min_leaf_;
  Random random_;
  std::vector<float> columns_;  // one after another
  const Target* all_targets_;
  std::vector<std::int32_t> rows_, moved_;
  std::vector<Target> targets_, moved_targets_;
  std::vector<float> values_;
  std::vector<int> candidates_;
  std::vector<Sum> all_, left_;  // of a node, and of the left side of a split
  std::vector<Branch> nodes_;
  std::map<std::vector<double>, std::int32_t> leaves_;
};

template <class T>
nb::object to_numpy(std::vector<T> values) {
  auto* const kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::dict to_numpy(Output&& out) {
  nb::dict result;
  result["tree_sizes"] = to_numpy(std::move(out.tree_sizes));
  result["feature"] = to_numpy(std::move(out.feature));
  result["threshold"] = to_numpy(std::move(out.threshold));
  result["missing_left"] = to_numpy(std::move(out.missing_left));
  result["sets"] = to_numpy(std::move(out.sets));
  result["leaf"] = to_numpy(std::move(out.leaf));
  result["values"] = to_numpy(std::move(out.values));
  return result;
}

// Train boosted trees on points whose targets are numbers, or classes numbered from 0. Scores begin with `baseline`, of
// one output if there are two classes, or numbers. Trees are written as `_scores.Trees` reads them.
template <class Target>
nb::dict boost(Matrix<double> X, std::int64_t n_sets, Vector<Target> targets, Vector<double> baseline,
               double learning_rate, std::int64_t n_rounds, std::int64_t max_leaves, std::int64_t min_leaf,
               std::int64_t n_candidates, double l2, std::uint64_t seed, double squared_share,
               double max_samples, double random_strength, bool is_symmetric) {
  const std::size_t n = X.shape(0), d = X.shape(1), n_outputs = baseline.shape(0);
  require(n >= 1 && n <= std::numeric_limits<std::int32_t>::max() && d >= 1, "X must have rows and columns");
  require(targets.shape(0) == n && n_outputs >= 1, "targets must have an entry for each row of X");
  require(!std::is_floating_point_v<Target> || n_outputs == 1, "numbers must have one output");
  require(squared_share > 0 && squared_share <= 1, "squared_share must be in (0, 1]");
  require(n_sets >= 0 && n_sets <= static_cast<std::int64_t>(d), "n_sets must be at most the number of columns");
  require(n_candidates >= 1 && n_candidates <= static_cast<std::int64_t>(d), "n_candidates must be from 1 to columns");
  require(min_leaf >= 1 && max_leaves >= 2 && n_rounds >= 0 && l2 >= 0, "settings must be positive");
  require(max_samples > 0 && max_samples <= 1 && random_strength >= 0 && std::isfinite(random_strength),
          "max_samples must be in (0, 1], and random_strength at least 0");
  Output out;
  {
    nb::gil_scoped_release unlocked;
    Grower grower(X.data(), n, d, static_cast<std::size_t>(n_sets),
                  {learning_rate, l2, n_rounds, max_leaves, std::min(min_leaf, static_cast<std::int64_t>(n)),
                   n_candidates, max_samples, is_symmetric},
                  seed);
    std::vector<double> scores(n * n_outputs);
    std::vector<float> gradient(n * n_outputs), hessian(n * n_outputs);
    for (std::size_t i = 0; i < n; ++i) std::copy_n(baseline.data(), n_outputs, scores.data() + i * n_outputs);
    for (std::int64_t round = 0; round < n_rounds; ++round) {
      if constexpr (std::is_floating_point_v<Target>)
        differentiate(scores, targets.data(), n, squared_share, gradient, hessian);
      else
        differentiate(scores, targets.data(), n, n_outputs, gradient, hessian);
      grower.draw_rows();
      // As in CatBoost, chance fades when the model has grown.
      const double left = static_cast<double>(n) * std::exp(-learning_rate * static_cast<double>(round));
      const double strength = random_strength * left / (1 + left);
      for (std::size_t k = 0; k < n_outputs; ++k)
        grower.grow(gradient.data() + k * n, hessian.data() + k * n, scores.data() + k, n_outputs, strength, out);
    }
  }
  return to_numpy(std::move(out));
}

// Train extremely randomised trees on points whose targets are numbers, of no classes, or classes numbered from 0. They
// are written as `_scores.Trees` reads them.
template <class Target>
nb::dict randomise(Matrix<float> X, Vector<Target> targets, std::int64_t n_classes, std::int64_t n_trees,
                   std::int64_t min_leaf, std::int64_t max_leaves, std::int64_t n_candidates, std::uint64_t seed) {
  constexpr bool kIsNumber = std::is_floating_point_v<Target>;
  const std::size_t n = X.shape(0), d = X.shape(1);
  require(n >= 1 && n <= std::numeric_limits<std::int32_t>::max() && d >= 1, "X must have rows and columns");
  require(targets.shape(0) == n, "targets must have an entry for each row of X");
  require(n_candidates >= 1 && n_candidates <= static_cast<std::int64_t>(d), "n_candidates must be from 1 to columns");
  require(min_leaf >= 1 && max_leaves >= 1 && n_trees >= 1, "settings must be positive");
  require(kIsNumber ? n_classes == 0 : n_classes >= 2, "n_classes must be at least 2, or 0 for numbers");
  for (std::size_t i = 0; i < n; ++i)
    require(kIsNumber ? std::isfinite(targets.data()[i]) : targets.data()[i] >= 0 && targets.data()[i] < n_classes,
            "targets must be finite, or those of classes");
  Output out;
  {
    nb::gil_scoped_release unlocked;
    Forest<Target> forest(X.data(), targets.data(), n, d, kIsNumber ? 1 : static_cast<std::size_t>(n_classes),
                          static_cast<std::size_t>(n_candidates), static_cast<std::size_t>(min_leaf), seed);
    for (std::int64_t t = 0; t < n_trees; ++t) forest.grow(max_leaves, out);
  }
  return to_numpy(std::move(out));
}

template <class Target>
void define_for(nb::module_& module) {
  module.def("boost", boost<Target>, "X"_a.noconvert(), "n_sets"_a, "targets"_a.noconvert(), "baseline"_a.noconvert(),
             "learning_rate"_a, "n_rounds"_a, "max_leaves"_a, "min_leaf"_a, "n_candidates"_a, "l2"_a, "seed"_a,
             "squared_share"_a = 1.0, "max_samples"_a = 1.0, "random_strength"_a = 0.0,
             "is_symmetric"_a = false);
  module.def("randomise", randomise<Target>, "X"_a.noconvert(), "targets"_a.noconvert(), "n_classes"_a, "n_trees"_a,
             "min_leaf"_a, "max_leaves"_a, "n_candidates"_a, "seed"_a);
}

}  // namespace

NB_MODULE(_tree_training, module) {
  module.doc() = "Boosted and extremely randomised trees, of classes and of numbers.";
  define_for<std::int32_t>(module);
  define_for<double>(module);
}
