"""Kernels that a compiler once did not come back from."""

from __future__ import annotations

import ctypes

import torch

from fuselab.toolkit.runtime import build_cpp
from fuselab.toolkit.runtime._launch import launcher

SUMS_OF_TWO_IMAGES = """
#include <stdint.h>
static inline long long_min(long a, long b) { return a < b ? a : b; }
extern "C" const char* sums(void* const* p, const int64_t* n) {
  const float* __restrict in_a = (const float*)p[0];
  const float* __restrict in_b = (const float*)p[1];
  float* __restrict out_a = (float*)p[2];
  float* __restrict out_b = (float*)p[3];
  for (int64_t x0b = 0; x0b < 256; x0b += 128) {
    const int64_t x0e = long_min(x0b + 128, 256);
    alignas(64) double acc0_share[128];
    for (int64_t j = 0; j < 128; ++j) acc0_share[j] = 0;
    alignas(64) double acc1_share[128];
    for (int64_t j = 0; j < 128; ++j) acc1_share[j] = 0;
    for (int64_t r1b = 0; r1b < 4096; r1b += 128) {
      alignas(64) float acc0_block[128];
      for (int64_t j = 0; j < 128; ++j) acc0_block[j] = 0;
      alignas(64) float acc1_block[128];
      for (int64_t j = 0; j < 128; ++j) acc1_block[j] = 0;
      for (int64_t r0 = 0; r0 < 2; ++r0) {
        for (int64_t r1 = r1b; r1 < long_min(r1b + 128, 4096); ++r1) {
          #pragma omp simd
          for (int64_t x0 = x0b; x0 < x0e; ++x0) {
            acc0_block[x0 - x0b] += in_a[1048576*r0 + 4096*x0 + r1];
            acc1_block[x0 - x0b] += in_b[1048576*r0 + 4096*x0 + r1];
          }
        }
      }
      for (int64_t j = 0; j < 128; ++j) acc0_share[j] += acc0_block[j];
      for (int64_t j = 0; j < 128; ++j) acc1_share[j] += acc1_block[j];
    }
    for (int64_t x0 = x0b; x0 < x0e; ++x0) { out_a[x0] = acc0_share[x0 - x0b]; out_b[x0] = acc1_share[x0 - x0b]; }
  }
  return nullptr;
}
"""


def test_sums_over_columns_are_built():
    """GCC 12 at -O3 takes minutes and more for it, if it may unroll an outer loop and jam the inner ones."""
    library, _ = build_cpp.library_of(SUMS_OF_TWO_IMAGES)
    sums = launcher(ctypes.cast(library["sums"], ctypes.c_void_p).value, 4, 0, "sums", library)
    a, b, of_a, of_b = torch.randn(2, 256, 4096), torch.randn(2, 256, 4096), torch.empty(256), torch.empty(256)
    sums(a, b, of_a, of_b)
    torch.testing.assert_close((of_a, of_b), (a.sum((0, 2)), b.sum((0, 2))), rtol=1e-4, atol=1e-3)
