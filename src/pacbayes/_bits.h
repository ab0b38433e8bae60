// Bits of a word, for compilers with and without a builtin.
#pragma once

#include <cstdint>
#ifdef _MSC_VER
#include <intrin.h>
#endif

namespace pacbayes {

// The position of the lowest bit that is set; some must be.
inline int lowest_bit(std::uint64_t bits) {
#ifdef _MSC_VER
  unsigned long position;
  _BitScanForward64(&position, bits);
  return static_cast<int>(position);
#else
  return __builtin_ctzll(bits);
#endif
}

}  // namespace pacbayes
