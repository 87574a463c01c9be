"""C++ kernels of `Product`s: what a linear layer makes of a few dozen to few hundred rows, and small images in a convolution of one tap.

A register tile of TALL rows by WIDE columns grows along k: of the row operand one number at a time is spread over a vector, so that it is
read as it lies; the column operand was copied into panels of WIDE. With few rows in x, w is the row operand (never copied, and what of it
comes next is fetched while the tile is at work) and tiles are turned at their end. With more rows, w is copied panel by panel.
Every DEEP steps the tile is added to memory: short sums keep the error of float32 as small as the library's.
"""

# ruff: noqa: E501 (C++ text)
from __future__ import annotations

from collections.abc import Callable

import sympy

from ..loops.ir import Buffer, ExternKernel, ReinterpretView
from ..loops.layout import Layout
from ..loops.product import Product
from ..provenance import trail
from .kernel import Arg, Kernel
from .names import user_lines
from .writer import Writer

PRELUDE = """\
// Products of matrices: vectors, turning, the register tile, and the two ways through the operands.
typedef __SIZE_TYPE__ size_t;
extern "C" void* aligned_alloc(size_t, size_t) noexcept;
extern "C" void free(void*) noexcept;
extern "C" int omp_get_thread_num(void) noexcept;
extern "C" int omp_get_num_threads(void) noexcept;
#if defined(__AVX512F__)
enum { LANES = 16, TALL = 12 };
#elif defined(__AVX__)
enum { LANES = 8, TALL = 6 };
#else
enum { LANES = 4, TALL = 6 };
#endif
enum { WIDE = 2 * LANES, DEEP = 384, CHUNK = 64, BAND = 4 * TALL, PANELS = 8, LINE = 64 };
typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
static inline vec vec_load(const float* p) { return *(const vec*)p; }
static inline void vec_store(float* p, vec v) { *(vec*)p = v; }
static inline vec vec_get(const float* p, int64_t n) {  // the first n lanes
  if (n == LANES) return vec_load(p);
  vec v = {};
  for (int64_t i = 0; i < n; i++) v[i] = p[i];
  return v;
}
static inline void vec_put(float* p, vec v, int64_t n) {
  if (n == LANES) return vec_store(p, v);
  for (int64_t i = 0; i < n; i++) p[i] = v[i];
}
#if defined(__clang__)
static inline void vec_turn(vec* r) {
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < i; j++) { float a = r[i][j]; r[i][j] = r[j][i]; r[j][i] = a; }
}
#else
typedef int32_t vec_mask __attribute__((vector_size(LANES * 4)));
template <int S> static inline __attribute__((always_inline)) void vec_exchange(vec* r) {  // rows i and i + S swap half of each 2 S columns
  vec_mask low, high;
  for (int i = 0; i < LANES; i++) low[i] = i & S ? LANES + i - S : i, high[i] = i & S ? LANES + i : i + S;
  #pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    if (!(i & S)) {
      const vec a = r[i], b = r[i + S];
      r[i] = __builtin_shuffle(a, b, low), r[i + S] = __builtin_shuffle(a, b, high);
    }
}
static inline __attribute__((always_inline)) void vec_turn(vec* r) {
  vec_exchange<1>(r), vec_exchange<2>(r);
  if (LANES > 4) vec_exchange<4 % LANES>(r);
  if (LANES > 8) vec_exchange<8 % LANES>(r);
}
#endif
struct Ahead {  // rows of memory that will be needed, fetched `each` lines a step
  const char* from;
  int64_t stride, bytes, rows, each, row, place;
  inline void step() {
    for (int64_t n = 0; n < each && row < rows; n++) {
      __builtin_prefetch(from + row * stride + place, 0, 2);
      if ((place += LINE) >= bytes) place = 0, row++;
    }
  }
};
#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif
// tile[r][0, V LANES) = or += sum over k of a[r rs + k] panel[k]
template <int R, int V> static inline __attribute__((always_inline)) void product_rows(
    const float* __restrict a, int64_t rs, const float* __restrict panel, int64_t K, float* __restrict tile, bool more, Ahead* ahead) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
  vec x[R][V];
  #pragma GCC unroll 16
  for (int r = 0; r < R; r++)
    #pragma GCC unroll 2
    for (int v = 0; v < V; v++) x[r][v] = vec{};
  for (int64_t from = 0; from < K; from += CHUNK) {
    const int64_t to = from + CHUNK < K ? from + CHUNK : K;
    ahead->step();
    for (int64_t k = from; k < to; k++) {
      vec p[V];
      #pragma GCC unroll 2
      for (int v = 0; v < V; v++) p[v] = vec_load(panel + k * WIDE + v * LANES);
      #pragma GCC unroll 16
      for (int r = 0; r < R; r++) {
        const vec c = a[r * rs + k] - vec{};
        #pragma GCC unroll 2
        for (int v = 0; v < V; v++) x[r][v] += c * p[v];
      }
    }
  }
  #pragma GCC unroll 16
  for (int r = 0; r < R; r++)
    #pragma GCC unroll 2
    for (int v = 0; v < V; v++) {
      float* place = tile + r * WIDE + v * LANES;
      vec_store(place, more ? x[r][v] + vec_load(place) : x[r][v]);
    }
}
template <int V> static __attribute__((noinline)) void product_band(
    const float* a, int64_t rs, int64_t rows, const float* panel, int64_t K, float* tile, bool more, Ahead* ahead) {
  int64_t r = 0;
  for (; r + TALL <= rows; r += TALL) product_rows<TALL, V>(a + r * rs, rs, panel, K, tile + r * WIDE, more, ahead);
  for (; r + 4 <= rows; r += 4) product_rows<4, V>(a + r * rs, rs, panel, K, tile + r * WIDE, more, ahead);
  for (; r < rows; r++) product_rows<1, V>(a + r * rs, rs, panel, K, tile + r * WIDE, more, ahead);
}
#if !defined(__clang__)
#pragma GCC pop_options
#endif
// panel[k][j] = b[j cs + k ks] for up to WIDE columns, zeros past the last
static __attribute__((noinline)) void product_pack(const float* b, int64_t cs, int64_t ks, int64_t columns, int64_t K, float* panel) {
  int64_t k = 0;
  if (columns >= WIDE && ks == 1)
    for (; k + LANES <= K; k += LANES)
      for (int h = 0; h < WIDE; h += LANES) {
        vec r[LANES];
        #pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) r[i] = vec_load(b + (h + i) * cs + k);
        vec_turn(r);
        #pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) vec_store(panel + (k + i) * WIDE + h, r[i]);
      }
  if (columns >= WIDE && cs == 1)
    for (; k < K; k++)
      for (int h = 0; h < WIDE; h += LANES) vec_store(panel + k * WIDE + h, vec_load(b + k * ks + h));
  for (; k < K; k++)
    for (int64_t j = 0; j < WIDE; j++) panel[k * WIDE + j] = j < columns ? b[j * cs + k * ks] : 0.0f;
}
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
// out[i or, if TURNED, j][...] = tile + bias: vectors go along the columns of out, which are the tile's rows if it is TURNED
template <bool TURNED> static void product_finish(const float* tile, int64_t rows, int64_t columns, float* out, int64_t stride, const float* bias) {
  if (!TURNED) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j += LANES) {
        const int64_t lanes = least(columns - j, LANES);
        const vec v = vec_load(tile + i * WIDE + j);
        vec_put(out + i * stride + j, bias ? v + vec_get(bias + j, lanes) : v, lanes);
      }
    return;
  }
  for (int64_t i = 0; i < rows; i += LANES) {
    const int64_t lanes = least(rows - i, LANES);
    const vec b = bias ? vec_get(bias + i, lanes) : vec{};
    for (int64_t j = 0; j < columns; j += LANES) {
      vec r[LANES];
      #pragma GCC unroll 16
      for (int n = 0; n < LANES; n++) r[n] = vec_load(tile + (i + n) * WIDE + j);
      vec_turn(r);
      const int64_t most = least(columns - j, LANES);
      #pragma GCC unroll 16
      for (int n = 0; n < LANES; n++)
        if (n < most) vec_put(out + (j + n) * stride + i, bias ? r[n] + b : r[n], lanes);
    }
  }
}
// Rows of a, once and as they lie, times columns of b, all of them in panels; out is [B, A] if TURNED, else [A, B].
template <bool TURNED> static const char* product_rows_once(
    const float* a, int64_t rs, int64_t A, const float* b, int64_t cs, int64_t ks, int64_t B, int64_t K, const float* bias, float* out) {
  const int64_t panels = (B + WIDE - 1) / WIDE;
  float* space = (float*)aligned_alloc(LINE, panels * WIDE * K * sizeof(float));
  if (!space) return "out of memory";
  #pragma omp parallel
  {
    #pragma omp for schedule(static)
    for (int64_t p = 0; p < panels; p++) product_pack(b + p * WIDE * cs, cs, ks, B - p * WIDE, K, space + p * WIDE * K);
    alignas(LINE) float tile[PANELS][(BAND + LANES) * WIDE];
    const int64_t threads = omp_get_num_threads(), bands = (A + BAND - 1) / BAND, each = (bands + threads - 1) / threads;
    const int64_t unit = each * threads * BAND * 16 > A * 17 ? TALL : BAND;  // whole bands keep vectors of `out` aligned, if that is fair
    const int64_t units = (A + unit - 1) / unit;
    #pragma omp for schedule(static, 1)
    for (int64_t t = 0; t < threads; t++) {
      const int64_t end = least(A, units * (t + 1) / threads * unit);
      for (int64_t i = units * t / threads * unit; i < end; i += BAND) {
        const int64_t band = least(end - i, BAND);
        for (int64_t first = 0; first < panels; first += PANELS) {
          const int64_t last = least(first + PANELS, panels);
          Ahead ahead = {(const char*)(a + (i + band) * rs), rs * 4, K * 4, first ? 0 : least(end - i - band, BAND), TALL * CHUNK * 4 / LINE / (last - first) + 1, 0, 0};
          for (int64_t k = 0; k < K; k += DEEP)
            for (int64_t p = first; p < last; p++)
              (B - p * WIDE <= LANES ? product_band<1> : product_band<2>)(a + i * rs + k, rs, band, space + p * WIDE * K + k * WIDE, least(K - k, DEEP), tile[p - first], k > 0, &ahead);
          for (int64_t p = first; p < last; p++) {
            const int64_t j = p * WIDE, width = least(B - j, WIDE);
            if (TURNED) product_finish<true>(tile[p - first], band, width, out + j * A + i, A, bias ? bias + i : bias);
            else product_finish<false>(tile[p - first], band, width, out + i * B + j, B, bias ? bias + j : bias);
          }
        }
      }
    }
  }
  free(space);
  return nullptr;
}
// More rows in x, as they lie: each thread copies a panel of w when it gets there. Few panels are shared by threads, each with a part of x.
static const char* product_many(
    const float* x, int64_t xs, int64_t M, const float* w, int64_t ws, int64_t N, int64_t K, const float* bias, float* out) {
  const int64_t panels = (N + WIDE - 1) / WIDE, tiles = (M + TALL - 1) / TALL, most = omp_get_max_threads();
  const int64_t parts = panels >= 8 * most ? 1 : least((8 * most + panels - 1) / panels, (tiles + 3) / 4);
  float* space = (float*)aligned_alloc(LINE, most * WIDE * K * sizeof(float));
  if (!space) return "out of memory";
  #pragma omp parallel
  {
    float* panel = space + omp_get_thread_num() * WIDE * K;
    alignas(LINE) float tile[(BAND + LANES) * WIDE];
    int64_t packed = -1;
    #pragma omp for schedule(static)
    for (int64_t n = 0; n < panels * parts; n++) {
      const int64_t j = n / parts * WIDE, part = n % parts, end = least(M, tiles * (part + 1) / parts * TALL);
      if (packed != j) product_pack(w + j * ws, ws, 1, N - j, K, panel);
      packed = j;
      Ahead ahead = {(const char*)(w + (j + WIDE) * ws), ws * 4, K * 4, part + 1 < parts || N - j - WIDE < 0 ? 0 : least(N - j - WIDE, WIDE), 2 * WIDE * TALL * CHUNK * 4 * parts / LINE / M + 1, 0, 0};
      for (int64_t i = tiles * part / parts * TALL; i < end; i += BAND) {
        const int64_t band = least(end - i, BAND);
        for (int64_t k = 0; k < K; k += DEEP)
          (N - j <= LANES ? product_band<1> : product_band<2>)(x + i * xs + k, xs, band, panel + k * WIDE, least(K - k, DEEP), tile, k > 0, &ahead);
        product_finish<false>(tile, band, least(N - j, WIDE), out + i * N + j, N, bias ? bias + j : bias);
      }
    }
  }
  free(space);
  return nullptr;
}
"""


CALLS = {
    "few": "product_rows_once<true>(in_w, w_stride, N, in_x, x_stride, 1, M, K, {bias}, out)",
    "many": "product_many(in_x, x_stride, M, in_w, w_stride, N, K, {bias}, out)",
    "left": "product_rows_once<false>(in_x, x_stride, M, in_w, 1, w_stride, N, K, {bias}, out)",
}


def write_product(extern: ExternKernel, number: int, text: Callable[[sympy.Expr], str]) -> Kernel:
    """The kernel of a Product. `text` is the wrapper's text of a size."""
    name = f"product_{number}"
    *bias, x, w = extern.args
    of_x, of_w = _layout(x), _layout(w)
    given = [("x", x), ("w", w), *(("bias", b) for b in bias)]
    tensors = [Arg(f"in_{n}", _buffer(v).name, "in", v.layout.dtype) for n, v in given]
    w_stride = of_w.stride[0] if extern.out.way == "left" else of_w.stride[1]
    sizes = {"M": of_x.size[0], "N": of_w.size[1], "K": of_x.size[1], "x_stride": of_x.stride[0], "w_stride": w_stride}
    signature = (*tensors, Arg("out", extern.name, "out", extern.layout.dtype), *(Arg(n, text(v), "size") for n, v in sizes.items()))
    return Kernel(name, "cpp", _source(extern, name, bool(bias)), signature, _origins(extern, name), launch={"product": True})


def _source(extern: ExternKernel, name: str, biased: bool) -> str:
    assert isinstance(extern.out, Product)
    out = Writer()
    right = "x w" if extern.out.way == "left" else "x wᵀ"
    out.line(f"// {name}: {right}" + (" + bias" if biased else ""))
    for line in user_lines(extern.origins):
        out.line(f"// {line}")
    with out.block(f'extern "C" const char* {name}(void* const* p, const int64_t* n)'):
        out.line(
            "const float *in_x = (const float*)p[0], *in_w = (const float*)p[1]" + (", *in_bias = (const float*)p[2];" if biased else ";")
        )
        out.line(f"float* out = (float*)p[{2 + biased}];")
        out.line("const int64_t M = n[0], N = n[1], K = n[2], x_stride = n[3], w_stride = n[4];")
        out.line(f"return {CALLS[extern.out.way].format(bias='in_bias' if biased else 'nullptr')};")
    return out.text() + "\n"


def _origins(extern: ExternKernel, name: str) -> frozenset[int]:
    return frozenset([trail.add("kernel", name, extern.origins)]) if extern.origins else frozenset()


def _buffer(memory: Buffer | ReinterpretView) -> Buffer:
    return memory.buffer if isinstance(memory, ReinterpretView) else memory


def _layout(memory: Buffer | ReinterpretView) -> Layout:
    return memory.layout


__all__ = ["PRELUDE", "write_product"]
