// How a row of a table holds a text: as whole numbers below 2^52, whose bits say which of 2080 parts the text has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "_bits.h"

namespace pacbayes {

constexpr std::size_t kTextColumns = 40, kTextBits = 52, kTextParts = kTextColumns * kTextBits;

// Call a function with each part of a text, rising, given its columns; what is no such number has none.
template <class T, class Use>
void for_each_part(const T* columns, Use use) {
  for (std::size_t c = 0; c < kTextColumns; ++c) {
    const double held = static_cast<double>(columns[c]);
    if (!(held > 0 && held < static_cast<double>(std::uint64_t{1} << kTextBits))) continue;
    for (auto bits = static_cast<std::uint64_t>(held); bits; bits &= bits - 1)
      use(c * kTextBits + static_cast<std::size_t>(lowest_bit(bits)));
  }
}

}  // namespace pacbayes
