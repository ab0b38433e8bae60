// The instructions that CUDA C++ has no function for. They need compute capability 8.0.

// Round to the 11 significant bits of TF32.
__device__ __forceinline__ float to_tf32(float x) {
  uint32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

// sum += a b for 16 rows, 8 columns and 8 products each. The lanes of a warp hold the parts as the PTX manual lays them
// out for mma.m16n8k8: lane l holds rows l / 4 and l / 4 + 8 of a, features l % 4 and l % 4 + 4; column l / 4 of b; and
// columns 2 (l % 4) and 2 (l % 4) + 1 of the sum.
__device__ __forceinline__ void multiply(float (&sum)[4], float4 a, float2 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(__float_as_uint(a.x)), "r"(__float_as_uint(a.y)), "r"(__float_as_uint(a.z)), "r"(__float_as_uint(a.w)),
        "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
}

// 2^x to within 2^-22, relatively; 0 where the result would be subnormal.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

