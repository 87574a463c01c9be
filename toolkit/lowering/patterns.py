"""Peephole rules over graphs, as rows. `TORCH_ROWS` see the captured torch-level graph (before autograd, so that they serve training too),
`ATEN_ROWS` the functional graph on its way into `lower`. A row is looked up by the target of its last node and may decline."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from .. import options, shapes
from ..events import Fused, emit
from . import attention, epilogues
from .rewriting import Node, does_nothing, is_tensor, made, only, value_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Row:
    """`rewrite(node)` gives the node that stands for `node` from now on, or None; `algebra` says why that is the same. Fused is emitted
    for rows that put an operation into a call of the library."""

    name: str
    roots: frozenset[Any]
    rewrite: Callable[[Node], Node | None]
    algebra: str
    fuses: bool = False  # `node` is a loop no more


def rewritten(gm: fx.GraphModule, rows: tuple[Row, ...]) -> fx.GraphModule:
    """`gm` after one pass of `rows`; itself if none applies, else a copy."""
    table: dict[Any, list[Row]] = {}
    for row in rows:
        for root in row.roots:
            table.setdefault(root, []).append(row)
    if not options.current().patterns or not any(n.target in table for n in gm.graph.nodes if n.op != "get_attr"):
        return gm
    graph = copied(gm.graph)
    # What has no user is there for what it does: nothing else tells that relu(x, inplace=True) does anything.
    effects = {n for n in graph.nodes if not n.users and not does_nothing(n)}
    changed = [_apply(node, table.get(node.target, [])) for node in list(graph.nodes) if node.op in ("call_function", "call_method")]
    if not any(changed):
        return gm
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output") and node not in effects:
            graph.erase_node(node)
    new = fx.GraphModule(gm, graph)
    new.meta.update(gm.meta)
    return new


def copied(graph: fx.Graph) -> fx.Graph:
    """The same nodes, with their metas."""
    new = fx.Graph()
    twins: dict[Node, Node] = {}
    for node in graph.nodes:
        twins[node] = new.node_copy(node, lambda n: twins[n])
    return new


def _apply(node: Node, rows: list[Row]) -> bool:
    for row in rows:
        with node.graph.inserting_before(node):
            found = row.rewrite(node)
        if found is not None:
            node.replace_all_uses_with(found)
            if row.fuses:
                emit(Fused(first=found.name, second=node.name, category=row.name, saved_bytes=2 * _bytes(node)))
            return True
    return False


def _bytes(node: Node) -> int:
    value = value_of(node)
    return value.numel() * value.itemsize if all(isinstance(n, int) for n in value.shape) else 0


TORCH_ROWS = (
    Row(
        "attention",
        attention.ROOTS,
        attention.attention,
        "softmax(s q kᵀ + m) v is what scaled_dot_product_attention computes, without keeping the weights",
    ),
)


# -- frozen weights ---------------------------------------------------------------------------------------------------

CONVOLVE = frozenset({torch.conv1d, F.conv1d, torch.conv2d, F.conv2d, torch.conv3d, F.conv3d})
NORM = ("x", "mean", "variance", "weight", "bias", "training", "momentum", "eps")


def _folded_norm(node: Node) -> Node | None:
    """batch_norm(conv(x, w, b)) with running statistics"""
    norm = dict(zip(NORM, node.args, strict=False)) | {
        {"running_mean": "mean", "running_var": "variance"}.get(k, k): v for k, v in node.kwargs.items()
    }
    convolved, mean, variance = norm.get("x", norm.get("input")), norm.get("mean"), norm.get("variance")
    if norm.get("training", False) is not False or not (only(convolved) and convolved.target in CONVOLVE and not convolved.kwargs):  # type: ignore[union-attr]
        return None
    x, w, b, *rest = (*convolved.args, None)[: max(3, len(convolved.args))]  # type: ignore[union-attr]
    held = [v for v in (w, b, mean, variance, norm.get("weight"), norm.get("bias")) if v is not None]
    if not all(isinstance(v, Node) and v.meta.get("weight") and value_of(v).dtype is value_of(w).dtype for v in held) or None in (
        mean,
        variance,
    ):
        return None

    def of(like: Any, target: Any, *args: Any) -> Node:
        new = made(node, target, args, {}, [])
        new.meta.update(example_value=value_of(like), weight=True)
        return new

    scale = of(variance, torch.rsqrt, of(variance, operator.add, variance, norm.get("eps", 1e-5)))
    scale = of(variance, operator.mul, scale, norm["weight"]) if norm.get("weight") is not None else scale
    shift = of(mean, operator.neg, mean) if b is None else of(mean, operator.sub, b, mean)
    shift = of(mean, operator.mul, shift, scale)
    shift = of(mean, operator.add, shift, norm["bias"]) if norm.get("bias") is not None else shift
    column = of(w, torch.reshape, scale, (-1, *[1] * (value_of(w).dim() - 1)))
    return made(node, convolved.target, (x, of(w, operator.mul, w, column), shift, *rest), {}, [convolved])  # type: ignore[union-attr, list-item]


FREEZING_ROWS = (
    Row(
        "batch norm of a convolution",
        frozenset({F.batch_norm, torch.batch_norm}),
        _folded_norm,
        "s (w x + b - m) + c is (s w) x + (s (b - m) + c)",
    ),
)


def torch_rows() -> tuple[Row, ...]:
    """Those for the options and the grad mode in force: weights are kept from call to call in inference only."""
    return (*TORCH_ROWS, *FREEZING_ROWS) if options.current().freezing and not torch.is_grad_enabled() else TORCH_ROWS


# -- functional ATen --------------------------------------------------------------------------------------------------


def _addmm(node: Node) -> Node | None:
    """add(mm(a, b), bias) with a bias that broadcasts over rows"""
    if node.kwargs or len(node.args) != 2:
        return None
    for product, bias in (node.args, node.args[::-1]):
        if only(product) and product.target is aten.mm.default and _fits_as_bias(product, bias):  # type: ignore[union-attr]
            return made(node, aten.addmm.default, (bias, *product.args), {}, [product])  # type: ignore[union-attr, list-item]
        if only(product) and product.target is aten.view.default and only(product.args[0]):  # type: ignore[union-attr]
            return _addmm_under_view(node, product, bias)  # type: ignore[arg-type]
    return None


def _addmm_under_view(node: Node, view: Node, bias: Any) -> Node | None:
    """add(view(mm(a, b)), bias), the view splitting rows: the bias is added to the product's rows"""
    product = view.args[0]
    if not isinstance(product, Node) or product.target is not aten.mm.default or not is_tensor(bias, 1):
        return None
    if value_of(view).shape[-1] != value_of(product).shape[1] or not _fits_as_bias(product, bias):
        return None
    inner = made(product, aten.addmm.default, (bias, *product.args), {}, [product, node])
    return made(node, aten.view.default, (inner, view.args[1]), {}, [view])


def _fits_as_bias(product: Node, bias: Any) -> bool:
    if not is_tensor(bias):
        return False
    value, rows = value_of(bias), value_of(product)
    if value.dtype != rows.dtype or not value.dtype.is_floating_point or value.device != rows.device:
        return False
    sizes, columns = tuple(map(shapes.expr, value.shape)), shapes.expr(rows.shape[1])  # comparing symbolic sizes would fix them
    return sizes in ((columns,), (1, columns))


def _cast_of_cast(node: Node) -> Node | None:
    """_to_copy(_to_copy(x, wider), dtype of x)"""
    inner = node.args[0]
    if not (isinstance(inner, Node) and inner.target is aten._to_copy.default and _plain_cast(node) and _plain_cast(inner)):
        return None
    source = inner.args[0]
    if not (is_tensor(source) and value_of(source).dtype == value_of(node).dtype) or not _wider(
        value_of(inner).dtype, value_of(source).dtype
    ):
        return None
    return made(node, aten.clone.default, (source,), {}, [inner]) if value_of(source).stride() == value_of(node).stride() else None


def _plain_cast(node: Node) -> bool:
    return set(node.kwargs) == {"dtype"} and len(node.args) == 1


def _wider(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Every value of `narrow` is one of `wide`."""
    floats = wide.is_floating_point and narrow.is_floating_point and 1 not in (wide.itemsize, narrow.itemsize)  # bytes promote to nothing
    return floats and torch.promote_types(wide, narrow) == wide


def _cat_of_neighbours(node: Node) -> Node | None:
    """cat([x[a:b], x[b:c]]) along the same dimension"""
    parts, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
    slices = [_slice(p) for p in parts] if isinstance(parts, (list, tuple)) else []  # type: ignore[union-attr]
    if len(slices) < 2 or any(s is None for s in slices):
        return None
    source, along, first, _ = slices[0]  # type: ignore[misc]
    rank = value_of(source).dim()
    if along % rank != dim % rank or any(s[0] is not source or s[1] % rank != dim % rank for s in slices):  # type: ignore[index]
        return None
    if any(a[3] != b[2] for a, b in itertools.pairwise(slices)):  # type: ignore[index]
        return None
    whole = made(node, aten.slice.Tensor, (source, along, first, slices[-1][3]), {}, [])  # type: ignore[index]
    whole.meta["val"] = value_of(source).narrow(along, first, slices[-1][3] - first)  # type: ignore[index]
    return made(node, aten.clone.default, (whole,), {"memory_format": torch.contiguous_format}, list(parts))  # type: ignore[arg-type]


def _slice(node: Any) -> tuple[Node, int, int, int] | None:
    """(source, dim, start, end) of a slice with plain bounds inside the source."""
    if not isinstance(node, Node) or node.target is not aten.slice.Tensor or len(node.args) != 4 or node.kwargs:
        return None
    source, dim, start, end = node.args
    size = value_of(source).shape[dim]
    if not all(isinstance(v, int) for v in (start, end, size)) or not 0 <= start < end:  # type: ignore[operator]
        return None
    return source, dim, start, min(end, size)  # type: ignore[return-value, type-var]


PUT = frozenset({aten._unsafe_index_put.default, aten.index_put.default})


def _put_onto(node: Node) -> Node | None:
    """add(x, index_put(zeros, where, values, accumulate=True)): the gradient of a table that is also a weight"""
    if node.kwargs or len(node.args) != 2:
        return None
    for x, put in (node.args, node.args[::-1]):
        if not (only(put) and put.target in PUT and len(put.args) == 4 and put.args[3] is True):  # type: ignore[union-attr]
            continue
        zeros, x_value, value = put.args[0], value_of(x), value_of(node)  # type: ignore[union-attr]
        nothing = only(zeros) and zeros.target is aten.full.default and zeros.args[1] == 0  # type: ignore[union-attr]
        if nothing and is_tensor(x) and _like(x_value, value) and _like(value_of(put), value) and only(x):
            return made(node, put.target, (x, *put.args[1:]), {}, [put])  # type: ignore[union-attr, list-item]
    return None


def _like(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same floats in the same places, all of it known."""
    sizes = [tuple(map(shapes.expr, (*v.shape, *v.stride()))) for v in (a, b)]
    return a.dtype == b.dtype and a.dtype.is_floating_point and a.device == b.device and sizes[0] == sizes[1]


ATEN_ROWS = (
    Row("activation of a product", frozenset(epilogues.ACTIVATIONS), epilogues.activation, "f(w x) is one call", True),
    Row("sum with a packed convolution", frozenset({aten.add.Tensor}), epilogues.residual, "w x + y is one call", True),
    Row("put onto a sum", frozenset({aten.add.Tensor}), _put_onto, "x + (0 + values at their places) is x + values at their places"),
    Row("addmm", frozenset({aten.add.Tensor}), _addmm, "a b + 1 cᵀ is one call of the library"),
    Row("cast of a cast", frozenset({aten._to_copy.default}), _cast_of_cast, "a wider dtype holds every value of the narrower"),
    Row("cat of neighbours", frozenset({aten.cat.default}), _cat_of_neighbours, "[a, b) and [b, c) are [a, c)"),
)
