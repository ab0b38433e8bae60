// Packs of one number each, for the headers in arithmetic/: the lanes of a device are its threads. Compiled with
// --fmad=false, so that products are fused with additions exactly where the source says so.

typedef unsigned int uint32;
typedef unsigned short uint16;
typedef long long int64;
typedef unsigned long long uint64;

typedef double Pack;
typedef float Singles;
typedef bool Mask;
typedef bool SinglesMask;
typedef uint64 Bits;
typedef uint32 SinglesBits;

__device__ __forceinline__ Pack broadcast(double value) { return value; }
__device__ __forceinline__ Singles broadcast_single(float value) { return value; }

template <class Number>
__device__ __forceinline__ Number select(bool condition, Number a, Number b) {
  return condition ? a : b;
}

template <class Number>
__device__ __forceinline__ Number maximum(Number a, Number b) {
  return a > b ? a : b;
}

template <class Number>
__device__ __forceinline__ Number multiply_add(Number a, Number b, Number c) {
  return fma(a, b, c);
}

template <class To, class From>
__device__ __forceinline__ To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
