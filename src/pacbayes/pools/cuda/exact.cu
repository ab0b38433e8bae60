// Decision values in double precision, with the operations of the compiled engine in their order: on a machine with
// fused multiply-adds both give the same bits. Compiled with --fmad=false, so that products are fused with additions
// exactly where the source says so (pack.h, tiles.cpp and smo.cpp in engine/).

typedef unsigned int uint32;
typedef unsigned short uint16;
typedef long long int64;

#define MAX_CLASSES 16
#define MAX_PAIRS (MAX_CLASSES * (MAX_CLASSES - 1) / 2)
#define GROUP 8  // support vectors that are compared with a row together
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

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

__device__ int count_support(const Machines& machines, int h) {
  const int* counts = machines.counts + machines.class_at[h];
  int n = 0;
  for (int c = 0; c < machines.n_classes[h]; ++c) n += counts[c];
  return n;
}

// exp(x) for x <= 0: pack.h, operation by operation.
__device__ __forceinline__ double exponential(double x) {
  const double rounder = 6755399441055744.0;
  const bool underflows = -708.0 > x;
  x = underflows ? -708.0 : x;
  const double shifted = fma(x, 1.4426950408889634, rounder);
  const double k = shifted - rounder;
  double f = fma(k, -0x1.62e42fefa0000p-1, x);
  f = fma(k, -0x1.cf79abc9e3b3ap-40, f);
  double p = 0x1.af632a0f7e2cep-26;
  p = fma(p, f, 0x1.28b4101c77212p-22);
  p = fma(p, f, 0x1.71ddf56d8deb5p-19);
  p = fma(p, f, 0x1.a01991a10d9aep-16);
  p = fma(p, f, 0x1.a01a01b1461c5p-13);
  p = fma(p, f, 0x1.6c16c1880029fp-10);
  p = fma(p, f, 0x1.111111110f21ep-7);
  p = fma(p, f, 0x1.555555554f0bap-5);
  p = fma(p, f, 0x1.555555555555ap-3);
  p = fma(p, f, 0x1.0000000000011p-1);
  p = fma(p, f, 1.0);
  p = fma(p, f, 1.0);
  const int64 bits = __double_as_longlong(p) + (__double_as_longlong(shifted) << 52);
  return underflows ? 0.0 : __longlong_as_double(bits);
}

// A squared distance that overflows, or is infinity minus infinity, counts as the largest number.
__device__ __forceinline__ double limit(double squared) {
  const double largest = 0x1.fffffffffffffp+1023;
  return largest > squared ? squared : largest;
}

// margins.h.
__device__ double decision_margin(double gamma, int d, int n_support, double intercept, double coefficient_sum) {
  const double units = (double)(n_support + d + 32) * (fabs(intercept) + coefficient_sum);
  return 0x1p-52 * units + coefficient_sum * (0x1p-1000 + gamma * ((double)d * 0x1p-1072));
}

__device__ double pair_margin(const Machines& machines, int h, int d, int a, int b, int pair) {
  const int* counts = machines.counts + machines.class_at[h];
  const double* coefficients = machines.coefficients + machines.coefficient_at[h];
  const int n = count_support(machines, h);
  int start_a = 0, start_b = 0;
  for (int c = 0; c < b; ++c) {
    if (c < a) start_a += counts[c];
    start_b += counts[c];
  }
  double sum = 0.0;
  for (int p = start_a; p < start_a + counts[a]; ++p) sum += fabs(coefficients[(int64)(b - 1) * n + p]);
  for (int p = start_b; p < start_b + counts[b]; ++p) sum += fabs(coefficients[(int64)a * n + p]);
  return decision_margin(machines.gamma[h], d, counts[a] + counts[b], machines.intercepts[machines.intercept_at[h] + pair],
                         sum);
}

// ------------------------------------------------------------------------------------------------------
// Support vectors of chosen machines, scaled, in groups: packed[(group * d + k) * GROUP + point of the group]
// ------------------------------------------------------------------------------------------------------

// And the margins of their pairs of classes, where the intercepts of these are.
extern "C" __global__ void pack_support(Machines machines, Rows points, const int* chosen, const int64* group_at,
                                        double* packed, double* margins) {
  const int j = blockIdx.x, h = chosen[j], d = points.d, n = count_support(machines, h);
  const int* support = machines.support + machines.support_at[h];
  const double* scale = machines.scale ? machines.scale + (int64)h * d : 0;
  double* to = packed + group_at[j] * d * GROUP;
  const int groups = (n + GROUP - 1) / GROUP;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < groups * GROUP * d; i += gridDim.y * blockDim.x) {
    const int k = i % d, p = i / d;  // neighbouring threads read neighbouring features
    double value = 0.0;
    if (p < n) {
      value = feature(points, support[p], k);
      if (scale) value = value * scale[k];
    }
    to[((int64)(p / GROUP) * d + k) * GROUP + p % GROUP] = value;
  }
  if (blockIdx.y) return;
  int pair = 0;
  for (int a = 0; a < machines.n_classes[h]; ++a)
    for (int b = a + 1; b < machines.n_classes[h]; ++b, ++pair)
      if (pair % blockDim.x == threadIdx.x)
        margins[machines.intercept_at[h] + pair] = pair_margin(machines, h, d, a, b, pair);
}

struct Vote {
  int code;
  bool certain;
};

// The vote that decision values give, in the order of operations of vote.cpp.
__device__ Vote elect(const Machines& machines, int h, const double* values, const double* margins) {
  const int k_classes = machines.n_classes[h];
  const int* classes = machines.classes + machines.class_at[h];
  if (k_classes == 1) return {classes[0], true};
  if (k_classes == 2) return {classes[values[0] > 0 ? 0 : 1], fabs(values[0]) > margins[0]};
  int wins[MAX_CLASSES], sure[MAX_CLASSES], open[MAX_CLASSES], pair = 0;
  for (int c = 0; c < k_classes; ++c) wins[c] = sure[c] = open[c] = 0;
  for (int a = 0; a < k_classes; ++a)
    for (int b = a + 1; b < k_classes; ++b, ++pair) {
      const int winner = values[pair] > 0 ? a : b;
      ++wins[winner];
      if (fabs(values[pair]) > margins[pair])
        ++sure[winner];
      else
        ++open[a], ++open[b];
    }
  int winner = 0;
  for (int c = 1; c < k_classes; ++c)
    if (wins[c] > wins[winner]) winner = c;
  bool certain = true;
  const int least = sure[winner];
  for (int c = 0; c < k_classes; ++c) {
    const int most = sure[c] + open[c];
    if (c != winner && (c < winner ? most >= least : most > least)) certain = false;
  }
  return {classes[winner], certain};
}

#define WARPS (THREADS / 32)
#define STAGED 64             // features of rows that are kept in shared memory; wider rows are read again
#define CHUNK (WARPS * GROUP)  // support vectors that a block compares with 32 rows at a time

__device__ __forceinline__ void add_squares(double x, const double2 (&s)[GROUP / 2], double (&squared)[GROUP]) {
#pragma unroll
  for (int j = 0; j < GROUP / 2; ++j) {
    const double e0 = s[j].x - x, e1 = s[j].y - x;
    squared[2 * j] = fma(e0, e0, squared[2 * j]);
    squared[2 * j + 1] = fma(e1, e1, squared[2 * j + 1]);
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
__device__ void accumulate(const Machines& machines, int h, int n, int first, int last, const double* kernel,
                           const double* weights, double* values) {
  const int k_classes = machines.n_classes[h];
  if (k_classes == 2) {
    double value = values[0];
#pragma unroll 4
    for (int p = 0; p < last - first; ++p) value = fma(weights[p], kernel[p * 32], value);
    values[0] = value;
    return;
  }
  const double* coefficients = machines.coefficients + machines.coefficient_at[h];
  const int* counts = machines.counts + machines.class_at[h];
  int own = 0, end = counts[0];  // class of the support vector, and where those of the class end
  for (int p = first; p < last; ++p) {
    while (p >= end) end += counts[++own];
    const double k = kernel[(p - first) * 32];
    int pair = 0;
    for (int a = 0; a < k_classes; ++a)
      for (int b = a + 1; b < k_classes; ++b, ++pair) {
        if (own == a) values[pair] = fma(coefficients[(int64)(b - 1) * n + p], k, values[pair]);
        if (own == b) values[pair] = fma(coefficients[(int64)a * n + p], k, values[pair]);
      }
  }
}

// Decision values of a machine at 32 rows, one for each lane: every warp compares the rows with a group of support
// vectors, and the first one adds up, so that few rows do not wait for one thread each. Lanes of the first warp get them.
__device__ void decide(const Machines& machines, int h, const double* packed, Rows X, int64 row, double* values) {
  __shared__ double staged[STAGED * 32];
  __shared__ double kernels[2][CHUNK * 32], weights[2][CHUNK];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = X.d;
  const int k_classes = machines.n_classes[h], n = k_classes > 1 ? count_support(machines, h) : 0;
  const double* scale = machines.scale ? machines.scale + (int64)h * d : 0;
  const bool stages = d <= STAGED;
  if (stages)
    for (int k = warp; k < d; k += WARPS) {
      const double x = feature(X, row, k);
      staged[k * 32 + lane] = scale ? x * scale[k] : x;
    }
  if (warp == 0)
    for (int pair = 0; pair < k_classes * (k_classes - 1) / 2; ++pair)
      values[pair] = machines.intercepts[machines.intercept_at[h] + pair];
  __syncthreads();
  const double* coefficients = machines.coefficients + machines.coefficient_at[h];
  const double rate = -machines.gamma[h];
  int turn = 0;
  for (int first = 0; first < n; first += CHUNK, turn ^= 1) {
    const int own = first + warp * GROUP;
    if (own < n) {
      if (lane < GROUP && own + lane < n) weights[turn][warp * GROUP + lane] = coefficients[own + lane];
      double squared[GROUP];
      compare(X, row, scale, stages ? staged + lane : 0, packed + (int64)own * d, squared);
#pragma unroll
      for (int j = 0; j < GROUP; ++j)
        kernels[turn][(warp * GROUP + j) * 32 + lane] = exponential(rate * limit(squared[j]));
    }
    __syncthreads();
    // The others go on to the other half meanwhile, and wait before they come back to this one.
    if (warp == 0)
      accumulate(machines, h, n, first, min(n, first + CHUNK), kernels[turn] + lane, weights[turn], values);
  }
  __syncthreads();
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

__device__ int record(const Sink& sink, const int* codes, Vote vote, int64 j, int64 at, int64 row, int64 count) {
  if (sink.votes) {
    sink.votes[j * count + at] = (uint16)vote.code;
    sink.certain[j * count + at] = vote.certain;
    return 0;
  }
  return !vote.certain || vote.code != codes[row];
}

// Evaluate chosen machines at rows from `first` on, `count` of them. Chosen machine j was trained on the rows from begins[j]
// to ends[j] of the list `training`. A block takes `per_turn` words of masks, rows or training rows at a time: at most WORDS
// or THREADS.
extern "C" __global__ void __launch_bounds__(THREADS)
    decide_rows(Machines machines, Rows X, const int* codes, const int* chosen, const int64* group_at,
                const double* packed, const double* margins, int64 first, int64 count, int mode, int per_turn,
                const uint32* masks, int64 words, const int64* begins, const int64* ends, const int* training, Sink sink) {
  const int j = blockIdx.y, h = chosen[j];
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
      decide(machines, h, own, X, first + row, values);
      if (threadIdx.x < 32 && at >= 0) {
        const Vote vote = elect(machines, h, values, margins + machines.intercept_at[h]);
        mistakes += record(sink, codes, vote, j, row, first + row, count);
      }
    }
    if (threadIdx.x == 0) queued = waiting;
  }
  if (sink.errors && threadIdx.x < 32) {
    for (int offset = 16; offset; offset >>= 1) mistakes += __shfl_xor_sync(0xffffffffu, mistakes, offset);
    if (threadIdx.x == 0 && mistakes) atomicAdd(sink.errors + j, sink.sign * mistakes);
  }
}
