// Several doubles handled at once, and their exponential.
//
// Included only by the files that are compiled once per instruction set (see CMakeLists.txt). Everything here has internal
// linkage and nothing comes from the standard library's templates: a function that was compiled for AVX-512 must never be
// the one that the linker keeps for a machine without it.

#pragma once

#include <cstdint>
#include <cstring>

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
typedef std::int64_t Integers __attribute__((vector_size(kLanes * sizeof(double))));
typedef Integers Mask;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

inline Pack fill(double value) { return value - Pack{}; }
inline Pack select(Mask mask, Pack a, Pack b) { return mask ? a : b; }
inline Pack widen(Floats floats) { return __builtin_convertvector(floats, Pack); }

#else  // The same operations, lane by lane: MSVC has no vector types.

struct Integers { std::int64_t lane[kLanes]; };
struct Mask { bool lane[kLanes]; };
struct Floats { float lane[kLanes]; };
struct Pack {
  double lane[kLanes];
  double& operator[](int i) { return lane[i]; }
  double operator[](int i) const { return lane[i]; }
};

#define PACBAYES_LANEWISE(Result, name, A, B, expression) \
  inline Result name(A a, B b) {                          \
    Result result;                                        \
    for (int i = 0; i < kLanes; ++i) result.lane[i] = (expression); \
    return result;                                        \
  }
PACBAYES_LANEWISE(Pack, operator+, Pack, Pack, a.lane[i] + b.lane[i])
PACBAYES_LANEWISE(Pack, operator-, Pack, Pack, a.lane[i] - b.lane[i])
PACBAYES_LANEWISE(Pack, operator*, Pack, Pack, a.lane[i] * b.lane[i])
PACBAYES_LANEWISE(Pack, operator/, Pack, Pack, a.lane[i] / b.lane[i])
PACBAYES_LANEWISE(Mask, operator==, Pack, Pack, a.lane[i] == b.lane[i])
PACBAYES_LANEWISE(Mask, operator>, Pack, Pack, a.lane[i] > b.lane[i])
PACBAYES_LANEWISE(Integers, operator+, Integers, Integers, a.lane[i] + b.lane[i])
PACBAYES_LANEWISE(Integers, operator<<, Integers, int,
                  static_cast<std::int64_t>(static_cast<std::uint64_t>(a.lane[i]) << b))
#undef PACBAYES_LANEWISE

inline Pack& operator+=(Pack& a, Pack b) { return a = a + b; }

inline Pack fill(double value) {
  Pack pack;
  for (int i = 0; i < kLanes; ++i) pack.lane[i] = value;
  return pack;
}

inline Pack select(Mask mask, Pack a, Pack b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] = mask.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}

inline Pack widen(Floats floats) {
  Pack result;
  for (int i = 0; i < kLanes; ++i) result.lane[i] = floats.lane[i];
  return result;
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
  return widen(floats);
}

inline void store(double* to, Pack pack) { std::memcpy(to, &pack, sizeof pack); }

// The least lane, and the greatest, by halves: without branches, and in few steps.
inline double least(Pack pack) {
  double lanes[kLanes];
  store(lanes, pack);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] < lanes[i + half] ? lanes[i] : lanes[i + half];
  return lanes[0];
}

inline double greatest(Pack pack) { return -least(fill(0.0) - pack); }

template <class To, class From>
inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps their number");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// exp(x) for x <= 0, within 2 ulp; 0 where it would leave the normal numbers.
//
// exp(x) = 2^k exp(f) with k = round(x / ln 2), |f| <= ln(2) / 2, and the best polynomial of degree 11 for exp(f) (relative
// error 3e-18). Adding 1.5 * 2^52 rounds x / ln 2 to k and leaves k in the lowest bits of the sum, whence it is shifted into
// the exponent of the result.
constexpr double kSmallestExponent = -708.0;

inline Pack exponential(Pack x) {
  const Pack rounder = fill(6755399441055744.0);
  const Mask tiny = fill(kSmallestExponent) > x;
  x = select(tiny, fill(kSmallestExponent), x);
  const Pack shifted = x * fill(1.4426950408889634) + rounder;
  const Pack k = shifted - rounder;
  const Pack f = (x - k * fill(0x1.62e42fefa0000p-1)) - k * fill(0x1.cf79abc9e3b3ap-40);
  Pack p = fill(0x1.af632a0f7e2cep-26);
  p = p * f + fill(0x1.28b4101c77212p-22);
  p = p * f + fill(0x1.71ddf56d8deb5p-19);
  p = p * f + fill(0x1.a01991a10d9aep-16);
  p = p * f + fill(0x1.a01a01b1461c5p-13);
  p = p * f + fill(0x1.6c16c1880029fp-10);
  p = p * f + fill(0x1.111111110f21ep-7);
  p = p * f + fill(0x1.555555554f0bap-5);
  p = p * f + fill(0x1.555555555555ap-3);
  p = p * f + fill(0x1.0000000000011p-1);
  p = p * f + fill(1.0);
  p = p * f + fill(1.0);
  const Integers bits = same_bits<Integers>(p) + (same_bits<Integers>(shifted) << 52);
  return select(tiny, fill(0.0), same_bits<Pack>(bits));
}

}  // namespace
