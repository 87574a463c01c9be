"""exp, erf and tanh of float32 as C++ that compilers vectorise whole, inside the loop that asks: a call of the vector math library would cost
as much, and stop what the processor does ahead of it. Errors are the largest in units of the last place, over all arguments (with fused
multiply-add and without); infinities, NaN, signed zeros and results below the normal range come out as they should.

The coefficients are minimax polynomials (Lawson's weighted least squares, in double), weighted for the result's relative error.
"""

# ruff: noqa: E501 (C++ text)
from __future__ import annotations

FUNCTIONS = """\
#ifdef __FMA__
static inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
static inline float fused(float a, float b, float c) { return a * b + c; }
#endif
// A float's low bits are its integer once 1.5 * 2^23 was added to it, which rounds; 2^n has n + 127 for its exponent.
static inline int32_t bits_of_float(float x) { return __builtin_bit_cast(int32_t, x); }
static inline float with_exponent(int32_t low_bits) { return __builtin_bit_cast(float, (uint32_t)low_bits << 23); }
// e^x = 2^k e^f within 1.1, |f| <= log(2) / 2. 2^k goes in two factors: neither leaves the normal range before the result does.
static inline float exp_of(float x) {
  const float z = fused(x, 1.44269504f, 12583166.0f);  // 254 more than k: the sum of two exponents
  const int32_t most = 0x4b400180, both = bits_of_float(z) < most ? bits_of_float(z) : most, half = both >> 1;
  const float k = __builtin_bit_cast(float, both) - 12583166.0f, f = fused(k, 2.1219444e-4f, fused(k, -0.693359375f, x));
  const float c = fused(fused(fused(fused(0.00138825097f, f, 0.00836658012f), f, 0.0416672006f), f, 0.166665435f), f, 0.49999997f);
  const float e = (fused(f * f, c, f) + 1.0f) * with_exponent(half) * with_exponent(both - half);
  return x < -105.0f ? 0.0f : e;
}
// erf x = 1 - 2^g(x) within 3.4, where g(x) / x is a polynomial fitted to log2(erfc x); with g = k + f that is -(2^k (2^f - 1) + (2^k - 1)),
// exact near 0, where k is 0.
static inline float erf_of(float x) {
  const float t = __builtin_fabsf(x), u = t > 4.0f ? 4.0f : t;
  const float h = fused(fused(fused(fused(-5.87282957e-05f, u, 0.000549661519f), u, -0.00180587056f), u, -0.00029681134f), u, 0.0278753638f);
  const float g = fused(fused(fused(h, u, -0.148329854f), u, -0.918443441f), u, -1.62790704f) * u;
  const float z = g + 12583039.0f, f = g - (z - 12583039.0f), two = with_exponent(bits_of_float(z));  // 127 more than k
  const float c = fused(fused(fused(fused(fused(0.000154035122f, f, 0.00133908493f), f, 0.00961823761f), f, 0.0555035733f), f, 0.240226492f), f, 0.693147182f);
  return __builtin_copysignf(fused(c * f, two, two - 1.0f), x);
}
// tanh x = e / (e + 2) within 2.5, e = e^2x - 1 = 2^k (e^f - 1) + (2^k - 1); x - x^3 / 3 + 2 x^5 / 15 within 0.6 where x is small, so that
// x - tanh x has the right sign and is 0 where it should be.
static inline float tanh_of(float x) {
  const float t = __builtin_fabsf(x), u = t > 10.0f ? 10.0f : t;
  const float z = fused(u, 2.88539008f, 12583039.0f), f = fused(z - 12583039.0f, -0.693147182f, u + u);
  const float c = fused(fused(fused(fused(0.00138825097f, f, 0.00836658012f), f, 0.0416672006f), f, 0.166665435f), f, 0.49999997f);
  const float two = with_exponent(bits_of_float(z)), e = fused(fused(f * f, c, f), two, two - 1.0f);
  const float s = t * t, small = fused(s * t, fused(s, 0.133333333f, -0.333333333f), t), y = e / (e + 2.0f);
  return __builtin_copysignf(t < 0.05f ? small : y, x);
}
"""
