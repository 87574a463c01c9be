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
from ..provenance import trail

aten = torch.ops.aten
Node = fx.Node


@dataclass(frozen=True)
class Row:
    """`rewrite(node)` gives the node that stands for `node` from now on, or None; `algebra` says why that is the same."""

    name: str
    roots: frozenset[Any]
    rewrite: Callable[[Node], Node | None]
    algebra: str


def rewritten(gm: fx.GraphModule, rows: tuple[Row, ...]) -> fx.GraphModule:
    """`gm` after one pass of `rows`; itself if none applies, else a copy."""
    table: dict[Any, list[Row]] = {}
    for row in rows:
        for root in row.roots:
            table.setdefault(root, []).append(row)
    if not options.current().patterns or not any(n.target in table for n in gm.graph.nodes if n.op != "get_attr"):
        return gm
    graph = copied(gm.graph)
    effects = {n for n in graph.nodes if not n.users}  # there for what they do: nothing else tells that relu(x, inplace=True) does anything
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
            return True
    return False


def _made(node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], parts: list[Node]) -> Node:
    """A call in the place of `node`, with its values and the origins of all `parts`."""
    new = node.graph.call_function(target, args, kwargs)
    new.meta.update(node.meta)
    origins = [p.meta["origin"] for p in (*parts, node) if p.meta.get("origin") is not None]
    if origins:
        stage = trail.records[origins[-1]].stage
        new.meta["origin"] = trail.add(stage, new.name, {p for o in origins for p in trail.records[o].parents})
    return new


def value_of(node: Any) -> Any:
    """The fake value of a node of either kind of graph."""
    return node.meta.get("val", node.meta.get("example_value")) if isinstance(node, Node) else None


def _is_tensor(node: Any, rank: int | None = None) -> bool:
    value = value_of(node)
    return isinstance(value, torch.Tensor) and (rank is None or value.dim() == rank)


def _only(node: Any) -> bool:
    """Nobody else wants this intermediate."""
    return isinstance(node, Node) and len(node.users) == 1


# -- attention by hand ------------------------------------------------------------------------------------------------

MATMUL = frozenset({torch.matmul, operator.matmul, torch.bmm, torch.Tensor.matmul, "matmul", "bmm"})
SOFTMAX = frozenset({torch.softmax, F.softmax, torch.Tensor.softmax, "softmax"})
DIVIDE = frozenset({operator.truediv, torch.div, torch.true_divide, "div"})
TIMES = frozenset({operator.mul, torch.mul, "mul"})
TRANSPOSE = frozenset({torch.transpose, torch.Tensor.transpose, "transpose"})


def _attention(node: Node) -> Node | None:
    """node = matmul(softmax(scale * q kᵀ, -1), v)"""
    if len(node.args) != 2 or node.kwargs or torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return None
    weights, v = node.args
    if not (_only(weights) and weights.target in SOFTMAX and _over_last(weights)):  # type: ignore[union-attr]
        return None
    scores, scale = _scaled(weights.args[0])  # type: ignore[union-attr]
    if scores is None or scores.target not in MATMUL or len(scores.args) != 2:
        return None
    q, k = scores.args[0], _transposed(scores.args[1])
    if not _is_plain_attention(q, k, v):
        return None
    return _made(node, F.scaled_dot_product_attention, (q, k, v), {"scale": scale}, [scores, weights])  # type: ignore[list-item]


def _over_last(node: Node) -> bool:
    dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return dim in (-1, 3) and node.kwargs.get("dtype") is None and len(node.args) <= 2


def _scaled(node: Any) -> tuple[Node | None, float]:
    """(product, scale) of `product * scale` or `product / constant`."""
    if not _only(node):
        return None, 1.0
    if node.target in DIVIDE | TIMES and len(node.args) == 2 and not node.kwargs:
        product, number = node.args
        if node.target in TIMES and isinstance(product, (int, float)):
            product, number = number, product
        if not isinstance(number, (int, float)) or not _only(product) or number == 0:
            return None, 1.0
        return product, (1 / number if node.target in DIVIDE else float(number))
    return node, 1.0


def _transposed(node: Any) -> Node | None:
    """k of kᵀ over the last two dimensions."""
    if not isinstance(node, Node) or node.kwargs:
        return None
    if node.target in TRANSPOSE and len(node.args) == 3 and {d % 4 if isinstance(d, int) else None for d in node.args[1:]} == {2, 3}:
        return node.args[0]  # type: ignore[return-value]
    if node.target in ("permute", torch.permute) and list(node.args[1:]) in ([0, 1, 3, 2], [(0, 1, 3, 2)], [[0, 1, 3, 2]]):
        return node.args[0]  # type: ignore[return-value]
    return None


def _is_plain_attention(q: Any, k: Any, v: Any) -> bool:
    """(batch, heads, length, width) of one float dtype, without broadcasting; SDPA has other rules for the rest."""
    if not all(_is_tensor(t, 4) for t in (q, k, v)):
        return False
    a, b, c = value_of(q), value_of(k), value_of(v)
    same = a.dtype == b.dtype == c.dtype and a.dtype in (torch.float32, torch.bfloat16, torch.float16) and a.device == b.device == c.device
    return same and tuple(a.shape[:2]) == tuple(b.shape[:2]) == tuple(c.shape[:2]) and a.shape[3] == b.shape[3] and b.shape[2] == c.shape[2]


TORCH_ROWS = (
    Row("attention", MATMUL, _attention, "softmax(s q kᵀ) v is what scaled_dot_product_attention computes, without keeping the weights"),
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
    if norm.get("training", False) is not False or not (_only(convolved) and convolved.target in CONVOLVE and not convolved.kwargs):  # type: ignore[union-attr]
        return None
    x, w, b, *rest = (*convolved.args, None)[: max(3, len(convolved.args))]  # type: ignore[union-attr]
    held = [v for v in (w, b, mean, variance, norm.get("weight"), norm.get("bias")) if v is not None]
    if not all(isinstance(v, Node) and v.meta.get("weight") and value_of(v).dtype is value_of(w).dtype for v in held) or None in (
        mean,
        variance,
    ):
        return None

    def of(like: Any, target: Any, *args: Any) -> Node:
        new = _made(node, target, args, {}, [])
        new.meta.update(example_value=value_of(like), weight=True)
        return new

    scale = of(variance, torch.rsqrt, of(variance, operator.add, variance, norm.get("eps", 1e-5)))
    scale = of(variance, operator.mul, scale, norm["weight"]) if norm.get("weight") is not None else scale
    shift = of(mean, operator.neg, mean) if b is None else of(mean, operator.sub, b, mean)
    shift = of(mean, operator.mul, shift, scale)
    shift = of(mean, operator.add, shift, norm["bias"]) if norm.get("bias") is not None else shift
    column = of(w, torch.reshape, scale, (-1, *[1] * (value_of(w).dim() - 1)))
    return _made(node, convolved.target, (x, of(w, operator.mul, w, column), shift, *rest), {}, [convolved])  # type: ignore[union-attr, list-item]


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
        if _only(product) and product.target is aten.mm.default and _fits_as_bias(product, bias):  # type: ignore[union-attr]
            return _made(node, aten.addmm.default, (bias, *product.args), {}, [product])  # type: ignore[union-attr, list-item]
    return None


def _fits_as_bias(product: Node, bias: Any) -> bool:
    if not _is_tensor(bias):
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
    if not (_is_tensor(source) and value_of(source).dtype == value_of(node).dtype) or not _wider(
        value_of(inner).dtype, value_of(source).dtype
    ):
        return None
    return _made(node, aten.clone.default, (source,), {}, [inner]) if value_of(source).stride() == value_of(node).stride() else None


def _plain_cast(node: Node) -> bool:
    return set(node.kwargs) == {"dtype"} and len(node.args) == 1


def _wider(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Every value of `narrow` is one of `wide`."""
    return wide.is_floating_point and narrow.is_floating_point and torch.promote_types(wide, narrow) == wide


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
    whole = _made(node, aten.slice.Tensor, (source, along, first, slices[-1][3]), {}, [])  # type: ignore[index]
    whole.meta["val"] = value_of(source).narrow(along, first, slices[-1][3] - first)  # type: ignore[index]
    return _made(node, aten.clone.default, (whole,), {"memory_format": torch.contiguous_format}, list(parts))  # type: ignore[arg-type]


def _slice(node: Any) -> tuple[Node, int, int, int] | None:
    """(source, dim, start, end) of a slice with plain bounds inside the source."""
    if not isinstance(node, Node) or node.target is not aten.slice.Tensor or len(node.args) != 4 or node.kwargs:
        return None
    source, dim, start, end = node.args
    size = value_of(source).shape[dim]
    if not all(isinstance(v, int) for v in (start, end, size)) or not 0 <= start < end:  # type: ignore[operator]
        return None
    return source, dim, start, min(end, size)  # type: ignore[return-value, type-var]


ATEN_ROWS = (
    Row("addmm", frozenset({aten.add.Tensor}), _addmm, "a b + 1 cᵀ is one call of the library"),
    Row("cast of a cast", frozenset({aten._to_copy.default}), _cast_of_cast, "a wider dtype holds every value of the narrower"),
    Row("cat of neighbours", frozenset({aten.cat.default}), _cat_of_neighbours, "[a, b) and [b, c) are [a, c)"),
)
