// SIMD vectors of doubles ("packs") or floats ("singles"), and their exponentials.
//
// Include this only in files that are compiled once per instruction set (see CMakeLists.txt). Everything here has
// internal linkage, and no template of the standard library is instantiated: the linker keeps one copy of an inline
// function, and a copy that was compiled for AVX-512 would crash on a machine without it.
//
// Results are defined by the source, not by the compiler: these files are compiled with -ffp-contract=off, and products
// are fused with additions exactly where `multiply_add` says so.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif

#if defined(__GNUC__) && !defined(PACBAYES_NO_VECTOR_EXTENSIONS)

typedef double Pack __attribute__((vector_size(kLanes * sizeof(double))));
typedef std::int64_t Mask __attribute__((vector_size(kLanes * sizeof(double))));
// Unsigned: the exponential shifts and adds bit patterns, which may wrap around.
typedef std::uint64_t Bits __attribute__((vector_size(kLanes * sizeof(double))));
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

// Twice as many numbers in single precision.
typedef float Singles __attribute__((vector_size(kLanes * sizeof(double))));
typedef std::int32_t SinglesMask __attribute__((vector_size(kLanes * sizeof(double))));
typedef std::uint32_t SinglesBits __attribute__((vector_size(kLanes * sizeof(double))));

inline Pack broadcast(double value) { return value - Pack{}; }
inline Pack select(Mask mask, Pack a, Pack b) { return mask ? a : b; }
inline Singles broadcast_single(float value) { return value - Singles{}; }
inline Singles select(SinglesMask mask, Singles a, Singles b) { return mask ? a : b; }
#if defined(__AVX512F__)
inline Pack to_double(Floats floats) { return _mm512_cvtps_pd(floats); }
inline Singles to_singles(Pack low, Pack high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
#else
inline Pack to_double(Floats floats) { return __builtin_convertvector(floats, Pack); }
inline Singles to_singles(Pack low, Pack high) {
  const Floats parts[2] = {__builtin_convertvector(low, Floats), __builtin_convertvector(high, Floats)};
  Singles singles;
  std::memcpy(&singles, parts, sizeof singles);
  return singles;
}
#endif

#else  // The same operations, lane by lane: MSVC has no vector types.

struct Bits { std::uint64_t lane[kLanes]; };
struct Mask { bool lane[kLanes]; };
struct Floats { float lane[kLanes]; };
struct Singles {
  float lane[2 * kLanes];
  float& operator[](int i) { return lane[i]; }
};
struct SinglesMask { bool lane[2 * kLanes]; };
struct SinglesBits { std::uint32_t lane[2 * kLanes]; };
struct Pack {
  double lane[kLanes];
  double& operator[](int i) { return lane[i]; }
  double operator[](int i) const { return lane[i]; }
};

#define PACBAYES_LANEWISE(Result, name, A, B, expression) \
  inline Result name(A a, B b) {                          \
    Result result;                                        \
    for (int i = 0; i < static_cast<int>(sizeof result.lane / sizeof *result.lane); ++i) \
      result.lane[i] = (expression);                      \
    return result;                                        \
  }
PACBAYES_LANEWISE(Pack, operator+, Pack, Pack, a.lane[i] + b.lane[i])
PACBAYES_LANEWISE(Pack, operator-, Pack, Pack, a.lane[i] - b.lane[i])
PACBAYES_LANEWISE(Pack, operator*, Pack, Pack, a.lane[i] * b.lane[i])
PACBAYES_LANEWISE(Pack, operator/, Pack, Pack, a.lane[i] / b.lane[i])
PACBAYES_LANEWISE(Mask, operator==, Pack, Pack, a.lane[i] == b.lane[i])
PACBAYES_LANEWISE(Mask, operator>, Pack, Pack, a.lane[i] > b.lane[i])
PACBAYES_LANEWISE(Bits, operator+, Bits, Bits, a.lane[i] + b.lane[i])
PACBAYES_LANEWISE(Bits, operator<<, Bits, int, a.lane[i] << b)
PACBAYES_LANEWISE(Singles, operator+, Singles, Singles, a.lane[i] + b.lane[i])
PACBAYES_LANEWISE(Singles, operator-, Singles, Singles, a.lane[i] - b.lane[i])
PACBAYES_LANEWISE(Singles, operator*, Singles, Singles, a.lane[i] * b.lane[i])
PACBAYES_LANEWISE(Singles, operator/, Singles, Singles, a.lane[i] / b.lane[i])
PACBAYES_LANEWISE(SinglesMask, operator==, Singles, Singles, a.lane[i] == b.lane[i])
PACBAYES_LANEWISE(SinglesMask, operator>, Singles, Singles, a.lane[i] > b.lane[i])
PACBAYES_LANEWISE(SinglesBits, operator+, SinglesBits, SinglesBits, a.lane[i] + b.lane[i])
PACBAYES_LANEWISE(SinglesBits, operator<<, SinglesBits, int, a.lane[i] << b)
#undef PACBAYES_LANEWISE

inline Pack& operator+=(Pack& a, Pack b) { return a = a + b; }

inline Pack broadcast(double value) {
  Pack pack;
  for (int i = 0; i < kLanes; ++i) pack.lane[i] = value;
  return pack;
}

inline Pack select(Mask mask, Pack a, Pack b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] = mask.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}

inline Singles broadcast_single(float value) {
  Singles singles;
  for (int i = 0; i < 2 * kLanes; ++i) singles.lane[i] = value;
  return singles;
}

inline Singles select(SinglesMask mask, Singles a, Singles b) {
  for (int i = 0; i < 2 * kLanes; ++i) a.lane[i] = mask.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}

inline Pack to_double(Floats floats) {
  Pack result;
  for (int i = 0; i < kLanes; ++i) result.lane[i] = floats.lane[i];
  return result;
}

inline Singles to_singles(Pack low, Pack high) {
  Singles singles;
  for (int i = 0; i < kLanes; ++i) {
    singles.lane[i] = static_cast<float>(low.lane[i]);
    singles.lane[kLanes + i] = static_cast<float>(high.lane[i]);
  }
  return singles;
}

#endif

inline Pack load(const double* from) {
  Pack pack;
  std::memcpy(&pack, from, sizeof pack);
  return pack;
}

inline Pack load(const float* from) {
  Floats floats;
  std::memcpy(&floats, from, sizeof floats);
  return to_double(floats);
}

inline Singles load_singles(const float* from) {
  Singles singles;
  std::memcpy(&singles, from, sizeof singles);
  return singles;
}

inline void store(double* to, Pack pack) { std::memcpy(to, &pack, sizeof pack); }
inline void store(float* to, Singles singles) { std::memcpy(to, &singles, sizeof singles); }

// The same operations for code that is written once for both precisions.
inline Pack broadcast_number(double value) { return broadcast(value); }
inline Singles broadcast_number(float value) { return broadcast_single(value); }
inline Pack load_numbers(const double* from) { return load(from); }
inline Singles load_numbers(const float* from) { return load_singles(from); }

// a > b ? a : b and b < a ? b : a: like the instructions, also where one is NaN.
#if defined(__AVX512F__)
inline Pack maximum(Pack a, Pack b) { return _mm512_max_pd(a, b); }
inline Singles maximum(Singles a, Singles b) { return _mm512_max_ps(a, b); }
inline Pack minimum(Pack a, Pack b) { return _mm512_min_pd(b, a); }
inline Singles minimum(Singles a, Singles b) { return _mm512_min_ps(b, a); }
#elif defined(__AVX2__)
inline Pack maximum(Pack a, Pack b) { return _mm256_max_pd(a, b); }
inline Singles maximum(Singles a, Singles b) { return _mm256_max_ps(a, b); }
inline Pack minimum(Pack a, Pack b) { return _mm256_min_pd(b, a); }
inline Singles minimum(Singles a, Singles b) { return _mm256_min_ps(b, a); }
#else
inline Pack maximum(Pack a, Pack b) { return select(a > b, a, b); }
inline Singles maximum(Singles a, Singles b) { return select(a > b, a, b); }
inline Pack minimum(Pack a, Pack b) { return select(a > b, b, a); }
inline Singles minimum(Singles a, Singles b) { return select(a > b, b, a); }
#endif

// The smallest lane, by halving the number of candidates: few steps and no branches.
#if defined(__AVX2__)
inline double reduce_min(__m256d pack) {
  const __m128d two = _mm_min_pd(_mm256_castpd256_pd128(pack), _mm256_extractf128_pd(pack, 1));
  return _mm_cvtsd_f64(_mm_min_pd(two, _mm_unpackhi_pd(two, two)));
}
inline float reduce_min(__m256 singles) {
  const __m128 four = _mm_min_ps(_mm256_castps256_ps128(singles), _mm256_extractf128_ps(singles, 1));
  const __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_min_ps(two, _mm_movehdup_ps(two)));
}
#if defined(__AVX512F__)
inline double reduce_min(Pack pack) {
  return reduce_min(_mm256_min_pd(_mm512_castpd512_pd256(pack), _mm512_extractf64x4_pd(pack, 1)));
}
inline float reduce_min(Singles singles) {
  return reduce_min(_mm256_min_ps(_mm512_castps512_ps256(singles), _mm512_extractf32x8_ps(singles, 1)));
}
#endif
#else
template <class Number, class Lanes>
inline Number reduce_lanes(Lanes pack) {
  constexpr int kCount = sizeof(Lanes) / sizeof(Number);
  Number lanes[kCount];
  store(lanes, pack);
  for (int half = kCount / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] < lanes[i + half] ? lanes[i] : lanes[i + half];
  return lanes[0];
}
inline double reduce_min(Pack pack) { return reduce_lanes<double>(pack); }
inline float reduce_min(Singles singles) { return reduce_lanes<float>(singles); }
#endif

inline double reduce_max(Pack pack) { return -reduce_min(broadcast(0.0) - pack); }
inline float reduce_max(Singles singles) { return -reduce_min(broadcast_single(0.0f) - singles); }

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// a * b + c, rounded once if the instruction set has a fused multiply-add; emulating one would be slow.
inline Pack multiply_add(Pack a, Pack b, Pack c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_pd(a, b, c);
#elif defined(__aarch64__)
  return bit_cast<Pack>(vfmaq_f64(bit_cast<float64x2_t>(c), bit_cast<float64x2_t>(a), bit_cast<float64x2_t>(b)));
#else
  return a * b + c;
#endif
}

inline Singles multiply_add(Singles a, Singles b, Singles c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return bit_cast<Singles>(
      vfmaq_f32(bit_cast<float32x4_t>(c), bit_cast<float32x4_t>(a), bit_cast<float32x4_t>(b)));
#else
  return a * b + c;
#endif
}

// 2^x for x <= 1, with a relative error of at most 2^-21; 2^-126 for anything below -126.
//
// 2^x = 2^k 2^f with k = round(x), |f| <= 1/2, and the minimax polynomial of degree 5 for 2^f (relative error 7e-08).
constexpr float kMinPower = -126.0f;

inline Singles power_of_two(Singles x) {
  x = maximum(broadcast_single(kMinPower), x);  // NaN stays
#if defined(__AVX512F__)
  const Singles k = _mm512_roundscale_ps(x, 0), f = x - k;
#else
  const Singles rounder = broadcast_single(12582912.0f), shifted = x + rounder, f = x - (shifted - rounder);
#endif
  Singles p = broadcast_single(0x1.5c08e60000000p-10f);
  p = multiply_add(p, f, broadcast_single(0x1.3d0c520000000p-7f));
  p = multiply_add(p, f, broadcast_single(0x1.c6b6e40000000p-5f));
  p = multiply_add(p, f, broadcast_single(0x1.ebf9180000000p-3f));
  p = multiply_add(p, f, broadcast_single(0x1.62e4280000000p-1f));
  p = multiply_add(p, f, broadcast_single(0x1.0000020000000p+0f));
#if defined(__AVX512F__)
  return _mm512_scalef_ps(p, k);
#else
  return bit_cast<Singles>(bit_cast<SinglesBits>(p) + (bit_cast<SinglesBits>(shifted) << 23));
#endif
}

}  // namespace
