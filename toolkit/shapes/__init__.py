"""Dynamic shapes: the one place that touches torch's ShapeEnv. Symbols, hints, guards, bounds, text."""

from . import text
from .env import FakeMode, SizeOf, SymbolicEnv, at, fake_mode, scope
from .guards import ShapeGuard, deferred, expr, guards, hint, known, simplified, symbols, unite
from .inputs import another, fakify, size_symbol, storage_of
from .twins import like_autograd

__all__ = [
    "FakeMode",
    "ShapeGuard",
    "SizeOf",
    "SymbolicEnv",
    "another",
    "at",
    "deferred",
    "expr",
    "fake_mode",
    "fakify",
    "guards",
    "hint",
    "known",
    "like_autograd",
    "scope",
    "simplified",
    "size_symbol",
    "storage_of",
    "symbols",
    "text",
    "unite",
]
