// Selects the routines for this machine.

#include "routines.h"

#include <cstdlib>
#include <cstring>

namespace pacbayes {

namespace baseline { extern const Routines kRoutines; }
#ifdef PACBAYES_X86
namespace avx2 { extern const Routines kRoutines; }
namespace avx512 { extern const Routines kRoutines; }
#endif

namespace {

const Routines& choose() {
  // An upper limit on the instruction set, for tests and comparisons.
  const char* limit = std::getenv("PACBAYES_INSTRUCTIONS");
  const bool plain = limit && std::strcmp(limit, "baseline") == 0;
  const bool no_avx512 = limit && std::strcmp(limit, "avx2") == 0;
#ifdef PACBAYES_X86
  __builtin_cpu_init();
  if (!plain && !no_avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return avx512::kRoutines;
  if (!plain && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kRoutines;
#endif
  (void)plain;
  (void)no_avx512;
  return baseline::kRoutines;
}

}  // namespace

const Routines& routines() {
  static const Routines& chosen = choose();
  return chosen;
}

}  // namespace pacbayes
