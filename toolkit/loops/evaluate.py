"""The slow reference: any loop, computed by torch operations vectorised over its iteration space; and a whole lowered graph.

Used to check kernels without generated code. Index variables are integer tensors shaped to broadcast over (ranges, reduction ranges).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from .._torch import FloorDiv, Max, Min, Mod, ModularIndexing, PythonMod
from .index import Expr, symbol
from .ir import Buffer, ComputedBuffer, ConstantBuffer, ExternKernel, InputBuffer, LoweredGraph, MultiOutput, ReinterpretView
from .layout import Layout
from .ops import OUT_OF_BOUNDS, Check, ReductionKind, StoreMode, handling, out_of_bounds

LOW_PRECISION = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
Numbers = Mapping[sympy.Symbol, Any]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype a value of `dtype` has inside a body."""
    return torch.float32 if dtype in LOW_PRECISION else dtype


def number(expr: Any, values: Numbers) -> Any:
    """An index expression's value; variables are ints or integer tensors."""
    if isinstance(expr, (int, float, bool)):
        return expr
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Symbol):
        return values[expr]
    args = [number(a, values) for a in expr.args]
    for kind, rule in _RULES:
        if isinstance(expr, kind):
            return rule(*args)
    return float(expr) if not args else _by_name(expr, args)


def _floordiv(a: Any, b: Any) -> Any:
    return a // b


def _modular(x: Any, d: Any, m: Any) -> Any:
    return (x // d) % m


def _extreme(pick: Callable[..., Any], tensors: Callable[..., Any]) -> Callable[..., Any]:
    def of(*args: Any) -> Any:
        if any(isinstance(a, torch.Tensor) for a in args):
            return functools.reduce(tensors, [torch.as_tensor(a) for a in args])
        return pick(args)

    return of


_RULES: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (sympy.Add, lambda *a: functools.reduce(lambda x, y: x + y, a)),
    (sympy.Mul, lambda *a: functools.reduce(lambda x, y: x * y, a)),
    (sympy.Pow, lambda a, b: a**b),
    (FloorDiv, _floordiv),
    (ModularIndexing, _modular),
    (Mod, lambda a, b: a % b),
    (PythonMod, lambda a, b: a % b),
    ((sympy.Max, Max), _extreme(max, torch.maximum)),
    ((sympy.Min, Min), _extreme(min, torch.minimum)),
)


def _by_name(expr: Any, args: list[Any]) -> Any:
    """Other functions of torch's size expressions know how to compute themselves on numbers."""
    return int(expr.func(*[sympy.sympify(a) for a in args]))


def _binary(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: fn(*args)


def _fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Rounded once: a product of two floats is exact in double."""
    return (a.double() * b + c).to(a.dtype) if a.dtype is torch.float32 else a * b + c


_TORCH: dict[str, Callable[..., Any]] = {
    "where": torch.where, "add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.true_divide,
    "floordiv": torch.floor_divide,
    "truncdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "remainder": torch.remainder, "fmod": torch.fmod, "neg": torch.neg,
    "abs": torch.abs, "sign": torch.sign, "reciprocal": torch.reciprocal, "square": torch.square, "fma": _fma,
    "maximum": torch.maximum, "minimum": torch.minimum, "pow": torch.pow, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp,
    "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p,
    "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "atan2": torch.atan2,
    "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "sigmoid": torch.sigmoid,
    "erf": torch.erf, "erfc": torch.erfc, "erfinv": torch.erfinv, "lgamma": torch.lgamma, "hypot": torch.hypot, "copysign": torch.copysign,
    "nextafter": torch.nextafter, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round, "eq": torch.eq,
    "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "isnan": torch.isnan, "isinf": torch.isinf,
    "signbit": torch.signbit, "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_not": torch.logical_not,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor, "bitwise_not": torch.bitwise_not,
    "lshift": torch.bitwise_left_shift, "rshift": torch.bitwise_right_shift,
}  # fmt: skip


class Evaluate:
    """`memory[name]` is a one-dimensional tensor over the buffer's storage. Values are tensors that broadcast over the iteration space."""

    def __init__(
        self,
        memory: dict[str, torch.Tensor],
        sizes: Sequence[int],
        reduction_rank: int,
        values: dict[sympy.Symbol, Any],
        device: torch.device,
    ):
        self.memory, self.sizes, self.reduction_rank, self.values, self.device = memory, list(sizes), reduction_rank, values, device
        self.masks: list[torch.Tensor] = []
        self._loaded = 0

    # -- memory and indices
    def _positions(self, index: Expr) -> torch.Tensor:
        return torch.as_tensor(number(index, self.values), device=self.device)

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(value, dtype=compute_dtype(dtype), device=self.device)

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> torch.Tensor:
        return torch.as_tensor(number(expr, self.values), device=self.device).to(compute_dtype(dtype))

    def load(self, name: str, index: Expr) -> torch.Tensor:
        source, at = self.memory[name], self._positions(index)
        if self.masks:
            mask = functools.reduce(torch.logical_and, self.masks)
            at = torch.where(mask, at, 0)
            if source.numel() == 0:
                return torch.zeros(at.shape, dtype=compute_dtype(source.dtype), device=self.device)
        return source[at].to(compute_dtype(source.dtype))

    def store(self, name: str, index: Expr, value: torch.Tensor, mode: StoreMode = None) -> None:
        target = self.memory[name]
        at = self._positions(index)
        shape = torch.broadcast_shapes(at.shape, value.shape, tuple(self.sizes))
        at, value = at.expand(shape).reshape(-1), value.to(target.dtype).expand(shape).reshape(-1)
        if mode in _COMBINED:
            target.scatter_reduce_(0, at, value, _COMBINED[mode])
        else:
            target.index_put_((at,), value, accumulate=mode == "atomic_add")

    def store_reduction(self, name: str, index: Expr, value: torch.Tensor) -> None:
        target = self.memory[name]
        at = self._positions(index)
        shape = tuple(self.sizes[: len(self.sizes) - self.reduction_rank]) + (1,) * self.reduction_rank
        target[at.expand(shape)] = value.to(target.dtype).expand(shape)

    def indirect_indexing(self, value: torch.Tensor, size: Expr, check: Check = True) -> sympy.Symbol:
        n = number(size, self.values)
        wrapped = (value if isinstance(check, str) else torch.where(value < 0, value + n, value)).to(torch.int64)
        if check and not self.masks and bool(((wrapped < 0) | (wrapped >= n)).any()):
            raise out_of_bounds(OUT_OF_BOUNDS[check])(f"{OUT_OF_BOUNDS[check]}: size {n}")
        self._loaded += 1
        loaded = symbol(f"loaded{self._loaded}")
        self.values[loaded] = wrapped
        return loaded

    def masked(self, mask: torch.Tensor, body: Callable[[], torch.Tensor], other: float | int | bool) -> torch.Tensor:
        self.masks.append(mask)
        value = body()
        self.masks.pop()
        return torch.where(mask, value, torch.tensor(other, dtype=value.dtype, device=self.device))

    def device_assert(self, condition: torch.Tensor, message: str) -> None:
        if not bool(condition.all()):
            raise RuntimeError(message)

    # -- reductions
    def _rows(self, value: torch.Tensor) -> torch.Tensor:
        """(*ranges, everything reduced)."""
        split = len(self.sizes) - self.reduction_rank
        return value.expand(self.sizes).reshape(*self.sizes[:split], -1) if 0 not in self.sizes else value.expand(self.sizes).flatten(split)

    def _column(self, value: torch.Tensor) -> torch.Tensor:
        return value.reshape(*value.shape, *[1] * self.reduction_rank)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: ReductionKind, value: torch.Tensor) -> Any:
        rows = self._rows(value)
        if kind == "welford":
            count = torch.tensor(float(rows.shape[-1]), dtype=rows.dtype, device=self.device)
            mean = rows.mean(-1)
            return tuple(map(self._column, (mean, ((rows - mean.unsqueeze(-1)) ** 2).sum(-1), count.expand(mean.shape))))
        return self._column(_REDUCTIONS[kind](rows)).to(compute_dtype(dtype))

    def scan(self, dtype: torch.dtype, kind: str, value: torch.Tensor) -> torch.Tensor:
        given = value.expand(self.sizes)
        return _SCANS[kind](given if kind.startswith("arg") else given.to(compute_dtype(dtype))).to(compute_dtype(dtype))

    def special(self, name: str, *args: torch.Tensor) -> torch.Tensor:
        if name in _SPECIAL:
            return _SPECIAL[name](*args)
        return getattr(torch.special, name.removeprefix("special_"))(*args)

    # -- dtypes
    def to_dtype(self, x: torch.Tensor, dtype: torch.dtype, src_dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype).to(compute_dtype(dtype))

    def bitcast(self, x: torch.Tensor, dtype: torch.dtype, src_dtype: torch.dtype) -> torch.Tensor:
        return x.to(src_dtype).view(dtype).to(compute_dtype(dtype))

    locals().update({name: _binary(fn) for name, fn in _TORCH.items()})


_REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: x.sum(-1), "prod": lambda x: x.prod(-1), "max": lambda x: x.amax(-1), "min": lambda x: x.amin(-1),
    "any": lambda x: x.any(-1), "all": lambda x: x.all(-1),
    "argmax": lambda x: x.to(torch.int32 if x.dtype is torch.bool else x.dtype).argmax(-1),
    "argmin": lambda x: x.to(torch.int32 if x.dtype is torch.bool else x.dtype).argmin(-1),
    "xor_sum": lambda x: functools.reduce(torch.bitwise_xor, x.unbind(-1)),
}  # fmt: skip
_SCANS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda x: x.cumsum(-1), "prod": lambda x: x.cumprod(-1), "max": lambda x: x.cummax(-1).values,
    "min": lambda x: x.cummin(-1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(-1), "argmax": lambda x: x.cummax(-1).indices, "argmin": lambda x: x.cummin(-1).indices,
}  # fmt: skip


_COMBINED = {"atomic_mul": "prod", "atomic_max": "amax", "atomic_min": "amin"}
_SPECIAL: dict[str, Callable[..., torch.Tensor]] = {  # what is no function of torch.special
    "trigamma": lambda x: torch.special.polygamma(1, x), "gcd": torch.gcd, "frexp_mantissa": lambda x: torch.frexp(x)[0],
    "frexp_exponent": lambda x: torch.frexp(x)[1],
}  # fmt: skip


# -- buffers and graphs -----------------------------------------------------------------------------------------------


def evaluate(buffer: ComputedBuffer, memory: dict[str, torch.Tensor], values: Numbers, device: torch.device | None = None) -> None:
    """Compute `buffer` into `memory` (which holds what it reads, and itself); `values` gives the size symbols."""
    data = buffer.data
    device = device or data.device
    sizes = [int(number(s, values)) for s in (*data.ranges, *data.reduction_ranges)]
    if 0 in sizes[: len(data.ranges)]:
        return
    body = buffer.trace()
    known = dict(values)
    for d, (variable, size) in enumerate(zip((*body.index, *body.rindex), sizes, strict=True)):
        known[variable] = torch.arange(size, device=device).reshape([-1 if e == d else 1 for e in range(len(sizes))])
    with handling(Evaluate(memory, sizes, len(data.reduction_ranges), known, device)):  # type: ignore[arg-type]
        body.replay(body.index, body.rindex)


class Machine:
    """Runs a LoweredGraph: loops by `evaluate`, extern kernels by calling them. `run(inputs)` gives the outputs."""

    def __init__(self, graph: LoweredGraph) -> None:
        self.graph = graph
        self.memory: dict[str, torch.Tensor] = {}
        self.results: dict[str, Any] = {}
        self.values: dict[sympy.Symbol, Any] = {}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        given = dict(zip(self.graph.inputs, inputs, strict=True))
        for name, tensor in (*given.items(), *self.graph.constants.items()):
            if isinstance(tensor, torch.Tensor):
                self.memory[name] = flat(tensor)
        for name, variable in self.graph.scalars.items():
            self.values[variable] = given[name]
        for name, value in given.items():
            self._learn(name, value)
        for operation in self.graph.operations:
            self.step(operation)
        return [self.output(o) for o in self.graph.outputs]

    def _learn(self, name: str, value: Any) -> None:
        """The size symbols that are read off this input or result."""
        for variable, (source, dim) in self.graph.symbols.items():
            if source == name:
                self.values[variable] = value if dim is None else value.stride(dim[1]) if isinstance(dim, tuple) else value.shape[dim]

    def step(self, operation: Buffer) -> None:
        if isinstance(operation, ComputedBuffer):
            if operation.mutates is None:
                self.memory[operation.name] = self._allocate(operation.layout)
            evaluate(operation, self.memory, self.values)
        elif isinstance(operation, ExternKernel):
            self._call(operation)
        elif isinstance(operation, MultiOutput) and not operation.planned:
            result = self.results[operation.parent.name]
            for i in operation.path:
                result = result[i]
            self._keep(operation, result)

    def _allocate(self, layout: Layout) -> torch.Tensor:
        count = max(int(number(layout.extent(), self.values)), 0)
        size = [number(s, self.values) for s in layout.size]
        return torch.zeros(0 if 0 in size else count, dtype=layout.dtype, device=layout.device)

    def _call(self, kernel: ExternKernel) -> None:
        args, kwargs = self.argument(kernel.args), self.argument(kernel.kwargs)
        if kernel.out is not None:
            made = kernel.parts if kernel.several else [kernel]
            self.memory |= {b.name: self._allocate(b.layout) for b in made}
            places = {a: self.view(b.name, b.layout) for a, b in zip(kernel.into, made, strict=True)}
            kernel.out(*args, **kwargs, **places)
            return
        result = self.results[kernel.name] = kernel.target(*args, **kwargs)
        if not kernel.several:
            self._keep(kernel, result)

    def _keep(self, buffer: Buffer, result: Any) -> None:
        self._learn(buffer.name, result)
        if not isinstance(result, torch.Tensor):
            return
        layout = buffer.layout
        if result.stride() == tuple(number(s, self.values) for s in layout.stride):
            self.memory[buffer.name] = flat(result)
            return
        self.memory[buffer.name] = self._allocate(layout)
        self.view(buffer.name, layout).copy_(result)

    def view(self, name: str, layout: Layout) -> torch.Tensor:
        size, stride = ([int(number(v, self.values)) for v in values] for values in (layout.size, layout.stride))
        if 0 in size:
            return torch.empty_strided(size, stride, dtype=layout.dtype, device=layout.device)
        memory = self.memory[name]
        return torch.as_strided(memory, size, stride, int(number(layout.offset, self.values)) + memory.storage_offset())

    def argument(self, arg: Any) -> Any:
        if isinstance(arg, (Buffer, ReinterpretView)):
            return self.output(arg)
        if isinstance(arg, (list, tuple)):
            return type(arg)(self.argument(a) for a in arg)
        if isinstance(arg, dict):
            return {k: self.argument(a) for k, a in arg.items()}
        return number(arg, self.values) if isinstance(arg, sympy.Basic) else arg

    def output(self, out: Any) -> Any:
        if isinstance(out, (ComputedBuffer, ExternKernel, MultiOutput, InputBuffer, ConstantBuffer)):
            return self.view(out.name, out.layout)
        if isinstance(out, ReinterpretView):
            return self.view(out.buffer.name, out.layout)
        return number(out, self.values) if isinstance(out, sympy.Basic) else out


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of `tensor` from its first element on, as one dimension."""
    if tensor.numel() == 0:
        return tensor.new_empty(0)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return torch.as_strided(tensor, (extent,), (1,))


__all__ = ["Evaluate", "Machine", "compute_dtype", "evaluate", "flat", "number"]
