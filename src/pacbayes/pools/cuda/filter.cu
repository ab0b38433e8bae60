// A fast filter in front of exact.cu: decision values from products in TF32, with a bound on their error. Where the
// bound proves that the value in double precision is beyond its margin (votes.h), its sign is known; all other rows
// are marked, to be computed again in double precision. So the filter changes the time, never a vote or a count.
//
// With x and s relative to a common centre, weights w and g = gamma log2(e), the exponent of a kernel value is
//
//     t = -g |w (x - s)|^2 = x . (2 g w^2 s) - g |w x|^2 - g |w s|^2,
//
// the product by tensor cores, all else in single precision. Let X = |w x|, S = max |w s| over the support vectors, v the
// rounding of scaled features in double precision, K the number of steps over 8 features each. Errors of t are at most
//
//     2 g X S (2^-10 + 2^-19)                 both factors rounded to 11 bits, by Cauchy-Schwarz
//     g (X + S)^2 K 2^-19                     sums of 8 products and the sum so far. They are not IEEE; 2^-19 of the
//                                             absolute values per step allows for truncation of each to 23 bits
//     g (X + S)^2 (d + 16) 2^-23              norms, and the rest of what is in single precision
//     g X^2 (2^-10 + 2^-19)                   only if w differs between machines: |w x|^2 is then taken from x in TF32
//     g (2 (X + S) v + v^2)                   features that exact.cu rounds when it scales and subtracts them
//
// in sum e. For e <= 1/2 the kernel value is off by a factor of at most 2^e <= 1 + e, and by 2^-22 for the exponential.

#include "exact.cu"
#ifdef __CUDACC__
#include "instructions.cu"
#endif

#define ROWS 64  // per warp: four tiles of 16
#define TILES 4
#define STEPS ((FEATURES + 7) / 8)
#define RESIDENT (STEPS <= 6)  // whether the rows of a warp stay in registers

constexpr int kUnroll = RESIDENT ? STEPS : 1;

// One machine with two classes, or one.
struct Filtered {
  float intercept;
  float rate;       // g, rounded up
  float radius;     // S
  float rounding;   // v
  float sum_error;  // relative to the sum of absolute values
  float constant;   // errors that do not depend on the row, and the margins
  int positive, negative;  // codes
  int64 tiles_at;  // of 8 support vectors each
  int tiles;
  int usable;  // 0: mark all rows
};

__device__ __forceinline__ float round_up(double x) { return __double2float_ru(x); }

// Rows in the order in which tensor cores read them: for each 16 rows and 8 features, 4 numbers per lane.
extern "C" __global__ void pack_rows(Rows X, int64 first, int64 count, const double* centre, float4* packed,
                                     float* norms) {
  const int lane = threadIdx.x % 32;
  const int64 tile = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (tile * 16 >= (count + ROWS - 1) / ROWS * ROWS) return;
  const int64 low = tile * 16 + lane / 4, high = low + 8;
  double squares[2] = {0.0, 0.0};
  for (int step = 0; step < STEPS; ++step) {
    float part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64 row = i % 2 ? high : low;
      const int k = 8 * step + lane % 4 + (i / 2) * 4;
      const double x = row < count && k < FEATURES ? feature(X, first + row, k) - centre[k] : 0.0;
      squares[i % 2] += x * x;
      part[i] = to_tf32((float)x);
    }
    packed[(tile * STEPS + step) * 32 + lane] = make_float4(part[0], part[1], part[2], part[3]);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], 1);
    squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], 2);
  }
  if (lane % 4 == 0) {
    norms[low] = (float)squares[0];
    norms[high] = (float)squares[1];
  }
}

// The support vectors of chosen machines, whose margins are known. `largest` bounds the absolute features of rows and
// points.
extern "C" __global__ void pack_machines(Machines machines, Rows points, const int* chosen, const int64* tiles_at,
                                         const double* margins, const double* centre, const double* largest,
                                         Filtered* filtered, float2* vectors, float2* columns, float* weights) {
  const int j = blockIdx.x, h = chosen[j], lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = FEATURES;
  __shared__ double radii[THREADS / 32], sums[THREADS / 32];
  const Machine machine = machine_of(machines, h, d);
  const int n_classes = machine.n_classes, n = machine.n_support;
  const double* scale = machine.scale;
  const double g = machine.gamma * 1.4426950408889634;
  const int tiles = (n + 7) / 8;
  double radius = 0.0, sum = 0.0;
  int usable = n_classes <= 2;
  for (int tile = warp; tile < tiles; tile += THREADS / 32) {
    const int p = tile * 8 + lane / 4;
    double squares = 0.0;
    for (int step = 0; step < STEPS; ++step) {
      float part[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int k = 8 * step + lane % 4 + 4 * i;
        double product = 0.0;
        if (p < n && k < d) {
          const double s = feature(points, machine.support[p], k) - centre[k], w = scale ? scale[k] : 1.0;
          squares += (w * s) * (w * s);
          product = 2 * g * w * (w * s);
        }
        if (!(fabs(product) < 1e30)) usable = 0;
        part[i] = to_tf32((float)product);
      }
      vectors[((tiles_at[j] + tile) * STEPS + step) * 32 + lane] = make_float2(part[0], part[1]);
    }
    squares += __shfl_xor_sync(0xffffffffu, squares, 1);
    squares += __shfl_xor_sync(0xffffffffu, squares, 2);
    radius = fmax(radius, squares);
    if (!(g * squares < 1e30)) usable = 0;
    if (lane % 4 == 0) {
      const double coefficient = p < n ? machine.coefficients[p] : 0.0;
      sum += fabs(coefficient);
      columns[(tiles_at[j] + tile) * 8 + lane / 4] =
          p < n ? make_float2((float)coefficient, (float)(-g * squares)) : make_float2(0.0f, -1000.0f);
    }
  }
  for (int offset = 16; offset; offset >>= 1) {
    radius = fmax(radius, __shfl_xor_sync(0xffffffffu, radius, offset));
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (lane == 0) {
    radii[warp] = radius;
    sums[warp] = sum;
  }
  usable = !__syncthreads_or(!usable);
  if (warp) return;
  sum = 0.0;
  for (int w = 0; w < THREADS / 32; ++w) {
    radius = fmax(radius, radii[w]);
    sum += sums[w];
  }
  double rounding = 0.0;
  for (int k = lane; k < 8 * STEPS; k += 32) {
    const double w = k < d ? (scale ? scale[k] : 1.0) : 0.0;
    if (weights) weights[(int64)j * 8 * STEPS + k] = (float)(w * w);
    if (k < d) rounding += (w * largest[k]) * (w * largest[k]);
    if (k < d && !(largest[k] < 1e30)) usable = 0;  // products with tiny factors would underflow
  }
  for (int offset = 16; offset; offset >>= 1) rounding += __shfl_xor_sync(0xffffffffu, rounding, offset);
  usable = __all_sync(0xffffffffu, usable);
  if (lane) return;
  Filtered to;
  to.tiles_at = tiles_at[j];
  to.tiles = tiles;
  to.rate = round_up(g);
  to.radius = round_up(sqrt(radius) * (1 + 0x1p-20));
  to.rounding = round_up(8 * 0x1p-53 * sqrt(rounding));
  to.sum_error = round_up((n + 16) * 0x1p-23 + 0x1p-20);
  if (n_classes == 2) {
    const double b = machine.intercepts[0];
    to.intercept = (float)b;
    // Twice the margin: it is at least twice the error in double precision.
    to.constant = round_up(2 * margins[machines.intercept_at[h]] + fabs(b) * 0x1p-22 + sum * 0x1p-120 + 1e-35);
  } else {  // A constant; usable is 0 for more classes.
    to.intercept = 1.0f;
    to.constant = 0.0f;
  }
  to.positive = machine.classes[0];
  to.negative = machine.classes[n_classes == 2 ? 1 : 0];
  to.usable = usable;
  filtered[j] = to;
}

// Add up 8 numbers of each of the 4 lanes of a quad; lane t keeps the sums 2 t and 2 t + 1.
__device__ __forceinline__ void reduce_quad(const float (&numbers)[8], int t, float (&sums)[2]) {
  float half[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float keep = t & 2 ? numbers[i + 4] : numbers[i], send = t & 2 ? numbers[i] : numbers[i + 4];
    half[i] = keep + __shfl_xor_sync(0xffffffffu, send, 2);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float keep = t & 1 ? half[i + 2] : half[i], send = t & 1 ? half[i] : half[i + 2];
    sums[i] = keep + __shfl_xor_sync(0xffffffffu, send, 1);
  }
}

// Each warp takes 64 rows, and one machine after another. Mistakes at rows whose vote is known are counted, or their
// votes written; the others are marked in two words per machine: bit l of word i is row 16 (l % 4) + l / 4 + 8 i.
extern "C" __global__ void __launch_bounds__(THREADS)
    filter_rows(const float4* packed, const float* norms, const int* codes, int64 count, const Filtered* filtered,
                int machines, int per_block, const float2* vectors, const float2* columns, const float* weights,
                uint32* masks, int64 words, int* errors, uint16* votes, unsigned char* certain_out) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const int64 warp = (int64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, base = warp * ROWS;
  if (base >= count) return;
  const float4* rows = packed + warp * TILES * STEPS * 32 + lane;
#if RESIDENT
  float4 a[TILES][STEPS];
#pragma unroll
  for (int m = 0; m < TILES; ++m)
#pragma unroll
    for (int step = 0; step < STEPS; ++step) a[m][step] = rows[(m * STEPS + step) * 32];
#define A(m, step) a[m][step]
#else
#define A(m, step) rows[((m) * STEPS + (step)) * 32]
#endif
  float squares[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) squares[i] = norms[base + 16 * (i / 2) + 8 * (i % 2) + lane / 4];
  const int64 low = base + 16 * t + lane / 4, high = low + 8;
  const int label_low = low < count && codes ? codes[low] : -1, label_high = high < count && codes ? codes[high] : -1;
  const int end = min(machines, ((int)blockIdx.y + 1) * per_block);
  for (int j = blockIdx.y * per_block; j < end; ++j) {
    const Filtered machine = filtered[j];
    if (!machine.usable) {
      const uint32 all_low = __ballot_sync(0xffffffffu, low < count), all_high = __ballot_sync(0xffffffffu, high < count);
      if (lane == 0) {
        masks[j * words + 2 * warp] = all_low;
        masks[j * words + 2 * warp + 1] = all_high;
      }
      continue;
    }
    float offsets[8], mine[2];  // -g |w x|^2 of the rows of this lane, and |w x|^2 of the two that it decides
    if (weights) {
      float own[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) own[i] = 0.0f;
      const float* w = weights + (int64)j * 8 * STEPS;
#pragma unroll kUnroll
      for (int step = 0; step < STEPS; ++step) {
        const float w0 = w[8 * step + t], w1 = w[8 * step + t + 4];
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
          const float4 x = A(m, step);
          own[2 * m] = fmaf(w0 * x.x, x.x, fmaf(w1 * x.z, x.z, own[2 * m]));
          own[2 * m + 1] = fmaf(w0 * x.y, x.y, fmaf(w1 * x.w, x.w, own[2 * m + 1]));
        }
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        own[i] += __shfl_xor_sync(0xffffffffu, own[i], 1);
        own[i] += __shfl_xor_sync(0xffffffffu, own[i], 2);
        offsets[i] = -machine.rate * own[i];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
        mine[i] = t == 0 ? own[i] : t == 1 ? own[2 + i] : t == 2 ? own[4 + i] : own[6 + i];
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) offsets[i] = -machine.rate * squares[i];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        mine[i] = t == 0 ? squares[i] : t == 1 ? squares[2 + i] : t == 2 ? squares[4 + i] : squares[6 + i];
    }
    float sums[8], absolutes[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = absolutes[i] = 0.0f;
    const float2* b = vectors + machine.tiles_at * STEPS * 32 + lane;
    const float4* column = (const float4*)(columns + machine.tiles_at * 8) + t;
    for (int tile = 0; tile < machine.tiles; ++tile, b += STEPS * 32, column += 4) {
      const float4 two = *column;  // coefficient and norm of two support vectors
      float values[TILES][4];
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
        values[m][0] = two.y + offsets[2 * m];
        values[m][1] = two.w + offsets[2 * m];
        values[m][2] = two.y + offsets[2 * m + 1];
        values[m][3] = two.w + offsets[2 * m + 1];
      }
#pragma unroll kUnroll
      for (int step = 0; step < STEPS; ++step) {
        const float2 s = b[step * 32];
#pragma unroll
        for (int m = 0; m < TILES; ++m) multiply(values[m], A(m, step), s);
      }
#pragma unroll
      for (int m = 0; m < TILES; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float k0 = exp2_fast(values[m][2 * i]), k1 = exp2_fast(values[m][2 * i + 1]);
          sums[2 * m + i] = fmaf(two.x, k0, fmaf(two.z, k1, sums[2 * m + i]));
          absolutes[2 * m + i] = fmaf(fabsf(two.x), k0, fmaf(fabsf(two.z), k1, absolutes[2 * m + i]));
        }
    }
    float sum[2], absolute[2];
    reduce_quad(sums, t, sum);
    reduce_quad(absolutes, t, absolute);
    bool sure[2], wins[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float x = sqrtf(mine[i]) * (weights ? 1.002f : 1.00001f), s = machine.radius, reach = x + s;
      float error = 2.0f * x * s * (0x1p-10f + 0x1p-19f);
      error = fmaf(reach * reach, STEPS * 0x1p-19f + (FEATURES + 16) * 0x1p-23f, error);
      if (weights) error = fmaf(x * x, 0x1p-10f + 0x1p-19f, error);
      error = fmaf(machine.rounding, 2.0f * reach + machine.rounding, error) * machine.rate * 1.02f;
      const float value = machine.intercept + sum[i];
      // Comparisons with NaN are false.
      sure[i] = error <= 0.5f && fabsf(value) > fmaf(absolute[i] * 1.02f, error + machine.sum_error, machine.constant);
      wins[i] = value > 0.0f;
    }
    const int code_low = wins[0] ? machine.positive : machine.negative;
    const int code_high = wins[1] ? machine.positive : machine.negative;
    const uint32 open_low = __ballot_sync(0xffffffffu, low < count && !sure[0]);
    const uint32 open_high = __ballot_sync(0xffffffffu, high < count && !sure[1]);
    if (votes) {
      if (low < count) votes[j * count + low] = (uint16)code_low, certain_out[j * count + low] = 1;
      if (high < count) votes[j * count + high] = (uint16)code_high, certain_out[j * count + high] = 1;
    } else {
      const uint32 wrong_low = __ballot_sync(0xffffffffu, low < count && sure[0] && code_low != label_low);
      const uint32 wrong_high = __ballot_sync(0xffffffffu, high < count && sure[1] && code_high != label_high);
      const int wrong = __popc(wrong_low) + __popc(wrong_high);
      if (lane == 0 && wrong) atomicAdd(errors + j, wrong);
    }
    if (lane == 0) {
      masks[j * words + 2 * warp] = open_low;
      masks[j * words + 2 * warp + 1] = open_high;
    }
  }
}
