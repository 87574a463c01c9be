"""What every C++ translation unit begins with: no headers but <stdint.h>, our own prototypes of the math functions, conversions, and the
rules of integers, NaN and random numbers that C++ and PyTorch see differently.

glibc has vector versions of most math functions (libmvec) but only announces them to GCC under -ffast-math, which breaks NaN. A prototype
with `declare simd notinbranch` announces one of them alone; `vector_functions` asks the library which there are.
"""

# ruff: noqa: E501 (C++ text)
from __future__ import annotations

import ctypes
import functools
import platform

import torch

from .cpp_functions import FUNCTIONS

C_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.int64: "int64_t", torch.int32: "int32_t", torch.int16: "int16_t",
    torch.int8: "int8_t", torch.uint8: "uint8_t", torch.bool: "bool", torch.bfloat16: "bfloat16", torch.float16: "float16",
    torch.float8_e4m3fn: "float8e4m3", torch.float8_e5m2: "float8e5m2", torch.uint16: "uint16_t", torch.uint32: "uint32_t", torch.uint64: "uint64_t",
}  # fmt: skip
LOW_PRECISION = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}

_UNARY = "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc"
UNARY = _UNARY.split()
BINARY = ["pow", "atan2", "hypot"]
PLAIN = {"lgamma": 1, "fmod": 2, "nextafter": 2}


def array(dtype: torch.dtype, name: str, *sizes: int | str) -> str:
    """The declaration of an array on the stack. It says its alignment: GCC 12 writes zeros to the last 16 of 80 bytes as if they lay at a
    multiple of 16, and lays the array at one of 8."""
    return f"alignas(64) {C_TYPES[dtype]} {name}{''.join(f'[{size}]' for size in sizes)};"


_TYPES = """\
#include <stdint.h>
typedef struct { uint16_t bits; } bfloat16;
typedef struct { uint16_t bits; } float16;
typedef struct { uint8_t bits; } float8e4m3;
typedef struct { uint8_t bits; } float8e5m2;
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
"""

_RULES = """\
// Low precision: computed in float, rounded to nearest even.
static inline float from_bf16(bfloat16 h) { return __builtin_bit_cast(float, (uint32_t)h.bits << 16); }
static inline bfloat16 to_bf16(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  return {f != f ? (uint16_t)0x7fc0 : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}
static inline float from_f16(float16 h) {
  const uint32_t w = (uint32_t)h.bits << 16, twice = w + w;
  const float normal = __builtin_bit_cast(float, (twice >> 4) + (0xe0u << 23)) * 0x1p-112f;  // exponent moved up, then scaled: inf and NaN come out right
  const float subnormal = __builtin_bit_cast(float, (twice >> 17) | (126u << 23)) - 0.5f;
  const uint32_t magnitude = twice < (1u << 27) ? __builtin_bit_cast(uint32_t, subnormal) : __builtin_bit_cast(uint32_t, normal);
  return __builtin_bit_cast(float, (w & 0x80000000u) | magnitude);
}
static inline float16 to_f16(float f) {
  const uint32_t w = __builtin_bit_cast(uint32_t, f), twice = w + w;
  const float magnitude = __builtin_bit_cast(float, w & 0x7fffffffu) * 0x1p+112f * 0x1p-110f;  // overflows to inf where a half does
  const uint32_t bias = (twice & 0xff000000u) < 0x71000000u ? 0x71000000u : (twice & 0xff000000u);
  const uint32_t bits = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, (bias >> 1) + 0x07800000u) + magnitude);
  const uint32_t half = ((bits >> 13) & 0x7c00u) + (bits & 0xfffu);
  return {(uint16_t)(((w >> 16) & 0x8000u) | (twice > 0xff000000u ? 0x7e00u : half))};
}
static inline float from_f8e4m3(float8e4m3 h) {  // no infinities; all ones is NaN
  const uint32_t w = h.bits & 0x7fu, sign = (uint32_t)(h.bits & 0x80u) << 24;
  const float magnitude = w == 0x7fu ? NAN : w < 8u ? (float)(int32_t)w * 0x1p-9f : __builtin_bit_cast(float, (w << 20) + (120u << 23));
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, magnitude));
}
static inline float8e4m3 to_f8e4m3(float f) {
  const uint32_t w = __builtin_bit_cast(uint32_t, f), sign = w & 0x80000000u, m = w ^ sign;
  const uint32_t small = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, m) + 16384.0f) - (141u << 23);  // the addition rounds
  const uint32_t normal = (m - (120u << 23) + 0x7ffffu + ((m >> 20) & 1u)) >> 20;
  const uint32_t code = m >= 0x43f00000u ? 0x7fu : m < (121u << 23) ? small : normal;
  return {(uint8_t)((code < 0x7fu || m > 0x7f800000u ? code : m == 0x7f800000u ? OF_INFINITY : TOO_LARGE) | sign >> 24)};
}
static inline float from_f8e5m2(float8e5m2 h) { return from_f16({(uint16_t)((uint32_t)h.bits << 8)}); }
static inline float8e5m2 to_f8e5m2(float f) {
  const uint32_t w = __builtin_bit_cast(uint32_t, f), sign = w & 0x80000000u, m = w ^ sign;
  const uint32_t small = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, m) + 128.0f) - (134u << 23);
  const uint32_t normal = (m - (112u << 23) + 0xfffffu + ((m >> 21) & 1u)) >> 21;
  return {(uint8_t)((m > 0x7f800000u ? 0x7fu : m >= (143u << 23) ? 0x7cu : m < (113u << 23) ? small : normal) | sign >> 24)};
}
// NaN wins.
template <class T> static inline T nan_max(T a, T b) { return (b > a) | (b != b) ? b : a; }
template <class T> static inline T nan_min(T a, T b) { return (b < a) | (b != b) ? b : a; }
// Integers in the order of the numbers, in which a NaN wins.
template <class T> struct key_of {};
template <> struct key_of<float> { typedef int32_t type; };
template <> struct key_of<double> { typedef int64_t type; };
template <class T, class K = typename key_of<T>::type> static inline K as_key(T x) {
  const K k = __builtin_bit_cast(K, x), rest = ~(K(1) << (8 * sizeof(K) - 1));
  return k ^ ((k >> (8 * sizeof(K) - 1)) & rest);
}
template <class T, class K = typename key_of<T>::type> static inline K max_key(T x) { return x == x ? as_key(x) : ~(K(1) << (8 * sizeof(K) - 1)); }
template <class T, class K = typename key_of<T>::type> static inline K min_key(T x) { return x == x ? as_key(x) : K(1) << (8 * sizeof(K) - 1); }
template <class T, class K = typename key_of<T>::type> static inline T of_key(K k) {
  return __builtin_bit_cast(T, k ^ ((k >> (8 * sizeof(K) - 1)) & ~(K(1) << (8 * sizeof(K) - 1))));
}
// So far: of two zeros the later one.
template <class T> static inline T last_max(T a, T b) { return (b >= a) | (b != b) ? b : a; }
template <class T> static inline T last_min(T a, T b) { return (b <= a) | (b != b) ? b : a; }
#pragma omp declare reduction(nan_max : float, double : omp_out = nan_max(omp_out, omp_in)) initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(nan_min : float, double : omp_out = nan_min(omp_out, omp_in)) initializer(omp_priv = INFINITY)
// Integers wrap round; division rounds down; a shift by the width or more gives 0 or the sign.
template <class T> struct wide { typedef uint32_t type; };
template <> struct wide<int64_t> { typedef uint64_t type; };
template <> struct wide<uint64_t> { typedef uint64_t type; };
template <class T> static inline T wrap_add(T a, T b) { typedef typename wide<T>::type U; return (T)((U)a + (U)b); }
template <class T> static inline T wrap_sub(T a, T b) { typedef typename wide<T>::type U; return (T)((U)a - (U)b); }
template <class T> static inline T wrap_mul(T a, T b) { typedef typename wide<T>::type U; return (T)((U)a * (U)b); }
template <class T> static inline T trunc_div(T a, T b) { return (T)-1 < 0 && b == (T)-1 ? wrap_sub((T)0, a) : (T)(a / (b == 0 ? (T)1 : b)); }
template <class T> static inline T c_mod(T a, T b) { return ((T)-1 < 0 && b == (T)-1) || b == 0 ? (T)0 : (T)(a % b); }
template <class T> static inline T floor_divide(T a, T b) { const T q = trunc_div(a, b), r = c_mod(a, b); return (T)(q - ((r != 0) & ((r < 0) != (b < 0)))); }
template <class T> static inline T remainder_of(T a, T b) { const T r = c_mod(a, b); return (T)(r + (((r != 0) & ((r < 0) != (b < 0))) ? b : (T)0)); }
template <class T> static inline T shift_left(T a, T b) { typedef typename wide<T>::type U; return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((U)a << b); }
template <class T> static inline T shift_right(T a, T b) {
  const bool past = b < 0 || b >= (T)(8 * sizeof(T));
  return past && (T)-1 > 0 ? (T)0 : (T)(a >> (past ? (T)(8 * sizeof(T) - 1) : b));
}
template <class T> static inline T integer_power(T a, T b) {
  if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? (T)(b % 2 ? -1 : 1) : (T)0;
  T result = 1;
  for (; b; b = (T)(b >> 1), a = wrap_mul(a, a)) if (b & 1) result = wrap_mul(result, a);
  return result;
}
template <class T> static inline T log_add_exp(T a, T b) {
  const T high = nan_max(a, b), low = nan_min(a, b);
  return high - high != 0 ? high : high + (T)log1p(exp((double)(low - high)));
}
// The least integer stands for what is none, as x86 has it. A plain conversion there and back the compiler takes for a truncation.
template <class I, class F> static inline I whole(F x) {
  const F end = sizeof(I) == 8 ? (F)0x1p63 : (F)0x1p31;
  return (x >= -end) & (x < end) ? (I)x : (I)((uint64_t)1 << (8 * sizeof(I) - 1));
}
template <class T> static inline T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
// Threads that share a loop of so much work.
static inline int shares_of(long work) { const int threads = work < 32768 ? 1 : omp_get_max_threads(); return threads < 64 ? threads : 64; }
// Index expressions.
static inline long floor_div(long a, long b) { const long q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
static inline long floor_mod(long a, long b) { const long r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0))) * b; }
static inline long long_min(long a, long b) { return a < b ? a : b; }
static inline long long_max(long a, long b) { return a > b ? a : b; }
// Stores past the cache, whole lines of 64 bytes at a time; the ends as usual. Threads' locked operations order them, and fence() does.
typedef float line __attribute__((vector_size(64), aligned(4), may_alias));
static inline void stream_line(void* to, const void* from) {
#if defined(__clang__)
  typedef float whole __attribute__((vector_size(64), may_alias));
  __builtin_nontemporal_store(*(const line*)from, (whole*)to);
#elif defined(__AVX__)
  typedef float half __attribute__((vector_size(32), aligned(4), may_alias));
  for (int i = 0; i < 2; ++i) __builtin_ia32_movntps256((float*)to + 8 * i, ((const half*)from)[i]);
#elif defined(__SSE__)
  typedef float quarter __attribute__((vector_size(16), aligned(4), may_alias));
  for (int i = 0; i < 4; ++i) __builtin_ia32_movntps((float*)to + 4 * i, ((const quarter*)from)[i]);
#else
  *(line*)to = *(const line*)from;
#endif
}
template <class T> static inline void stream(T* to, const T* from, long count) {
  const long size = count * (long)sizeof(T), before = -(uintptr_t)to & 63, head = before < size ? before : size;
  char* t = (char*)to;
  const char* f = (const char*)from;
  if (head == 0 && size % 64 == 0) {
    for (long i = 0; i < size; i += 64) stream_line(t + i, f + i);
    return;
  }
  if (head) __builtin_memcpy(t, f, head);
  long i = head;
  for (; i + 64 <= size; i += 64) stream_line(t + i, f + i);
  if (i < size) __builtin_memcpy(t + i, f + i, size - i);
}
static inline void to_halves(float16* to, const float* from, long count) {
  long i = 0;
#if defined(__F16C__)
  typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
  typedef short halves __attribute__((vector_size(16), aligned(2), may_alias));
  for (; i + 8 <= count; i += 8) *(halves*)(to + i) = __builtin_ia32_vcvtps2ph256(*(const floats*)(from + i), 0);
#endif
  for (; i < count; ++i) to[i] = to_f16(from[i]);
}
static inline void stream(float16* to, const float* from, long count) {
  alignas(64) float16 block[256];
  for (long i = 0; i < count; i += 256) {
    const long some = count - i < 256 ? count - i : 256;
    to_halves(block, from + i, some);
    stream(to + i, block, some);
  }
}
static inline void fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}
// Brings elements near that are needed soon.
template <class T> static inline void ahead(const T* from, long count) {
  for (long i = 0; i < count * (long)sizeof(T); i += 64) __builtin_prefetch((const char*)from + i, 0, 2);
}
// Where the next 128 of n elements lie, when they are read at four places by turns: so many pages of memory come near at once.
static inline int64_t by_turns(int64_t i, int64_t n) {
  return n % 512 ? i : i % 512 * (n / 512) + i / 512 * 128;
}
// x[i] becomes sum + x[0] + ... + x[i], in double; the last of them. Eight at a time: each is added to those 1, then 2, then 4 further on.
static inline double running_sum(float* x, long count, double sum) {
  long i = 0;
#if defined(__AVX__) && (defined(__clang__) || __GNUC__ >= 12)
  typedef double eight __attribute__((vector_size(64)));
  typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
  const eight none = {};
  eight before = none + sum;
  for (; i + 8 <= count; i += 8) {
    floats* here = (floats*)(x + i);
#if defined(__AVX512F__) && !defined(__clang__)
    eight v = __builtin_ia32_cvtps2pd512_mask(*here, none, -1, 4);
#else
    eight v = __builtin_convertvector(*here, eight);
#endif
    v += __builtin_shufflevector(none, v, 7, 8, 9, 10, 11, 12, 13, 14);
    v += __builtin_shufflevector(none, v, 6, 7, 8, 9, 10, 11, 12, 13);
    v += __builtin_shufflevector(none, v, 4, 5, 6, 7, 8, 9, 10, 11);
    *here = __builtin_convertvector(v + before, floats);
    before += __builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7);
  }
  sum = before[0];
#endif
  for (; i < count; ++i) x[i] = (float)(sum += (double)x[i]);
  return sum;
}
// to[c][r] = from[r][c], rows `to_step` and `from_step` apart; squares of 8 in registers.
template <int size> struct bits_of;
template <> struct bits_of<1> { typedef uint8_t type; };
template <> struct bits_of<2> { typedef uint16_t type; };
template <> struct bits_of<4> { typedef uint32_t type; };
template <> struct bits_of<8> { typedef uint64_t type; };
template <class T> static inline void turn_8(T* to, long to_step, const T* from, long from_step) {
#if defined(__clang__) || __GNUC__ >= 12
  typedef typename bits_of<sizeof(T)>::type row __attribute__((vector_size(8 * sizeof(T))));
  row a[8], b[8];
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&a[i], from + i * from_step, sizeof(row));
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1) {
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 2] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) __builtin_memcpy(to + i * to_step, &b[i], sizeof(row));
#else
  for (int r = 0; r < 8; ++r) for (int c = 0; c < 8; ++c) to[c * to_step + r] = from[r * from_step + c];
#endif
}
template <class T> static inline void turn(T* to, long to_step, const T* from, long from_step, long rows, long columns) {
  const long whole_rows = rows & ~7l, whole_columns = columns & ~7l;
  for (long r = 0; r < whole_rows; r += 8)
    for (long c = 0; c < whole_columns; c += 8) turn_8(to + c * to_step + r, to_step, from + r * from_step + c, from_step);
  for (long r = 0; r < rows; ++r)
    for (long c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
}
// A loaded index: negative ones count from the end; one out of range sets `bad` and becomes 0.
template <int code> static inline long inside(long i, long size, int& bad) {
  const bool out = (i < 0) | (i >= size);
  bad |= out ? code : 0;
  return out ? 0 : i;
}
template <int code> static inline long checked(long i, long size, int& bad) { return inside<code>(i + (i < 0 ? size : 0), size, bad); }
"""

_FLOATING = """\
static inline T floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T r = FMOD(a, b), q = (a - r) / b - (r != 0 && (b < 0) != (r < 0) ? (T)1 : (T)0);
  if (q == 0) return COPYSIGN((T)0, a / b);
  const T down = FLOOR(q);
  return q - down > (T)0.5 ? down + (T)1 : down;
}
static inline T remainder_of(T a, T b) { const T r = FMOD(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
static inline T erf_inverse(T y) {  // Winitzki's approximation, then Newton's steps, in double
  if (!(y > -1 && y < 1)) return y == 1 ? (T)INFINITY : y == -1 ? (T)-INFINITY : (T)NAN;
  const double w = -log((1.0 - (double)y) * (1.0 + (double)y)), c = 4.3306727 - w / 2;
  double x = copysign_(sqrt_(sqrt_(c * c + w / 0.147) - c), (double)y);
  for (int i = 0; i < 4; ++i) x -= (erf(x) - (double)y) / (1.1283791670955126 * exp(-x * x));
  return (T)x;
}
"""


@functools.cache
def vector_functions() -> frozenset[str]:
    """C names that libmvec has in all the forms that GCC may call on this machine; empty where there is no such library."""
    arms = {"x86_64": ("b", "c", "d", "e"), "AMD64": ("b", "c", "d", "e"), "aarch64": ("n",)}.get(platform.machine(), ())
    try:
        library = ctypes.CDLL("libmvec.so.1") if arms else None
    except OSError:
        library = None
    if library is None:
        return frozenset()
    names = [(f + s, "v" * n) for n, functions in ((1, UNARY), (2, BINARY)) for f in functions for s in ("f", "")]
    return frozenset(name for name, args in names if all(hasattr(library, _mangled(arm, name, args)) for arm in arms))


def _mangled(arm: str, name: str, args: str) -> str:
    lanes = {"b": 2, "c": 4, "d": 4, "e": 8, "n": 2}[arm] * (2 if name.endswith("f") and name != "erf" else 1)
    return f"_ZGV{arm}N{lanes}{args}_{name}"


def _prototypes(vector: bool) -> str:
    have = vector_functions() if vector else frozenset()
    lines = []
    for count, functions in ((1, UNARY), (2, BINARY)):
        for f in functions:
            for kind, suffix in (("float", "f"), ("double", "")):
                if f + suffix in have:
                    lines.append("#pragma omp declare simd notinbranch")
                lines.append(f'extern "C" {kind} {f}{suffix}({", ".join([kind] * count)}) noexcept __attribute__((const));')
    for f, count in PLAIN.items():
        lines += [
            f'extern "C" {kind} {f}{suffix}({", ".join([kind] * count)}) noexcept;' for kind, suffix in (("float", "f"), ("double", ""))
        ]
    lines.append('extern "C" int omp_get_max_threads(void) noexcept;')
    return "\n".join(lines)


@functools.cache
def prelude(vector: bool = True) -> str:
    """The text before all kernels of a translation unit."""
    floating = "".join(
        _FLOATING.replace("FMOD", f"fmod{s}")
        .replace("COPYSIGN", f"__builtin_copysign{s}")
        .replace("FLOOR", f"__builtin_floor{s}")
        .replace("copysign_", "__builtin_copysign")
        .replace("sqrt_", "__builtin_sqrt")
        .replace("(T)", f"({t})")
        .replace("T ", f"{t} ")
        for t, s in (("float", "f"), ("double", ""))
    )
    return "\n".join([_TYPES, _prototypes(vector), _float8_limits(), _RULES + FUNCTIONS + floating])


def _float8_limits() -> str:
    """What float8_e4m3fn makes of numbers beyond its largest: NaN or that, as this torch does it."""
    large, infinity = torch.tensor([1e5, float("inf")]).to(torch.float8_e4m3fn).view(torch.uint8).tolist()
    return f"#define TOO_LARGE {large}u\n#define OF_INFINITY {infinity}u"
