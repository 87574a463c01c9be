"""Special functions in C++: ATen's own scalar functions, from its one header of them. They give eager's numbers to the last bit, in the
torch at hand; a kernel that uses none does not pay for the header (about a second of a build)."""

from __future__ import annotations

from pathlib import Path

import torch

from .cpp_prelude import C_TYPES
from .walk import UNARY, Written, joined

INCLUDE = "#include <ATen/native/Math.h>  // the special functions of eager"
FREXP = """\
#ifndef FREXP
#define FREXP
template <class T> static inline T frexp_mantissa(T x) { int e = 0; return std::frexp(x, &e); }
template <class T> static inline int32_t frexp_exponent(T x) { int e = 0; std::frexp(x, &e); return e; }
#endif"""

_FORWARD = """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 chebyshev_polynomial_t chebyshev_polynomial_u
chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
legendre_polynomial_p"""
FUNCTIONS: dict[str, str] = {  # name in the loop IR -> C++ function; {} is the type of its values
    **{f"special_{n}": f"{n}_forward<{{}}>" for n in _FORWARD.split()},
    "special_i0": "calc_i0<{}>", "special_i0e": "calc_i0e<{}>", "special_i1": "calc_i1<{}>", "special_i1e": "calc_i1e<{}>",
    "special_erfcx": "calc_erfcx<{}>", "special_ndtri": "calc_ndtri<{}>", "special_log_ndtr": "calc_log_ndtr<{}>",
    "special_zeta": "zeta<{}, false>", "special_digamma": "calc_digamma", "trigamma": "trigamma",
    "special_gammainc": "calc_igamma<{}>", "special_gammaincc": "calc_igammac<{}>", "gcd": "calc_gcd<{}>",
    "frexp_mantissa": "frexp_mantissa<{}>", "frexp_exponent": "frexp_exponent<{}>",
}  # fmt: skip


def special(name: str, args: tuple[Written, ...]) -> Written:
    """A call of the function `name`."""
    kind = C_TYPES[args[0].dtype]
    result = torch.int32 if name == "frexp_exponent" else args[0].dtype
    text = f"{FUNCTIONS[name].format(kind)}({', '.join(a.text for a in args)})"
    return Written(text, result, UNARY, level=joined(*(a.level for a in args)))


def includes() -> str:
    """Where the header is."""
    return str(Path(torch.__file__).parent / "include")
