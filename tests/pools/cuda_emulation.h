// Runs CUDA source on the CPU: the threads of a block are fibres, one block after another. What is emulated is what the
// package's source uses; products in TF32 are summed in single precision, truncated, in the worst order of the bound.

#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

using std::fabs;
using std::fma;
using std::fmax;
using std::fmin;
using std::isfinite;
using std::isnan;
using std::sqrt;

struct Index { unsigned x, y, z; };
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulation {

constexpr std::size_t kStack = 1 << 18;

struct Fibre {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done;
  int waits;  // number of barriers it has reached, of the block and of its warp
};

inline ucontext_t scheduler;
inline std::vector<Fibre> fibres;
inline unsigned current;
inline std::function<void()> body;
inline std::vector<int> exited;  // threads of each warp, and of the block, that have returned
inline int block_arrived, block_generation, block_or, block_or_result, block_left;
struct Warp { int arrived, generation, left; std::uint64_t slots[32]; float fragments[32][10]; };
inline std::vector<Warp> warps;

inline void yield() { swapcontext(&fibres[current].context, &scheduler); }

inline void release_block() {
  if (block_arrived && block_arrived == block_left) {
    block_arrived = 0;
    block_or_result = block_or;
    block_or = 0;
    ++block_generation;
  }
}

inline void release_warp(Warp& warp) {
  if (warp.arrived && warp.arrived == warp.left) {
    warp.arrived = 0;
    ++warp.generation;
  }
}

inline int wait_block(int predicate) {
  const int generation = block_generation;
  block_or |= predicate != 0;
  ++block_arrived;
  release_block();
  while (block_generation == generation) yield();
  return block_or_result;
}

inline Warp& own_warp() { return warps[current / 32]; }

inline void wait_warp() {
  Warp& warp = own_warp();
  const int generation = warp.generation;
  ++warp.arrived;
  release_warp(warp);
  while (warp.generation == generation) yield();
}

inline void run_fibre() {
  body();
  fibres[current].done = true;
  --block_left;
  --own_warp().left;
  release_block();
  release_warp(own_warp());
  swapcontext(&fibres[current].context, &scheduler);
}

inline Index thread_index, block_index, block_dimension, grid_dimension;

template <class Kernel>
void launch(Index grid, Index block, Kernel kernel) {
  body = kernel;
  grid_dimension = grid;
  block_dimension = block;
  if (fibres.size() < block.x) fibres.resize(block.x);
  for (auto& fibre : fibres)
    if (!fibre.stack) fibre.stack.reset(new char[kStack]);
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x) {
      block_index = {x, y, 0};
      warps.assign((block.x + 31) / 32, Warp{});
      block_arrived = block_or = 0;
      block_left = static_cast<int>(block.x);
      for (unsigned t = 0; t < block.x; ++t) {
        ++warps[t / 32].left;
        Fibre& fibre = fibres[t];
        fibre.done = false;
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.get();
        fibre.context.uc_stack.ss_size = kStack;
        fibre.context.uc_link = &scheduler;
        makecontext(&fibre.context, run_fibre, 0);
      }
      // Now and then one warp runs ahead of the others, by more than a reduction: a missing barrier is noticed.
      const unsigned n_warps = (block.x + 31) / 32;
      unsigned random = 1, ahead = 0;
      for (unsigned turn = 0; block_left; ++turn) {
        if (turn % 128 == 0) {
          random = random * 1664525u + 1013904223u;
          ahead = (random >> 16) % (2 * n_warps);  // one warp, or all of them
        }
        for (unsigned t = 0; t < block.x; ++t) {
          if (fibres[t].done || (ahead < n_warps && t / 32 != ahead)) continue;
          current = t;
          thread_index = {t, 0, 0};
          swapcontext(&scheduler, &fibres[t].context);
        }
      }
    }
}

template <class T>
T exchange(T value, int lane) {
  static_assert(sizeof(T) <= 8, "a register or two");
  Warp& warp = own_warp();
  std::memcpy(&warp.slots[current % 32], &value, sizeof value);
  wait_warp();
  T result;
  std::memcpy(&result, &warp.slots[lane], sizeof result);
  wait_warp();
  return result;
}

// The bits of a float that TF32 keeps.
inline float truncate_tf32(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits &= 0xffffe000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

inline float round_to_zero(double x) {
  float y = static_cast<float>(x);
  if (std::fabs(static_cast<double>(y)) > std::fabs(x)) y = std::nextafter(y, 0.0f);
  return y;
}

}  // namespace emulation

#define threadIdx (emulation::thread_index)
#define blockIdx (emulation::block_index)
#define blockDim (emulation::block_dimension)
#define gridDim (emulation::grid_dimension)
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

inline void __syncthreads() { emulation::wait_block(0); }
inline void __syncwarp() { emulation::wait_warp(); }
inline int __syncthreads_or(int predicate) { return emulation::wait_block(predicate); }

template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulation::exchange(value, (emulation::current % 32) ^ mask);
}

inline unsigned __ballot_sync(unsigned, int predicate) {
  emulation::Warp& warp = emulation::own_warp();
  warp.slots[emulation::current % 32] = predicate != 0;
  emulation::wait_warp();
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(warp.slots[lane]) << lane;
  emulation::wait_warp();
  return bits;
}

inline int __all_sync(unsigned, int predicate) { return __ballot_sync(0, predicate) == 0xffffffffu; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int atomicAdd(int* at, int value) { const int before = *at; *at += value; return before; }

inline float __double2float_ru(double x) {
  const float y = static_cast<float>(x);
  return static_cast<double>(y) < x ? std::nextafter(y, INFINITY) : y;
}

inline float to_tf32(float x) {  // to the nearest, ties away from zero
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits += 0x1000u;
  bits &= 0xffffe000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

// 2^x with the largest error that the instruction may have, and without subnormal numbers.
inline float exp2_fast(float x) {
  const double exact = std::exp2(static_cast<double>(x));
  const std::uint32_t noise = static_cast<std::uint32_t>(x * 12345.678f);
  const float y = static_cast<float>(exact * (1 + (noise % 2 ? 1 : -1) * 0x1.fp-23));
  return y < 0x1p-126f ? 0.0f : y;
}

// PTX ISA, mma.m16n8k8 with .tf32: groups of four lanes hold the rows of A and of the result, and the columns of B.
inline void multiply(float (&sum)[4], float4 a, float2 b) {
  emulation::Warp& warp = emulation::own_warp();
  const unsigned lane = emulation::current % 32, group = lane / 4, t = lane % 4;
  const float own[6] = {a.x, a.y, a.z, a.w, b.x, b.y};
  std::memcpy(warp.fragments[lane], own, sizeof own);
  emulation::wait_warp();
  for (int i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + i % 2, upper = i / 2;  // row group or group + 8
    double total = sum[i];
    for (unsigned k = 0; k < 8; ++k) {
      const float x = warp.fragments[group * 4 + k % 4][(k / 4) * 2 + upper];
      const float y = warp.fragments[column * 4 + k % 4][4 + k / 4];
      total = emulation::round_to_zero(
          total + static_cast<double>(emulation::truncate_tf32(x)) * emulation::truncate_tf32(y));
    }
    sum[i] = static_cast<float>(total);
  }
  emulation::wait_warp();
}
