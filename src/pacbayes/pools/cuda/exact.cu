// Decision values in double precision, by the operations of the compiled engine in their order: on a machine with fused
// multiply-adds both give the same bits.

#include "pack.cu"

#include "../arithmetic/kernel.h"
#include "../arithmetic/votes.h"

#define MAX_CLASSES 16
#define MAX_PAIRS (MAX_CLASSES * (MAX_CLASSES - 1) / 2)
#define GROUP 8  // support vectors that are compared with a row together

// Rows of d features in single or double precision.
struct Rows {
  const void* values;
  int d;
  int is_float;
};

__device__ __forceinline__ double feature(Rows rows, int64 row, int k) {
  const int64 at = row * rows.d + k;
  return rows.is_float ? (double)((const float*)rows.values)[at] : ((const double*)rows.values)[at];
}

#define RUN 4  // features that are read together

// RUN features of a row from k on. Rows that are a multiple of RUN wide are aligned.
__device__ __forceinline__ void features(Rows rows, int64 row, int k, double (&x)[RUN]) {
  const int64 at = row * rows.d + k;
  if (rows.d % RUN == 0) {
    if (rows.is_float) {
      const float4 four = *(const float4*)((const float*)rows.values + at);
      x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    } else {
      const double2* two = (const double2*)((const double*)rows.values + at);
      x[0] = two[0].x, x[1] = two[0].y, x[2] = two[1].x, x[3] = two[1].y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < RUN; ++i) x[i] = feature(rows, row, k + i);
  }
}

// Trained machines: the parts of machine h begin at the offsets of h. Layout as in svm.h.
struct Machines {
  const int* n_classes;
  const int64* class_at;
  const int* classes;
  const int* counts;
  const int64* support_at;
  const int* support;
  const int64* coefficient_at;
  const double* coefficients;
  const int64* intercept_at;
  const double* intercepts;
  const double* gamma;
  const double* scale;  // m x d, or null
};

// One of them: Machine in svm.h.
struct Machine {
  int n_classes;
  const int* classes;
  const int* counts;
  const int* support;
  int n_support;
  const double* coefficients;
  const double* intercepts;
  double gamma;
  const double* scale;
};

__device__ Machine machine_of(const Machines& machines, int h, int d) {
  const int64 class_at = machines.class_at[h];
  Machine machine = {machines.n_classes[h], machines.classes + class_at, machines.counts + class_at,
                     machines.support + machines.support_at[h], 0, machines.coefficients + machines.coefficient_at[h],
                     machines.intercepts + machines.intercept_at[h], machines.gamma[h],
                     machines.scale ? machines.scale + (int64)h * d : 0};
  for (int c = 0; machine.n_classes > 1 && c < machine.n_classes; ++c) machine.n_support += machine.counts[c];
  return machine;
}

// ------------------------------------------------------------------------------------------------------
// Support vectors of chosen machines, scaled, in groups: packed[(group * d + k) * GROUP + point of the group]
// ------------------------------------------------------------------------------------------------------

// And the margins of their pairs of classes, where the intercepts of these are.
extern "C" __global__ void pack_support(Machines machines, Rows points, const int* chosen, const int64* group_at,
                                        double* packed, double* margins) {
  const int j = blockIdx.x, h = chosen[j], d = points.d;
  const Machine machine = machine_of(machines, h, d);
  const int n = machine.n_support;
  double* to = packed + group_at[j] * d * GROUP;
  const int groups = (n + GROUP - 1) / GROUP;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < groups * GROUP * d; i += gridDim.y * blockDim.x) {
    const int k = i % d, p = i / d;  // neighbouring threads read neighbouring features
    double value = 0.0;
    if (p < n) {
      value = feature(points, machine.support[p], k);
      if (machine.scale) value = value * machine.scale[k];
    }
    to[((int64)(p / GROUP) * d + k) * GROUP + p % GROUP] = value;
  }
  if (blockIdx.y) return;
  int pair = 0;
  for (int a = 0; a < machine.n_classes; ++a)
    for (int b = a + 1; b < machine.n_classes; ++b, ++pair)
      if (pair % blockDim.x == threadIdx.x)
        margins[machines.intercept_at[h] + pair] = pair_margin(machine, d, a, b, pair);
}

#define WARPS (THREADS / 32)
#define STAGED 64             // features of rows that are kept in shared memory; wider rows are read again
#define CHUNK (WARPS * GROUP)  // support vectors that a block compares with 32 rows at a time

__device__ __forceinline__ void add_squares(double x, const double2 (&s)[GROUP / 2], double (&squared)[GROUP]) {
#pragma unroll
  for (int j = 0; j < GROUP / 2; ++j) {
    add_square(squared[2 * j], s[j].x - x);
    add_square(squared[2 * j + 1], s[j].y - x);
  }
}

// Squared distances of one row to a group of support vectors. `staged` are its features, scaled, 32 apart, or null.
__device__ __forceinline__ void compare(Rows X, int64 row, const double* scale, const double* staged,
                                        const double* group, double (&squared)[GROUP]) {
#pragma unroll
  for (int j = 0; j < GROUP; ++j) squared[j] = 0.0;
  const double2* at = (const double2*)group;
  int k = 0;
  for (; k + RUN <= X.d; k += RUN, at += RUN * GROUP / 2) {
    double x[RUN];
    double2 s[RUN][GROUP / 2];
    // All loads before what depends on them.
#pragma unroll
    for (int i = 0; i < RUN; ++i)
#pragma unroll
      for (int j = 0; j < GROUP / 2; ++j) s[i][j] = at[i * GROUP / 2 + j];
    if (!staged) features(X, row, k, x);
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      if (staged)
        x[i] = staged[(k + i) * 32];
      else if (scale)
        x[i] = x[i] * scale[k + i];
      add_squares(x[i], s[i], squared);
    }
  }
  for (; k < X.d; ++k, at += GROUP / 2) {
    double2 s[GROUP / 2];
#pragma unroll
    for (int j = 0; j < GROUP / 2; ++j) s[j] = at[j];
    double x = staged ? staged[k * 32] : feature(X, row, k);
    if (!staged && scale) x = x * scale[k];
    add_squares(x, s, squared);
  }
}

// Add the kernel values of support vectors [first, last) to the decision values, one after another as vote.cpp does.
// `weights` are their coefficients if there are two classes.
__device__ void accumulate(const Machine& machine, int first, int last, const double* kernel, const double* weights,
                           double* values) {
  if (machine.n_classes == 2) {
    double value = values[0];
#pragma unroll 4
    for (int p = 0; p < last - first; ++p) value = multiply_add(weights[p], kernel[p * 32], value);
    values[0] = value;
    return;
  }
  const double* coefficients = machine.coefficients;
  const int n = machine.n_support;
  int own = 0, end = machine.counts[0];  // class of the support vector, and where those of the class end
  for (int p = first; p < last; ++p) {
    while (p >= end) end += machine.counts[++own];
    const double k = kernel[(p - first) * 32];
    int pair = 0;
    for (int a = 0; a < machine.n_classes; ++a)
      for (int b = a + 1; b < machine.n_classes; ++b, ++pair) {
        if (own == a) values[pair] = multiply_add(coefficients[(int64)(b - 1) * n + p], k, values[pair]);
        if (own == b) values[pair] = multiply_add(coefficients[(int64)a * n + p], k, values[pair]);
      }
  }
}

// Decision values of a machine at 32 rows, one for each lane: every warp compares the rows with a group of support
// vectors, and the first one adds up, so that few rows do not wait for one thread each. Lanes of the first warp get them.
__device__ void decide(const Machine& machine, const double* packed, Rows X, int64 row, double* values) {
  __shared__ double staged[STAGED * 32];
  __shared__ double kernels[2][CHUNK * 32], weights[2][CHUNK];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = X.d;
  const int k_classes = machine.n_classes, n = machine.n_support;
  const double* scale = machine.scale;
  const bool stages = d <= STAGED;
  if (stages)
    for (int k = warp; k < d; k += WARPS) {
      const double x = feature(X, row, k);
      staged[k * 32 + lane] = scale ? x * scale[k] : x;
    }
  if (warp == 0)
    for (int pair = 0; pair < k_classes * (k_classes - 1) / 2; ++pair) values[pair] = machine.intercepts[pair];
  __syncthreads();
  const double rate = -machine.gamma;
  int turn = 0;
  for (int first = 0; first < n; first += CHUNK, turn ^= 1) {
    const int own = first + warp * GROUP;
    if (own < n) {
      if (lane < GROUP && own + lane < n) weights[turn][warp * GROUP + lane] = machine.coefficients[own + lane];
      double squared[GROUP];
      compare(X, row, scale, stages ? staged + lane : 0, packed + (int64)own * d, squared);
#pragma unroll
      for (int j = 0; j < GROUP; ++j)
        kernels[turn][(warp * GROUP + j) * 32 + lane] = exponential(rate * limit(squared[j]));
    }
    __syncthreads();
    // The others go on to the other half meanwhile, and wait before they come back to this one.
    if (warp == 0) accumulate(machine, first, min(n, first + CHUNK), kernels[turn] + lane, weights[turn], values);
  }
  __syncthreads();
}

__device__ Vote elect(int n_classes, const double* values, const double* margins) {
  if (n_classes == 2) return elect(values[0], margins[0]);
  Tally tallies[MAX_CLASSES] = {};
  for (int a = 0; a < n_classes; ++a)
    for (int b = a + 1; b < n_classes; ++b) count_pair(*values++, *margins++, tallies[a], tallies[b]);
  return elect(n_classes, tallies, 1);
}

// Rows that a block evaluates one machine at: those whose bits are set in the masks of the filter (64 rows are two
// words; filter.cu), all rows, or the training rows of the machine.
enum { MASKED = 0, ALL = 1, TRAINING = 2 };
#define WORDS 32  // of masks that a block reads at a time, at most

// What to do with a vote.
struct Sink {
  int* errors;  // one number per chosen machine, or null
  int sign;     // +1 adds mistakes, -1 takes them back
  uint16* votes;  // chosen machines x count, or null
  unsigned char* certain;
};

// Evaluate chosen machines at rows from `first` on, `count` of them. Chosen machine j was trained on the rows from begins[j]
// to ends[j] of the list `training`. A block takes `per_turn` words of masks, rows or training rows at a time: at most WORDS
// or THREADS.
extern "C" __global__ void __launch_bounds__(THREADS)
    decide_rows(Machines machines, Rows X, const int* codes, const int* chosen, const int64* group_at,
                const double* packed, const double* margins, int64 first, int64 count, int mode, int per_turn,
                const uint32* masks, int64 words, const int64* begins, const int64* ends, const int* training, Sink sink) {
  const int j = blockIdx.y, h = chosen[j];
  const Machine machine = machine_of(machines, h, X.d);
  __shared__ int queue[WORDS * 32 + 32];  // rows that wait, relative to the first
  __shared__ int queued;
  const double* own = packed + group_at[j] * X.d * GROUP;
  const int64 begin = mode == TRAINING ? begins[j] : 0;
  const int64 end = mode == MASKED ? words : mode == ALL ? count : ends[j], step = (int64)gridDim.x * per_turn;
  if (threadIdx.x == 0) queued = 0;
  int mistakes = 0;
  for (int64 turn = begin + (int64)blockIdx.x * per_turn; turn < end; turn += step) {
    __syncthreads();
    const int64 i = turn + threadIdx.x;
    const bool reads = threadIdx.x < per_turn && i < end;
    if (mode == MASKED) {
      uint32 bits = reads ? masks[(int64)j * words + i] : 0;
      int at = bits ? atomicAdd(&queued, __popc(bits)) : 0;
      for (; bits; bits &= bits - 1) {
        const int bit = __ffs(bits) - 1;
        queue[at++] = (int)(64 * (i >> 1) + 16 * (bit & 3) + (bit >> 2) + 8 * (i & 1));
      }
    } else if (reads) {
      const int64 row = mode == ALL ? i : training[i] - first;
      if (row >= 0 && row < count) queue[atomicAdd(&queued, 1)] = (int)row;
    }
    __syncthreads();
    // A few rows wait until there is one for every lane, or none to come.
    int waiting = queued;
    for (const int least = turn + step < end ? 32 : 1; waiting >= least; waiting = waiting > 32 ? waiting - 32 : 0) {
      const int at = waiting - 1 - (int)(threadIdx.x % 32);
      const int64 row = queue[at < 0 ? 0 : at];
      double values[MAX_PAIRS];
      decide(machine, own, X, first + row, values);
      if (threadIdx.x < 32 && at >= 0) {
        const Vote vote = elect(machine.n_classes, values, margins + machines.intercept_at[h]);
        const int code = machine.classes[vote.winner];
        if (sink.votes) {
          sink.votes[j * count + row] = (uint16)code;
          sink.certain[j * count + row] = vote.certain;
        } else {
          mistakes += !vote.certain || code != codes[first + row];
        }
      }
    }
    if (threadIdx.x == 0) queued = waiting;
  }
  if (sink.errors && threadIdx.x < 32) {
    for (int offset = 16; offset; offset >>= 1) mistakes += __shfl_xor_sync(0xffffffffu, mistakes, offset);
    if (threadIdx.x == 0 && mistakes) atomicAdd(sink.errors + j, sink.sign * mistakes);
  }
}
