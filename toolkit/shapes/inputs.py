"""Real inputs in, fake inputs out: which sizes are numbers and which are symbols is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import sympy
import torch

from .._torch import DimDynamic, FakeTensor
from .direct import fake_of
from .env import FakeMode, Named, SizeOf, SymbolicEnv
from .twins import like_autograd, plain, static_meta, storage_key

Dynamic = Literal["static", "dynamic", "auto"]


def fakify(
    mode: FakeMode, tensor: torch.Tensor, source_text: str = "", dynamic: Mapping[int, Dynamic] | None = None, handle: Any = None
) -> FakeTensor:
    """A fake twin of `tensor`, never an inference tensor (versions tell the trace of changes): same sizes, strides, dtype, device,
    requires_grad, leaf or not; inputs that share memory have twins that do.

    `dynamic[dim]`: "static" (a number, the default), "dynamic" (a symbol of its own), "auto" (a symbol shared by sizes that are equal now).
    Sizes 0 and 1 are always numbers. Tensors that are not plain strided ones go through torch's converter, with static sizes."""
    if isinstance(tensor, FakeTensor):
        return tensor
    strided = plain(tensor)
    if not strided or not isinstance(mode, FakeMode):  # or somebody else's capture
        fake = mode.from_tensor(tensor, static_shapes=True, source=Named(source_text or "input"))
        if strided:
            fake._fuselab_storage = storage_key(tensor)
        return fake
    symbolic = {d: how for d, how in (dynamic or {}).items() if how != "static" and tensor.size(d) > 1}
    with torch.inference_mode(False), torch._C._DisableTorchDispatch():
        elem = static_meta(tensor, mode.shape_env.storages)
        if symbolic:
            elem = _symbolic_meta(mode, tensor, source_text, symbolic, handle)
        fake = fake_of(mode, elem, tensor.device)
    fake._fuselab_storage = storage_key(tensor)
    with torch.inference_mode(False):
        return like_autograd(fake, tensor)


def another(fake: FakeTensor) -> FakeTensor:
    """A fake in the same memory and without a history, as an input of a trace of its own."""
    with fake.fake_mode, torch.no_grad():
        made = fake.detach()
    made._fuselab_storage = storage_of(fake)
    return like_autograd(made, fake)


def storage_of(tensor: torch.Tensor) -> int:
    """A key that inputs which share memory have in common (the real storage's, for a fake made here)."""
    key = getattr(tensor, "_fuselab_storage", None)
    return key if key is not None else storage_key(tensor)


def size_symbol(mode: FakeMode, value: int, source_text: str, handle: Any = None) -> torch.SymInt | int:
    """A symbol for a plain integer input. 0 and 1 stay numbers."""
    if value in (0, 1):
        return value
    env = mode.shape_env
    symbol = env.create_symbol(value, Named(source_text), DimDynamic.DYNAMIC, None, positive=None, do_not_specialize_zero_one=True)
    env.bindings[symbol] = SizeOf(source_text, handle=handle)
    return env.create_symintnode(symbol, hint=value)


def _symbolic_meta(mode: FakeMode, tensor: torch.Tensor, source: str, dynamic: Mapping[int, Dynamic], handle: Any) -> torch.Tensor:
    env = mode.shape_env
    sizes = [
        _symbol(env, n, SizeOf(source, d, handle=handle), dynamic[d]) if d in dynamic else sympy.Integer(n)
        for d, n in enumerate(tensor.size())
    ]
    strides = _strides(env, tensor, sizes, source, handle)
    number = {**dict(zip(sizes, tensor.size(), strict=True)), **dict(zip(strides, tensor.stride(), strict=True))}
    ints = [env.create_symintnode(e, hint=number[e]) for e in (*sizes, *strides)]
    return torch.empty_strided(ints[: tensor.dim()], ints[tensor.dim() :], dtype=tensor.dtype, device="meta")


def _symbol(env: SymbolicEnv, value: int, of: SizeOf, how: Dynamic) -> sympy.Expr:
    if how == "auto" and value in env.by_hint:
        return _alias(env, env.by_hint[value], of)
    symbol = env.create_symbol(value, Named(str(of)), DimDynamic.DYNAMIC)
    if isinstance(symbol, sympy.Symbol):
        env.bindings[symbol] = of
        if how == "auto":
            env.by_hint[value] = symbol
    return symbol


def _alias(env: SymbolicEnv, number: sympy.Expr, of: SizeOf) -> sympy.Expr:
    """`of` is assumed to be `number` too: it gets a name of its own, for the guard that says so."""
    name = sympy.Symbol(f"{getattr(number, 'name', 'p')}_{len(env.same) + 1}", integer=True, positive=True)
    env.bindings[name] = of
    env.same.append((name, number))
    return number


def _strides(env: SymbolicEnv, tensor: torch.Tensor, sizes: list[sympy.Expr], source: str, handle: Any) -> list[sympy.Expr]:
    """Strides as products of sizes where they are (dimensions from the innermost outwards); else a number, or a symbol if it may vary."""
    result: list[sympy.Expr] = [sympy.Integer(s) for s in tensor.stride()]
    derived: dict[int, sympy.Expr] = {}
    for d in sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d)):
        value = tensor.stride(d)
        if value in derived and derived[value].is_number:
            result[d] = derived[value]
        elif value in derived:
            result[d] = _alias(env, derived[value], SizeOf(source, d, "stride", handle))
        elif value > 1:
            result[d] = _symbol(env, value, SizeOf(source, d, "stride", handle), "dynamic")
        derived[tensor.size(d) * value] = sizes[d] * result[d]
    return result
