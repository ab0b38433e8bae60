// Train machines, one block each, so that coefficients have the same bits as those of the compiled engine.

#include "exact.cu"

#include "../arithmetic/smo.h"
#include "../arithmetic/widths.h"

#define MAX_THREADS 512  // of a block that trains

struct Subsamples {
  const int64* at;  // where the rows of each machine begin, and the end of the last
  const int* rows;  // ascending
};

struct Settings {
  double seed;  // NaN: Jaakkola's heuristic
  const double* multipliers;
  const double* C;
  int scaler;  // 0 none, 1 minmax, 2 standard
  int max_classes;
  double tolerance;
  int64 max_iterations;
};

// Outputs in the layout of Machines; the arrays of machine h begin at h * max_classes, at its subsample, and so on.
struct Trained {
  int* n_classes;
  int* classes;
  int* counts;
  int* support;
  double* coefficients;
  double* intercepts;
  double* gamma;
  double* scale;
  unsigned char* converged;
};

// A number that is larger for a larger double. 0 and -0 have the same, and there are no NaNs.
typedef uint64 Key;

__device__ __forceinline__ Key to_key(double value) {
  const Key bits = bit_cast<Key>(value + 0.0);
  return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
}

__device__ __forceinline__ double from_key(Key key) {
  return bit_cast<double>(key >> 63 ? key & 0x7fffffffffffffffull : ~key);
}

__device__ __forceinline__ uint32 max_of_warp(uint32 number) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, number);
#else
  for (int offset = 16; offset; offset >>= 1) {
    const uint32 other = __shfl_xor_sync(0xffffffffu, number, offset);
    number = other > number ? other : number;
  }
  return number;
#endif
}

__device__ __forceinline__ Key max_key_of_warp(Key key) {
  const uint32 high = max_of_warp((uint32)(key >> 32));
  const uint32 low = max_of_warp((uint32)(key >> 32) == high ? (uint32)key : 0u);
  return (Key)high << 32 | low;
}

__device__ __forceinline__ Best best_of_warp(Best best) {
  const Key key = to_key(best.value), largest = max_key_of_warp(key);
  return {(int)~max_of_warp(key == largest ? ~(uint32)best.index : 0u), from_key(largest)};
}

// Reductions over the threads of a block, the results of which all of them get. Those of one call are read while the
// next is written to the other half, so that one barrier each suffices.
struct Reducer {
  double* values;  // 2 x 32
  double* others;
  int* indices;
  int turn;

  // The largest value, and of several the one with the lowest index.
  __device__ Best best(Best own) {
    double none = 0.0;
    return best_and_min<false>(own, none);
  }

  // And the smallest of other values.
  template <bool WITH_MIN>
  __device__ Best best_and_min(Best own, double& other) {
    own = best_of_warp(own);
    if (WITH_MIN) other = -from_key(max_key_of_warp(to_key(-other)));
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    if (warps == 1) {
      __syncwarp();
      return own;
    }
    turn ^= 32;
    if (lane == 0) {
      values[turn + threadIdx.x / 32] = own.value;
      indices[turn + threadIdx.x / 32] = own.index;
      if (WITH_MIN) others[turn + threadIdx.x / 32] = other;
    }
    __syncthreads();
    const int from = turn + (lane < warps ? lane : 0);
    if (WITH_MIN) other = -from_key(max_key_of_warp(to_key(-others[from])));
    return best_of_warp({indices[from], values[from]});
  }
};

// The number of the given rank among `size` numbers, found by counting.
__device__ double select_rank(const double* numbers, int size, int rank) {
  __shared__ double selected;
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    const double number = numbers[i];
    int less = 0, equal = 0;
    for (int q = 0; q < size; ++q) {
      less += numbers[q] < number;
      equal += numbers[q] == number;
    }
    if (less <= rank && rank < less + equal) selected = number;
  }
  __syncthreads();
  const double result = selected;
  __syncthreads();
  return result;
}

// Factors of the features: append_factors of rows.cpp.
__device__ void compute_scale(Rows X, const int* rows, int r, int scaler, double* scale) {
  for (int k = threadIdx.x; k < X.d; k += blockDim.x) {
    double low = feature(X, rows[0], k), high = low, sum = 0.0;
    for (int i = 0; i < r; ++i) {
      const double x = feature(X, rows[i], k);
      low = x < low ? x : low;
      high = x > high ? x : high;
      sum += x;
    }
    double spread = half_range(low, high);
    if (scaler == 2) {
      const double mean = sum / (double)r;
      double squares = 0.0;
      for (int i = 0; i < r; ++i) {
        const double difference = feature(X, rows[i], k) - mean;
        squares += difference * difference;
      }
      spread = sqrt(squares / (double)r);
    }
    scale[k] = factor_of(low, high, spread);
  }
}

#define POINTS 4  // that another is compared with at a time

// Squared distances of all pairs; zero on the diagonal. `columns` has room for the features of all points, or is null.
template <class Number>
__device__ void compute_distances(Rows X, const int* sorted, int r, const double* scale, Number* columns,
                                  Number* squared) {
  const int d = X.d;
#define FEATURE(p, k) ((Number)(scale ? feature(X, sorted[p], k) * scale[k] : feature(X, sorted[p], k)))
  // Neighbouring threads read features of one point, and write those of neighbouring points together.
  if (columns)
    for (int e = threadIdx.x; e < r * d; e += blockDim.x) columns[e % d * r + e / d] = FEATURE(e / d, e % d);
  __syncthreads();
  for (int first = 0; first < r; first += POINTS)
    for (int q = threadIdx.x; q < min(r, first + POINTS); q += blockDim.x) {
      Number sums[POINTS];
#pragma unroll
      for (int i = 0; i < POINTS; ++i) sums[i] = 0;
      for (int k = 0; k < d; ++k) {
        const Number y = columns ? columns[k * r + q] : FEATURE(q, k);
#pragma unroll
        for (int i = 0; i < POINTS; ++i) {
          const int p = min(first + i, r - 1);
          add_square(sums[i], (columns ? columns[k * r + p] : FEATURE(p, k)) - y);
        }
      }
#pragma unroll
      for (int i = 0; i < POINTS; ++i) {
        const int p = first + i;
        if (p < r && q <= p) squared[(int64)p * r + q] = squared[(int64)q * r + p] = limit(sums[i]);
      }
    }
#undef FEATURE
  __syncthreads();
}

template <class Number>
__device__ Heuristic jaakkola_gamma(const Number* squared, int r, const int* starts, double* nearest) {
  __shared__ int zeros;
  if (threadIdx.x == 0) zeros = 0;
  __syncthreads();
  for (int p = threadIdx.x; p < r; p += blockDim.x) {
    int c = 0;
    while (starts[c + 1] <= p) ++c;
    Number closest = (Number)kInfinity;
    for (int q = 0; q < r; ++q)
      if (q < starts[c] || q >= starts[c + 1]) closest = fmin(closest, squared[(int64)q * r + p]);
    nearest[p] = sqrt((double)closest);
    if (nearest[p] == 0) atomicAdd(&zeros, 1);
  }
  __syncthreads();
  return gamma_of_distances(r, zeros, [=](int rank) { return select_rank(nearest, r, rank); });
}

template <class Number>
__device__ void compute_kernel(const Number* squared, int r, double gamma, float* kernel) {
  const Number rate = -(Number)gamma;
  for (int64 e = threadIdx.x; e < (int64)r * r; e += blockDim.x) kernel[e] = (float)exponential(rate * squared[e]);
}

#define ITEMS 4  // points that a thread reads at a time

// The passes of arithmetic/smo.h over the problem of two classes: rows [a, a + n_a) of the kernel matrix against
// [b, b + n_b). Coefficients and gradients of a thread's points are written by that thread alone.
struct Passes {
  const float* kernel;
  int stride, a, b, size;
  Box box;
  double *beta, *gradient, *next;
  Reducer reducer;

  __device__ __forceinline__ int at(int i) const { return i < box.n_positive ? a + i : b + i - box.n_positive; }
  __device__ __forceinline__ const float* row(int i) const { return kernel + (int64)at(i) * stride; }

  __device__ __forceinline__ double coefficient(int i) const { return beta[i]; }
  __device__ __forceinline__ double gradient_of(int i) const { return gradient[i]; }
  __device__ __forceinline__ float kernel_value(int i, int j) const { return row(i)[at(j)]; }

  __device__ __forceinline__ Best start() {
    Best first = {0, -kInfinity};
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
      beta[i] = 0.0;
      gradient[i] = box.label(i);
      if (0.0 < box.upper(i) && gradient[i] > first.value) first = {i, gradient[i]};
    }
    __syncthreads();
    return reducer.best(first);
  }

  __device__ __forceinline__ Second select_second(Best first) {
    const float* const kernel_i = row(first.index);
    Best second = {-1, 0.0};
    double lowest = kInfinity;
    for (int start = threadIdx.x; start < size; start += ITEMS * blockDim.x) {
      float k[ITEMS];
      double g[ITEMS], own[ITEMS];
      // All loads before what depends on them.
#pragma unroll
      for (int q = 0; q < ITEMS; ++q) {
        const int t = start + q * blockDim.x;
        if (t < size) k[q] = kernel_i[at(t)], g[q] = gradient[t], own[q] = beta[t];
      }
#pragma unroll
      for (int q = 0; q < ITEMS; ++q) {
        const int t = start + q * blockDim.x;
        if (t >= size || !(own[q] > box.lower(t))) continue;
        lowest = g[q] < lowest ? g[q] : lowest;
        const float gain = gains((float)(first.value - g[q]), k[q]);
        if (gain > second.value) second = {t, gain};
      }
    }
    second = reducer.best_and_min<true>(second, lowest);
    return {second.index, lowest};
  }

  // Others may still read the coefficients and the gradient that were: the gradient changes in another array, the two
  // coefficients after the barrier.
  __device__ __forceinline__ Best take(Step step) {
    const float *const kernel_i = row(step.i), *const kernel_j = row(step.j);
    Best first = {0, -kInfinity};
    for (int start = threadIdx.x; start < size; start += ITEMS * blockDim.x) {
      float k_i[ITEMS], k_j[ITEMS];
      double g[ITEMS], own[ITEMS];
#pragma unroll
      for (int q = 0; q < ITEMS; ++q) {
        const int t = start + q * blockDim.x;
        if (t < size) k_i[q] = kernel_i[at(t)], k_j[q] = kernel_j[at(t)], g[q] = gradient[t], own[q] = beta[t];
      }
#pragma unroll
      for (int q = 0; q < ITEMS; ++q) {
        const int t = start + q * blockDim.x;
        if (t >= size) continue;
        const double after = stepped(g[q], step.size, k_i[q], k_j[q]);
        next[t] = after;
        const double mine = t == step.i ? step.beta_i : t == step.j ? step.beta_j : own[q];
        if (mine < box.upper(t) && after > first.value) first = {t, after};
      }
    }
    first = reducer.best(first);
    if (step.i % blockDim.x == threadIdx.x) beta[step.i] = step.beta_i;
    if (step.j % blockDim.x == threadIdx.x) beta[step.j] = step.beta_j;
    double* const last = gradient;
    gradient = next;
    next = last;
    return first;
  }
};

// Train the machines of the list `order`. Scratch of a block, for subsamples of up to r points: r^2 doubles, r^2
// floats, 3 r doubles, (classes - 1) r doubles and 2 r integers.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    train(Rows X, const int* codes, Subsamples subsamples, Settings settings, Trained trained, const int* order,
          int count, int largest, double* distances, float* kernels, double* numbers, int* integers) {
  const int64 square = (int64)largest * largest;
  double* squared = distances + blockIdx.x * square;
  float* kernel = kernels + blockIdx.x * square;
  double* own = numbers + (int64)blockIdx.x * (settings.max_classes + 2) * largest;
  double *beta = own, *gradient = own + largest, *nearest = own + 2 * largest, *coefficients = own + 3 * largest;
  int* sorted = integers + (int64)blockIdx.x * 2 * largest;
  int* sorted_codes = sorted + largest;
  __shared__ int starts[MAX_CLASSES + 1], class_codes[MAX_CLASSES], n_classes, indices[64];
  __shared__ double values[64], others[64];
  const int k_max = settings.max_classes, d = X.d;
  for (int at = blockIdx.x; at < count; at += gridDim.x) {
    __syncthreads();
    const int h = order[at];
    const int* rows = subsamples.rows + subsamples.at[h];
    const int r = (int)(subsamples.at[h + 1] - subsamples.at[h]);
    double* scale = settings.scaler ? trained.scale + (int64)h * d : 0;
    if (scale) compute_scale(X, rows, r, settings.scaler, scale);
    // Stable order by class.
    for (int i = threadIdx.x; i < r; i += blockDim.x) {
      const int code = codes[rows[i]];
      int position = 0;
      for (int q = 0; q < r; ++q) {
        const int other = codes[rows[q]];
        position += other < code || (other == code && q < i);
      }
      sorted[position] = rows[i];
      sorted_codes[position] = code;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      n_classes = 0;
      for (int p = 0; p < r; ++p)
        if (p == 0 || sorted_codes[p] != sorted_codes[p - 1]) {
          starts[n_classes] = p;
          class_codes[n_classes++] = sorted_codes[p];
        }
      starts[n_classes] = r;
    }
    __syncthreads();
    if (threadIdx.x < n_classes) {
      trained.classes[(int64)h * k_max + threadIdx.x] = class_codes[threadIdx.x];
      trained.counts[(int64)h * k_max + threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) trained.n_classes[h] = n_classes;
    if (n_classes == 1) {
      if (threadIdx.x == 0) {
        trained.gamma[h] = 0.0;
        trained.converged[h] = 1;
      }
      continue;
    }
    int infinite = 0;
    double largest_square = 0.0;
    for (int p = threadIdx.x; p < r; p += blockDim.x) {
      double square = 0.0;
      for (int k = 0; k < d; ++k) {
        double x = feature(X, sorted[p], k);
        if (scale) x = x * scale[k];
        infinite |= !isfinite(x);
        square += x * x;
      }
      largest_square = fmax(largest_square, square);
    }
    infinite = __syncthreads_or(infinite);
    Reducer reducer = {values, others, indices, 0};
    const double norm = infinite ? kInfinity : sqrt(reducer.best({0, largest_square}).value);
    // In single precision if that is enough, else in double.
    const bool heuristic = isnan(settings.seed);
    double seed = settings.seed, gamma = seed * settings.multipliers[h];
    bool single = is_single_enough(norm, d, heuristic ? kMinSingleGamma : gamma);
    if (single) {
      float* const singles = (float*)squared;
      compute_distances(X, sorted, r, scale, d <= r ? kernel : 0, singles);
      if (heuristic) {
        const Heuristic found = jaakkola_gamma(singles, r, starts, nearest);
        gamma = found.gamma * settings.multipliers[h];
        single = is_single_enough(norm, d, found, gamma);
      }
      if (single) compute_kernel(singles, r, gamma, kernel);
    }
    if (!single) {
      compute_distances(X, sorted, r, scale, 2 * d <= r ? (double*)kernel : 0, squared);
      if (heuristic) seed = jaakkola_gamma(squared, r, starts, nearest).gamma;
      gamma = seed * settings.multipliers[h];
      compute_kernel(squared, r, gamma, kernel);
    }
    for (int i = threadIdx.x; i < (n_classes - 1) * r; i += blockDim.x) coefficients[i] = 0.0;
    __syncthreads();
    bool converged = !infinite;
    int pair = 0;
    for (int a = 0; a < n_classes; ++a) {
      for (int b = a + 1; b < n_classes; ++b, ++pair) {
        const int n_a = starts[a + 1] - starts[a], n_b = starts[b + 1] - starts[b];
        Passes passes = {kernel, r, starts[a], starts[b], n_a + n_b, {n_a, settings.C[h]}, beta, gradient, nearest,
                         {values, others, indices, 0}};
        const bool solved = iterate(passes, settings.tolerance, settings.max_iterations);
        __syncthreads();
        const double intercept = compute_intercept(passes.box, passes.size, beta, passes.gradient);
        converged = converged && solved && intercept - intercept == 0.0;
        for (int i = threadIdx.x; i < n_a; i += blockDim.x) coefficients[(int64)(b - 1) * r + starts[a] + i] = beta[i];
        for (int i = threadIdx.x; i < n_b; i += blockDim.x)
          coefficients[(int64)a * r + starts[b] + i] = beta[n_a + i];
        if (threadIdx.x == 0) trained.intercepts[(int64)h * (k_max * (k_max - 1) / 2) + pair] = intercept;
        __syncthreads();
      }
    }
    // Keep the support vectors, in order: `position` counts those before.
    int* support = trained.support + subsamples.at[h];
    double* kept = trained.coefficients + subsamples.at[h] * (k_max - 1);
    const auto supports = [=](int p) {
      for (int row = 0; row + 1 < n_classes; ++row)
        if (coefficients[(int64)row * r + p] != 0.0) return true;
      return false;
    };
    int n = 0;
    for (int p = 0; p < r; ++p) n += supports(p);
    for (int p = threadIdx.x; p < r; p += blockDim.x) {
      if (!supports(p)) continue;
      int position = 0;
      for (int q = 0; q < p; ++q) position += supports(q);
      support[position] = sorted[p];
      for (int row = 0; row + 1 < n_classes; ++row) kept[(int64)row * n + position] = coefficients[(int64)row * r + p];
      int c = 0;
      while (starts[c + 1] <= p) ++c;
      atomicAdd(trained.counts + (int64)h * k_max + c, 1);
    }
    if (threadIdx.x == 0) {
      trained.gamma[h] = gamma;
      trained.converged[h] = converged;
    }
  }
}
