// What both compilers need to read the headers of this folder: g++ and its like for the CPU, NVRTC for a device.
//
// These headers hold the operations that every engine must do alike, to the bit, and in what order: how the work is
// divided among lanes, warps and blocks is left to the engines. Both compile without contraction, so that products are
// fused with additions exactly where the source says `multiply_add`.
//
// Headers are expanded into CUDA source as text (_device.py). They have internal linkage and instantiate nothing of the
// standard library, which NVRTC does not have: see engine/pack.h for the other reason.

#pragma once

#if defined(__CUDACC__)
#define PACBAYES_SHARED [[maybe_unused]] __device__ __forceinline__
#define kInfinity __longlong_as_double(0x7ff0000000000000ll)
#else
#include <math.h>

#include <limits>

#define PACBAYES_SHARED inline
constexpr double kInfinity = std::numeric_limits<double>::infinity();
#endif
