"""A torch-level function through aot.compile (interpreting what it gives) beside eager: values, aliasing, mutation, gradients."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule
from torch.overrides import TorchFunctionMode

from fuselab.toolkit import aot, options, shapes


class Recording(TorchFunctionMode):
    """What capture does, in thirty lines and without Python control flow: every torch call that runs becomes a node."""

    def __init__(self):
        self.graph, self.nodes, self.holder = Graph(), {}, torch.nn.Module()

    def input(self, i, value):
        node = self.graph.placeholder(f"arg{i}")
        if isinstance(value, torch.Tensor):
            self.nodes[id(value)] = (value, node)

    def node_of(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in self.nodes:
                name = f"held_{len(self.nodes)}"
                setattr(self.holder, name, value)
                self.nodes[id(value)] = (value, self.graph.get_attr(name))
            return self.nodes[id(value)][1]
        if isinstance(value, list | tuple):
            return type(value)(map(self.node_of, value)) if type(value) in (list, tuple) else tuple(map(self.node_of, value))
        return {k: self.node_of(v) for k, v in value.items()} if isinstance(value, dict) else value

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("__get__", "size", "stride", "dim", "numel", "is_floating_point", "storage_offset") and not isinstance(
            result, torch.Tensor
        ):
            return result
        if func is torch.Tensor.register_hook:
            return result
        node = self.graph.call_function(func, self.node_of(args), self.node_of(kwargs or {}))
        self.track(result, node)
        return result

    def track(self, result, node):
        if isinstance(result, torch.Tensor):
            self.nodes[id(result)] = (result, node)
        elif isinstance(result, list | tuple):
            for i, item in enumerate(result):
                if isinstance(item, torch.Tensor):
                    self.track(item, self.graph.call_function(operator.getitem, (node, i)))


def recorded(fn, args) -> GraphModule:
    """`fn` as a torch-level graph, recorded while it runs on `args` (whose sizes are numbers in it)."""
    mode = Recording()
    for i, a in enumerate(args):
        mode.input(i, a)
    grad = torch.is_grad_enabled()
    with mode:
        result = fn(*args)
    torch._C._set_grad_enabled(grad)
    mode.graph.output((mode.node_of(tuple(leaves(result))),))
    return GraphModule(mode.holder, mode.graph)


def graph_of(fn) -> GraphModule:
    return fn if isinstance(fn, GraphModule) else torch.fx.symbolic_trace(fn)


def compiled(fn, args, dynamic=None, compile_graph=aot.interpret):
    """`fn` traced on twins of `args`; `dynamic`: {argument: (dims,)}. Gives (callable, fake mode)."""
    mode = shapes.fake_mode()
    examples = [
        shapes.fakify(mode, a, f"arg{i}", dict.fromkeys((dynamic or {}).get(i, ()), "dynamic"))
        if isinstance(a, torch.Tensor)
        else shapes.size_symbol(mode, a, f"arg{i}")
        if i in (dynamic or {})
        else a
        for i, a in enumerate(args)
    ]
    with options.using(verify=True):
        return aot.compile(graph_of(fn), examples, compile_graph), mode


def leaves(value):
    return torch.utils._pytree.tree_leaves(value, is_leaf=lambda v: v is None)


def memory(tensors):
    """Which tensors share memory: a number for each, equal where they do."""
    seen: dict[int, int] = {}
    return [seen.setdefault(t.untyped_storage()._cdata, len(seen)) if isinstance(t, torch.Tensor) else None for t in tensors]


def facts(inputs, outputs):
    """What a caller can see of the outputs besides their values."""
    found = []
    for o in outputs:
        if not isinstance(o, torch.Tensor):
            found.append(o)
            continue
        same = next((i for i, x in enumerate(inputs) if x is o), None)
        base = next((i for i, x in enumerate(inputs) if o._base is not None and o._base is x), None)
        found.append((tuple(o.shape), o.stride(), o.dtype, o.requires_grad, o.is_leaf, same, base))
    return found


def loss_of(outputs):
    torch_state = torch.get_rng_state()
    total = 0
    for k, o in enumerate(outputs):
        if isinstance(o, torch.Tensor) and o.requires_grad and (o.dtype.is_floating_point or o.dtype.is_complex):
            weight = torch.linspace(0.5, 1.5 + k, max(o.numel(), 1))[: o.numel()].reshape(o.shape).to(o.dtype)
            total = total + (o * weight).abs().sum() if o.dtype.is_complex else total + (o * weight).sum()
    torch.set_rng_state(torch_state)
    return total


def agree(fn, make, *, tol=1e-5, dynamic=None, calls=2, backward=True, again=None, record=True):
    """`fn` behaves the same compiled and in eager on `make()`, `calls` times (and on `again()` once), in the grad mode that is set."""
    gm = recorded(fn, make()) if record else graph_of(fn)
    call, mode = compiled(gm, make(), dynamic)
    for arguments in [make] * calls + ([again] if again else []):
        compare(fn, call, arguments, tol, backward)
    return call, mode


def compare(fn, call, make, tol, backward):
    want_in, have_in = make(), make()
    want_leaves, have_leaves = roots(want_in), roots(have_in)
    torch.manual_seed(7)
    want = leaves(fn(*want_in))
    torch.manual_seed(7)
    have = call(*have_in)
    assert len(want) == len(have)
    same(facts(have_in, have), facts(want_in, want))
    same(memory([*have_in, *have]), memory([*want_in, *want]))
    close(have, want, tol)
    close(have_in, want_in, tol)
    assert [x.requires_grad for x in have_in if isinstance(x, torch.Tensor)] == [
        x.requires_grad for x in want_in if isinstance(x, torch.Tensor)
    ]
    if not backward:
        return
    want_loss, have_loss = loss_of([*want, *want_in]), loss_of([*have, *have_in])
    if isinstance(want_loss, torch.Tensor) and want_loss.requires_grad:
        want_loss.backward()
        have_loss.backward()
        close([x.grad for x in have_leaves], [x.grad for x in want_leaves], tol)


def same(have, want):
    assert have == want, f"{have}\n{want}"


def roots(inputs):
    """The leaves that gradients arrive at: of an input that is no leaf, what it was made of."""
    return [getattr(x, "_made_of", x) for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]


def grown(x: torch.Tensor) -> torch.Tensor:
    """`x`, a leaf, as an input that has a history."""
    y = x * 1
    y._made_of = x
    return y


def close(have, want, tol):
    for h, w in zip(have, want, strict=True):
        if isinstance(w, torch.Tensor):
            torch.testing.assert_close(h, w, rtol=tol, atol=tol, equal_nan=True, check_stride=False)
        else:
            assert h == w and type(h) is type(w)
