#include "rows.h"

#include <cmath>
#include <numeric>

#include "../arithmetic/widths.h"

namespace pacbayes {

// ------------------------------------------------------------------------------------------------------
// Scaling
// ------------------------------------------------------------------------------------------------------

namespace {

// Standard deviations of d features over `count` rows; row(i) points to the features of the i-th.
//
// The sums run over the rows one by one, as those of NumPy do for more than one feature, zeros included: sparse and
// dense rows have the same standard deviations, to the bit.
template <class Row>
void standard_deviations(Row row, std::ptrdiff_t count, std::ptrdiff_t d, double* deviations) {
  std::vector<double> means(d, 0.0);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto* features = row(i);
    for (std::ptrdiff_t k = 0; k < d; ++k) means[k] += static_cast<double>(features[k]);
  }
  for (double& mean : means) mean /= static_cast<double>(count);
  std::fill_n(deviations, d, 0.0);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto* features = row(i);
    for (std::ptrdiff_t k = 0; k < d; ++k) {
      const double difference = static_cast<double>(features[k]) - means[k];
      deviations[k] += difference * difference;
    }
  }
  for (std::ptrdiff_t k = 0; k < d; ++k) deviations[k] = std::sqrt(deviations[k] / static_cast<double>(count));
}

}  // namespace

template <class Number>
Scale append_factors(DenseRows<Number> X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler, Factors& to) {
  const auto row = [=](std::ptrdiff_t i) { return X.values + static_cast<std::ptrdiff_t>(rows[i]) * X.d; };
  std::vector<double> low(row(0), row(0) + X.d), high = low, spread(X.d);
  for (std::ptrdiff_t i = 1; i < count; ++i) {
    const Number* features = row(i);
    for (std::ptrdiff_t k = 0; k < X.d; ++k) {
      const auto feature = static_cast<double>(features[k]);
      low[k] = feature < low[k] ? feature : low[k];
      high[k] = feature > high[k] ? feature : high[k];
    }
  }
  if (scaler == Scaler::minmax)
    std::transform(low.begin(), low.end(), high.begin(), spread.begin(), half_range);
  else
    standard_deviations(row, count, X.d, spread.data());
  const std::size_t start = to.factors.size();
  for (std::ptrdiff_t k = 0; k < X.d; ++k) to.factors.push_back(factor_of(low[k], high[k], spread[k]));
  return {to.factors.data() + start, nullptr, X.d};
}

template Scale append_factors(DenseRows<float>, const std::int32_t*, std::ptrdiff_t, Scaler, Factors&);
template Scale append_factors(DenseRows<double>, const std::int32_t*, std::ptrdiff_t, Scaler, Factors&);

template <class Number>
Scale append_table_factors(DenseRows<Number> X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler,
                           std::ptrdiff_t n_numbers, Factors& to) {
  const std::size_t start = to.factors.size(), fill_start = to.fill.size();
  to.factors.resize(start + X.d, 1.0);
  to.fill.resize(fill_start + n_numbers, 0.0);
  std::vector<double> known;
  for (std::ptrdiff_t k = 0; k < n_numbers; ++k) {
    known.clear();
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const auto feature = static_cast<double>(X.values[static_cast<std::ptrdiff_t>(rows[i]) * X.d + k]);
      if (!std::isnan(feature)) known.push_back(feature);
    }
    double& factor = to.factors[start + k];
    if (known.empty()) {
      factor = 0.0;
      continue;
    }
    const double mean = std::accumulate(known.begin(), known.end(), 0.0) / static_cast<double>(known.size());
    to.fill[fill_start + k] = mean;
    if (scaler == Scaler::none) continue;
    const auto [low, high] = std::minmax_element(known.begin(), known.end());
    double spread = half_range(*low, *high);
    if (scaler == Scaler::standard) {  // Means in the place of NaN have no deviation.
      double sum = 0.0;
      for (const double feature : known) sum += (feature - mean) * (feature - mean);
      spread = std::sqrt(sum / static_cast<double>(count));
    }
    factor = factor_of(*low, *high, spread);
  }
  return {to.factors.data() + start, nullptr, X.d, to.fill.data() + fill_start, n_numbers};
}

template Scale append_table_factors(DenseRows<float>, const std::int32_t*, std::ptrdiff_t, Scaler, std::ptrdiff_t,
                                    Factors&);
template Scale append_table_factors(DenseRows<double>, const std::int32_t*, std::ptrdiff_t, Scaler, std::ptrdiff_t,
                                    Factors&);

namespace {

// A stored value and where it is: the row counts in the order in which rows are given.
struct Entry {
  std::int32_t column;
  std::int32_t row;
  double value;
};

// Column by column, and row by row within a column.
std::vector<Entry> entries_by_column(SparseRows X, const std::int32_t* rows, std::ptrdiff_t count) {
  std::vector<Entry> entries;
  for (std::ptrdiff_t i = 0; i < count; ++i)
    for (std::int64_t at = X.begin(rows[i]); at < X.end(rows[i]); ++at)
      entries.push_back({X.columns[at], static_cast<std::int32_t>(i), X.value(at)});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.column != b.column ? a.column < b.column : a.row < b.row;
  });
  return entries;
}

// A column whose values are not all the same, and its stored values.
struct Column {
  std::int32_t number;
  double low, high, spread;
  const Entry *begin, *end;
};

std::vector<Column> varying_columns(const std::vector<Entry>& entries, std::ptrdiff_t count) {
  std::vector<Column> columns;
  const Entry* const last = entries.data() + entries.size();
  for (const Entry* begin = entries.data(); begin != last;) {
    const Entry* end = begin;
    // A column that is not stored in all rows is zero in the others.
    double low = begin->value, high = begin->value;
    for (; end != last && end->column == begin->column; ++end) {
      low = std::min(low, end->value);
      high = std::max(high, end->value);
    }
    if (end - begin < count) {
      low = std::min(low, 0.0);
      high = std::max(high, 0.0);
    }
    if (high > low) columns.push_back({begin->column, low, high, half_range(low, high), begin, end});
    begin = end;
  }
  return columns;
}

// Replace the spreads by standard deviations, a few dense columns at a time.
void set_standard_deviations(std::vector<Column>& columns, std::ptrdiff_t count) {
  constexpr std::size_t kPanel = 16;
  std::vector<double> panel(count * kPanel);
  for (std::size_t first = 0; first < columns.size(); first += kPanel) {
    const std::size_t width = std::min(kPanel, columns.size() - first);
    std::fill(panel.begin(), panel.end(), 0.0);
    for (std::size_t k = 0; k < width; ++k)
      for (const Entry* entry = columns[first + k].begin; entry != columns[first + k].end; ++entry)
        panel[entry->row * kPanel + k] = entry->value;
    double deviations[kPanel];
    standard_deviations([&](std::ptrdiff_t i) { return panel.data() + i * kPanel; }, count, kPanel, deviations);
    for (std::size_t k = 0; k < width; ++k) columns[first + k].spread = deviations[k];
  }
}

}  // namespace

Scale append_factors(SparseRows X, const std::int32_t* rows, std::ptrdiff_t count, Scaler scaler, Factors& to) {
  const std::vector<Entry> entries = entries_by_column(X, rows, count);
  std::vector<Column> columns = varying_columns(entries, count);
  if (scaler == Scaler::standard) set_standard_deviations(columns, count);
  const std::size_t start = to.factors.size();
  for (const Column& column : columns) {
    to.columns.push_back(column.number);
    to.factors.push_back(factor_of(column.low, column.high, column.spread));
  }
  to.starts.push_back(static_cast<std::int64_t>(to.factors.size()));
  return {to.factors.data() + start, to.columns.data() + start, static_cast<std::ptrdiff_t>(columns.size())};
}

// ------------------------------------------------------------------------------------------------------
// Sparse rows
// ------------------------------------------------------------------------------------------------------

namespace {

// Reads the factors of ascending columns.
class FactorReader {
 public:
  explicit FactorReader(Scale scale) : scale_(scale) {}

  double operator()(std::int32_t column) {
    while (next_ < scale_.size && scale_.columns[next_] < column) ++next_;
    return next_ < scale_.size && scale_.columns[next_] == column ? scale_.factors[next_] : 1.0;
  }

 private:
  Scale scale_;
  std::ptrdiff_t next_ = 0;
};

// Calls visit(column, lane, value) for all stored values of `count` consecutive rows, column by column.
template <class Visit>
void merge_rows(SparseRows X, std::ptrdiff_t first, int count, Visit visit) {
  std::int64_t at[kTile];
  std::int32_t next[kTile];
  const auto column_at = [&](int lane) { return at[lane] < X.end(first + lane) ? X.columns[at[lane]] : kNoColumn; };
  for (int lane = 0; lane < count; ++lane) {
    at[lane] = X.begin(first + lane);
    next[lane] = column_at(lane);
  }
  for (;;) {
    std::int32_t column = kNoColumn;
    for (int lane = 0; lane < count; ++lane) column = std::min(column, next[lane]);
    if (column == kNoColumn) return;
    for (int lane = 0; lane < count; ++lane)
      if (next[lane] == column) {
        visit(column, lane, X.value(at[lane]));
        ++at[lane];
        next[lane] = column_at(lane);
      }
  }
}

}  // namespace

void SparseMatrix::gather(SparseRows X, const std::int32_t* rows, std::ptrdiff_t count, Scale scale) {
  d_ = X.d;
  values_.clear();
  columns_.clear();
  starts_.assign(1, 0);
  for (std::ptrdiff_t p = 0; p < count; ++p) {
    const std::int64_t begin = X.begin(rows[p]), end = X.end(rows[p]);
    columns_.insert(columns_.end(), X.columns + begin, X.columns + end);
    FactorReader factor(scale);
    for (std::int64_t at = begin; at < end; ++at)
      values_.push_back(scale ? X.value(at) * factor(X.columns[at]) : X.value(at));
    starts_.push_back(static_cast<std::int64_t>(columns_.size()));
  }
}

template <class Number>
void BasicSparsePoints<Number>::assign(SparseRows rows) {
  count_ = rows.count;
  columns_.clear();
  values_.clear();
  starts_.clear();
  for (std::ptrdiff_t p = 0; p < count_; p += kBlock) {
    const std::size_t start = columns_.size();
    starts_.push_back(static_cast<std::int64_t>(start));
    merge_rows(rows, p, static_cast<int>(std::min<std::ptrdiff_t>(kBlock, count_ - p)),
               [&](std::int32_t column, int lane, double value) {
                 if (columns_.size() == start || columns_.back() != column) {
                   columns_.push_back(column);
                   values_.resize(values_.size() + kBlock, Number{0});
                 }
                 values_[values_.size() - kBlock + lane] = static_cast<Number>(value);
               });
    columns_.push_back(kNoColumn);
    values_.resize(values_.size() + kBlock, Number{0});
  }
}

template <class Number>
SparseBlock<Number> BasicSparsePoints<Number>::block(std::ptrdiff_t b) const {
  return {columns_.data() + starts_[b], values_.data() + starts_[b] * kBlock,
          static_cast<int>(std::min<std::ptrdiff_t>(kBlock, count_ - b * kBlock))};
}

template <class Number>
std::size_t BasicSparseTile<Number>::bytes(SparseRows X) {
  const std::int64_t per_row = X.count > 0 ? (X.starts[X.count] - X.starts[0]) / X.count : 0;
  return static_cast<std::size_t>(per_row) * kTile * 2 * sizeof(Number);
}

template <class Number>
void BasicSparseTile<Number>::load(SparseRows X, std::ptrdiff_t first, std::ptrdiff_t count) {
  count_ = count;
  groups_.resize((count + kGroup - 1) / kGroup);
  for (Group& group : groups_) {
    group.columns.clear();
    group.starts.clear();
    group.lanes.clear();
    group.values.clear();
    const auto rows = static_cast<int>(std::min<std::ptrdiff_t>(kGroup, count));
    merge_rows(X, first, rows, [&group](std::int32_t column, int lane, double value) {
      if (group.columns.empty() || group.columns.back() != column) {
        group.columns.push_back(column);
        group.starts.push_back(static_cast<std::int64_t>(group.lanes.size()));
      }
      group.lanes.push_back(static_cast<std::uint8_t>(lane));
      group.values.push_back(static_cast<Number>(value));
    });
    group.columns.push_back(kNoColumn);
    group.starts.push_back(static_cast<std::int64_t>(group.lanes.size()));
    first += rows;
    count -= rows;
  }
}

template <class Number>
void BasicSparseTile<Number>::load_scaled(const BasicSparseTile& other, Scale scale) {
  groups_ = other.groups_;
  count_ = other.count_;
  for (Group& group : groups_) {
    FactorReader factor(scale);
    for (std::size_t c = 0; c + 1 < group.columns.size(); ++c) {
      const auto by = static_cast<Number>(factor(group.columns[c]));
      for (std::int64_t at = group.starts[c]; at < group.starts[c + 1]; ++at) group.values[at] *= by;
    }
  }
}

// Columns of a slice: few enough for it to stay in the cache while all points are compared with it, and to bound memory
// whatever the number of features.
constexpr std::ptrdiff_t kSliceColumns = 1024;

template <class Number>
SparseSlice<Number> BasicSparseTile<Number>::expand(const Group& group, std::ptrdiff_t first) {
  const std::ptrdiff_t size = std::min<std::ptrdiff_t>(kSliceColumns, group.columns.size() - 1 - first);
  slice_columns_.assign(group.columns.begin() + first, group.columns.begin() + first + size);
  slice_columns_.push_back(kNoColumn);
  slice_values_.assign((size + 1) * kGroup, Number{0});
  for (std::ptrdiff_t c = 0; c < size; ++c)
    for (std::int64_t at = group.starts[first + c]; at < group.starts[first + c + 1]; ++at)
      slice_values_[c * kGroup + group.lanes[at]] = group.values[at];
  return {slice_columns_.data(), slice_values_.data(), size, group.columns[first + size]};
}

template <class Number>
void BasicSparseTile<Number>::distances(const BasicSparsePoints<Number>& points, Number* squared, Number* nearest) {
  const DistanceRoutines<Number>& run = routines().distances<Number>();
  std::fill_n(squared, points.count() * kTile, Number{0});
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto n_columns = static_cast<std::ptrdiff_t>(groups_[g].columns.size()) - 1;
    positions_.assign(points.n_blocks(), 0);
    std::ptrdiff_t first = 0;
    do {
      const SparseSlice<Number> slice = expand(groups_[g], first);
      for (std::ptrdiff_t b = 0; b < points.n_blocks(); ++b)
        run.accumulate_sparse(points.block(b), slice, positions_[b], squared + b * kBlock * kTile + g * kGroup);
      first += slice.size;
    } while (first < n_columns);
  }
  run.finish_sparse(points.count(), count_, squared, nearest);
}

template class BasicSparsePoints<double>;
template class BasicSparsePoints<float>;
template class BasicSparseTile<double>;
template class BasicSparseTile<float>;

}  // namespace pacbayes
