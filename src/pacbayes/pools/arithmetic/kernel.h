// Squared distances and exponentials, of packs of numbers: `Pack` in double and `Singles` in single precision. Include
// engine/pack.h before, where a pack is a SIMD vector, or cuda/pack.cu, where it is one number of a thread.

#pragma once

#include "shared.h"

namespace {

// Squared distances are sums of squared differences: |x|^2 - 2 x.s + |s|^2 would cancel where points are close. Each
// sum runs over the features in ascending order, by `add_square` alone, so a distance has the same bits in any tile,
// block or batch. A feature that is zero in both points adds fma(0, 0, sum) = sum: sparse rows may leave it out and
// still have the same bits as dense ones.
template <class Lanes>
PACBAYES_SHARED void add_square(Lanes& sum, Lanes difference) {
  sum = multiply_add(difference, difference, sum);
}

// A squared distance that overflows, or is infinity minus infinity, counts as the largest number: gamma * squared is
// never NaN, and no row has an effect on the others of its tile.
PACBAYES_SHARED Pack limit(Pack squared) {
  const Pack largest = broadcast(0x1.fffffffffffffp+1023);
  return select(largest > squared, squared, largest);
}

PACBAYES_SHARED Singles limit(Singles squared) {
  const Singles largest = broadcast_single(0x1.fffffep+127f);
  return select(largest > squared, squared, largest);
}

// exp(x) for x <= 0, to within 2 ulp; 0 below kMinExponent, where the result would be subnormal or nearly so.
//
// exp(x) = 2^k exp(f) with k = round(x / ln 2), |f| <= ln(2) / 2, and the minimax polynomial of degree 11 for exp(f)
// (relative error 3e-18). Adding 1.5 * 2^52 rounds x / ln 2 to the integer k and leaves k in the lowest bits of the
// sum; a shift moves it into the exponent of the result.
constexpr double kMinExponent = -708.0;

PACBAYES_SHARED Pack exponential(Pack x) {
  const Pack rounder = broadcast(6755399441055744.0);
  const Mask underflows = broadcast(kMinExponent) > x;
  x = select(underflows, broadcast(kMinExponent), x);
  const Pack shifted = multiply_add(x, broadcast(1.4426950408889634), rounder);
  const Pack k = shifted - rounder;
  Pack f = multiply_add(k, broadcast(-0x1.62e42fefa0000p-1), x);
  f = multiply_add(k, broadcast(-0x1.cf79abc9e3b3ap-40), f);
  Pack p = broadcast(0x1.af632a0f7e2cep-26);
  p = multiply_add(p, f, broadcast(0x1.28b4101c77212p-22));
  p = multiply_add(p, f, broadcast(0x1.71ddf56d8deb5p-19));
  p = multiply_add(p, f, broadcast(0x1.a01991a10d9aep-16));
  p = multiply_add(p, f, broadcast(0x1.a01a01b1461c5p-13));
  p = multiply_add(p, f, broadcast(0x1.6c16c1880029fp-10));
  p = multiply_add(p, f, broadcast(0x1.111111110f21ep-7));
  p = multiply_add(p, f, broadcast(0x1.555555554f0bap-5));
  p = multiply_add(p, f, broadcast(0x1.555555555555ap-3));
  p = multiply_add(p, f, broadcast(0x1.0000000000011p-1));
  p = multiply_add(p, f, broadcast(1.0));
  p = multiply_add(p, f, broadcast(1.0));
  const Bits bits = bit_cast<Bits>(p) + (bit_cast<Bits>(shifted) << 52);
  return select(underflows, broadcast(0.0), bit_cast<Pack>(bits));
}

// The same in single precision, to within 1 ulp, or 1.2 ulp where products are rounded before they are added; 0 below
// kMinSingleExponent. The polynomial of degree 6 has a relative error of 4e-9, and the leading part of ln 2 has 15 bits:
// its product with k is exact.
constexpr float kMinSingleExponent = -87.0f;

PACBAYES_SHARED Singles exponential(Singles x) {
  const Singles rounder = broadcast_single(12582912.0f), least = broadcast_single(kMinSingleExponent);
  const SinglesMask underflows = least > x;
  x = select(underflows, least, x);
  const Singles shifted = multiply_add(x, broadcast_single(0x1.715476p+0f), rounder);
  const Singles k = shifted - rounder;
  Singles f = multiply_add(k, broadcast_single(-0x1.62e4p-1f), x);
  f = multiply_add(k, broadcast_single(-0x1.7f7d1cp-20f), f);
  Singles p = broadcast_single(0x1.6a2434p-10f);
  p = multiply_add(p, f, broadcast_single(0x1.1239e2p-7f));
  p = multiply_add(p, f, broadcast_single(0x1.5558f2p-5f));
  p = multiply_add(p, f, broadcast_single(0x1.555492p-3f));
  p = multiply_add(p, f, broadcast_single(0x1.fffffcp-2f));
  p = multiply_add(p, f, broadcast_single(1.0f));
  p = multiply_add(p, f, broadcast_single(1.0f));
  const SinglesBits bits = bit_cast<SinglesBits>(p) + (bit_cast<SinglesBits>(shifted) << 23);
  return select(underflows, broadcast_single(0.0f), bit_cast<Singles>(bits));
}

}  // namespace
