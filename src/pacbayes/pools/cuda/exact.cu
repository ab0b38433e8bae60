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

// Up to RUN features of a row from k on; zeros after the last. Rows that are a multiple of RUN wide are aligned.
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
    for (int i = 0; i < RUN; ++i) x[i] = k + i < rows.d ? feature(rows, row, k + i) : 0.0;
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

extern "C" __global__ void pack_support(Machines machines, Rows points, const int* chosen, const int64* group_at,
                                        double* packed) {
  const int j = blockIdx.x, h = chosen[j], d = points.d, n = count_support(machines, h);
  const int* support = machines.support + machines.support_at[h];
  const double* scale = machines.scale ? machines.scale + (int64)h * d : 0;
  double* to = packed + group_at[j] * d * GROUP;
  const int groups = (n + GROUP - 1) / GROUP;
  for (int i = threadIdx.x; i < groups * GROUP * d; i += blockDim.x) {
    const int k = i % d, p = i / d;  // neighbouring threads read neighbouring features
    double value = 0.0;
    if (p < n) {
      value = feature(points, support[p], k);
      if (scale) value = value * scale[k];
    }
    to[((int64)(p / GROUP) * d + k) * GROUP + p % GROUP] = value;
  }
}

struct Vote {
  int code;
  bool certain;
};

// The vote of a machine at one row, in the order of operations of vote.cpp. `margins` are those of the pairs.
__device__ Vote decide(const Machines& machines, int h, const double* packed, Rows X, int64 row, const double* margins) {
  const int k_classes = machines.n_classes[h], d = X.d, n = count_support(machines, h);
  const int* classes = machines.classes + machines.class_at[h];
  if (k_classes == 1) return {classes[0], true};
  const int* counts = machines.counts + machines.class_at[h];
  const double* coefficients = machines.coefficients + machines.coefficient_at[h];
  const double* intercepts = machines.intercepts + machines.intercept_at[h];
  const double* scale = machines.scale ? machines.scale + (int64)h * d : 0;
  const double rate = -machines.gamma[h];
  double value = intercepts[0];  // of the only pair
  double values[MAX_PAIRS];
  const int n_pairs = k_classes * (k_classes - 1) / 2;
  if (k_classes > 2)
    for (int pair = 0; pair < n_pairs; ++pair) values[pair] = intercepts[pair];
  int own = 0, left = counts[0];  // class of the support vector, and how many of the class are left
  for (int first = 0; first < n; first += GROUP) {
    double squared[GROUP];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) squared[j] = 0.0;
    const double* at = packed + (int64)first * d;
    for (int k = 0; k < d; k += RUN) {
      double x[RUN];
      features(X, row, k, x);
#pragma unroll
      for (int i = 0; i < RUN; ++i, at += GROUP) {
        if (k + i >= d) break;
        if (scale) x[i] = x[i] * scale[k + i];
#pragma unroll
        for (int j = 0; j < GROUP; j += 2) {
          const double2 s = *(const double2*)(at + j);
          const double e0 = s.x - x[i], e1 = s.y - x[i];
          squared[j] = fma(e0, e0, squared[j]);
          squared[j + 1] = fma(e1, e1, squared[j + 1]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
      const int p = first + j;
      if (p >= n) break;
      const double kernel = exponential(rate * limit(squared[j]));
      if (k_classes == 2) {
        value = fma(coefficients[p], kernel, value);
      } else {
        while (left == 0) left = counts[++own];
        --left;
        int pair = 0;
        for (int a = 0; a < k_classes; ++a)
          for (int b = a + 1; b < k_classes; ++b, ++pair) {
            if (own == a) values[pair] = fma(coefficients[(int64)(b - 1) * n + p], kernel, values[pair]);
            if (own == b) values[pair] = fma(coefficients[(int64)a * n + p], kernel, values[pair]);
          }
      }
    }
  }
  if (k_classes == 2) return {classes[value > 0 ? 0 : 1], fabs(value) > margins[0]};
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

// Rows that a block evaluates one machine at: those whose bits are set in the masks of the filter (64 rows are two
// words; filter.cu), all rows, or the training rows of the machine.
enum { MASKED = 0, ALL = 1, TRAINING = 2 };
#define WORDS 128

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
// to ends[j] of the list `training`.
extern "C" __global__ void decide_rows(Machines machines, Rows X, const int* codes, const int* chosen,
                                       const int64* group_at, const double* packed, int64 first, int64 count, int mode,
                                       const uint32* masks, int64 words, const int64* begins, const int64* ends,
                                       const int* training, Sink sink) {
  const int j = blockIdx.y, h = chosen[j], d = X.d;
  __shared__ double margins[MAX_PAIRS];
  __shared__ int queue[WORDS * 32 + THREADS];
  __shared__ int queued, total;
  const int k_classes = machines.n_classes[h];
  bool any = true;
  if (mode == MASKED) {
    int found = 0;
    for (int64 w = (int64)blockIdx.x * WORDS + threadIdx.x; w < words; w += (int64)gridDim.x * WORDS)
      found |= masks[(int64)j * words + w] != 0;
    any = __syncthreads_or(found);
  }
  if (!any) return;
  if (threadIdx.x == 0) {
    total = 0;
    int pair = 0;
    for (int a = 0; a < k_classes; ++a)
      for (int b = a + 1; b < k_classes; ++b, ++pair) margins[pair] = pair_margin(machines, h, d, a, b, pair);
  }
  __syncthreads();
  const double* own = packed + group_at[j] * d * GROUP;
  int mistakes = 0;
  if (mode == MASKED) {
    const int64 step = (int64)gridDim.x * WORDS;
    if (threadIdx.x == 0) queued = 0;
    for (int64 begin = (int64)blockIdx.x * WORDS; begin < words; begin += step) {
      __syncthreads();
      const int64 w = begin + threadIdx.x;
      uint32 bits = threadIdx.x < WORDS && w < words ? masks[(int64)j * words + w] : 0;
      int at = bits ? atomicAdd(&queued, __popc(bits)) : 0;
      for (; bits; bits &= bits - 1) {
        const int bit = __ffs(bits) - 1;
        queue[at++] = (int)(64 * (w >> 1) + 16 * (bit & 3) + (bit >> 2) + 8 * (w & 1));
      }
      __syncthreads();
      // Few rows are marked: they wait until there is one for every thread, or none to come.
      const int waiting = queued, kept = begin + step < words ? waiting % blockDim.x : 0;
      for (int i = kept + threadIdx.x; i < waiting; i += blockDim.x) {
        const int64 row = first + queue[i];
        mistakes += record(sink, codes, decide(machines, h, own, X, row, margins), j, queue[i], row, count);
      }
      __syncthreads();
      if (threadIdx.x == 0) queued = kept;
    }
  } else if (mode == ALL) {
    for (int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (int64)gridDim.x * blockDim.x)
      mistakes += record(sink, codes, decide(machines, h, own, X, first + at, margins), j, at, first + at, count);
  } else {
    for (int64 i = begins[j] + (int64)blockIdx.x * blockDim.x + threadIdx.x; i < ends[j];
         i += (int64)gridDim.x * blockDim.x) {
      const int64 row = training[i];
      if (row >= first && row < first + count)
        mistakes += record(sink, codes, decide(machines, h, own, X, row, margins), j, row - first, row, count);
    }
  }
  if (sink.errors) {
    if (mistakes) atomicAdd(&total, mistakes);
    __syncthreads();
    if (threadIdx.x == 0 && total) atomicAdd(sink.errors + j, sink.sign * total);
  }
}
