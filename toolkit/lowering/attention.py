"""Attention written by hand, in its many spellings, as one call of scaled_dot_product_attention: a row of `patterns.py`.

softmax(s q kᵀ + m, -1) v,    s and m in any of the places where people put them
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from .rewriting import FLOATS, drops_nothing, is_cast, made, only, value_of

Node = fx.Node
NOTHING_ELSE = -1e30  # a score that such a number is added to is that number

MATMUL = frozenset({torch.matmul, operator.matmul, torch.bmm, torch.Tensor.matmul, "matmul", "bmm"})
SOFTMAX = frozenset({torch.softmax, F.softmax, torch.Tensor.softmax, "softmax"})
DIVIDE = frozenset({operator.truediv, operator.itruediv, torch.div, torch.true_divide, "div", "div_", "true_divide"})
TIMES = frozenset({operator.mul, operator.imul, torch.mul, "mul", "mul_"})
PLUS = frozenset({operator.add, operator.iadd, torch.add, "add", "add_"})
TRANSPOSE = frozenset({torch.transpose, torch.Tensor.transpose, "transpose", torch.swapaxes, "swapaxes"})
PERMUTE = frozenset({torch.permute, torch.Tensor.permute, "permute"})
MERGE = frozenset({"reshape", "flatten", torch.reshape, torch.flatten})
CONTIGUOUS = frozenset({"contiguous", torch.Tensor.contiguous})
FILL = frozenset({"masked_fill", "masked_fill_", torch.masked_fill, torch.Tensor.masked_fill})


@dataclass(frozen=True)
class Scores:
    """scale · left rightᵀ + mask; `fill` is (where, number): scores there are that number instead."""

    product: Node
    scale: float = 1.0
    mask: Node | None = None
    fill: tuple[Node, float, bool] | None = None


def attention(node: Node) -> Node | None:
    """`node` = matmul(weights, v)."""
    if len(node.args) != 2 or node.kwargs or torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return None
    softmax, v = _weights(node.args[0]), node.args[1]
    scores = _scores(softmax.args[0]) if softmax is not None else None
    if scores is None or len(scores.product.args) != 2:
        return None
    q, scale_q = _scaled_operand(scores.product.args[0])
    k, scale_k = _key(scores.product.args[1])
    if not _is_plain(q, k, v) or not _mask_fits(scores, q, k) or not _keeps_gradients(scores, q, k, v):
        return None
    return _call(node, q, k, v, scores, scale_q * scale_k * scores.scale, [scores.product, softmax])  # type: ignore[list-item]


# -- what is there ----------------------------------------------------------------------------------------------------


def _weights(node: Any) -> Node | None:
    """The softmax over the last dimension, under casts and dropouts that do nothing."""
    while only(node) and (is_cast(node) or drops_nothing(node)):
        node = node.args[0]
    if not only(node) or node.target not in SOFTMAX or not node.args:
        return None
    dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    dtype = node.kwargs.get("dtype", node.args[2] if len(node.args) > 2 else None)
    given = {k for k, v in node.kwargs.items() if v is not None} - {"dim", "dtype", "_stacklevel"}
    return node if dim in (-1, 3) and not given and dtype in (None, torch.float32) else None


def _scores(node: Any) -> Scores | None:
    while only(node) and is_cast(node):
        node = node.args[0]
    if not only(node):
        return None
    if node.target in FILL and len(node.args) == 3 and isinstance(node.args[2], (int, float)):
        return _filled(node.args[0], node.args[1], float(node.args[2]), True)
    if node.target is torch.where and len(node.args) == 3 and isinstance(node.args[2], (int, float)):
        return _filled(node.args[1], node.args[0], float(node.args[2]), False)
    if node.target in PLUS and len(node.args) == 2 and not node.kwargs:
        for side, mask in (node.args, node.args[::-1]):
            inner = _plain_scores(side)
            if inner is not None and isinstance(mask, Node):
                return Scores(inner.product, inner.scale, mask)
        return None
    return _plain_scores(node)


def _filled(scores: Any, where: Any, number: float, inside: bool) -> Scores | None:
    inner = _plain_scores(scores)
    if inner is None or not isinstance(where, Node) or number > NOTHING_ELSE:
        return None
    return Scores(inner.product, inner.scale, None, (where, number, inside))


def _plain_scores(node: Any) -> Scores | None:
    """`product`, `product * scale` or `product / number`."""
    if not only(node):
        return None
    if node.target in DIVIDE | TIMES:
        node, scale = _times_number(node)
        return Scores(node, scale) if only(node) and node.target in MATMUL else None
    return Scores(node) if node.target in MATMUL else None


def _times_number(node: Node) -> tuple[Any, float]:
    """(x, s) of x · s; (None, 1) if it is not that."""
    if len(node.args) != 2 or node.kwargs:
        return None, 1.0
    x, number = node.args
    if node.target in TIMES and isinstance(x, (int, float)):
        x, number = number, x
    if not isinstance(number, (int, float)) or isinstance(number, bool) or number == 0 or not math.isfinite(number):
        return None, 1.0
    return x, (1 / number if node.target in DIVIDE else float(number))


def _scaled_operand(node: Any) -> tuple[Any, float]:
    """(x, s): an operand of the product that is scaled by itself."""
    if only(node) and node.target in DIVIDE | TIMES and not _writes(node):
        x, scale = _times_number(node)
        if isinstance(x, Node):
            return x, scale
    return node, 1.0


def _writes(node: Node) -> bool:
    return node.target in (operator.imul, operator.itruediv) or (isinstance(node.target, str) and node.target.endswith("_"))


def _key(node: Any) -> tuple[Any, float]:
    """(k, s) of s kᵀ, scaled before or after it was turned."""
    node, after = _scaled_operand(node)
    k, before = _scaled_operand(_transposed(node))
    return k, before * after


def _transposed(node: Any, pair: tuple[int, int] = (2, 3)) -> Node | None:
    """k of kᵀ over these two neighbouring dimensions, the last two."""
    if not isinstance(node, Node) or node.kwargs:
        return None
    if node.target in TRANSPOSE and len(node.args) == 3 and {d % 4 if isinstance(d, int) else None for d in node.args[1:]} == {*pair}:
        return node.args[0]  # type: ignore[return-value]
    order = {(2, 3): (0, 1, 3, 2), (1, 2): (0, 2, 1, 3)}[pair]
    if node.target in PERMUTE and list(node.args[1:]) in ([*order], [order], [[*order]]):
        return node.args[0]  # type: ignore[return-value]
    if node.target is getattr and len(node.args) == 2 and node.args[1] == "mT" and pair == (2, 3):
        return node.args[0]  # type: ignore[return-value]
    return None


def _is_plain(q: Any, k: Any, v: Any) -> bool:
    """(batch, heads, length, width) of one float dtype, without broadcasting; SDPA has other rules for the rest."""
    a, b, c = value_of(q), value_of(k), value_of(v)
    if not all(isinstance(t, torch.Tensor) and t.dim() == 4 for t in (a, b, c)):
        return False
    same = a.dtype == b.dtype == c.dtype and a.dtype in FLOATS and a.device == b.device == c.device
    batches = tuple(a.shape[:2]) == tuple(b.shape[:2]) == tuple(c.shape[:2])
    return same and batches and a.shape[3] == b.shape[3] and b.shape[2] == c.shape[2]


def _mask_fits(scores: Scores, q: Any, k: Any) -> bool:
    """The mask broadcasts to the scores, not they to it."""
    node = scores.mask if scores.mask is not None else scores.fill[0] if scores.fill is not None else None
    if node is None:
        return True
    mask, a, b = value_of(node), value_of(q), value_of(k)
    if not isinstance(mask, torch.Tensor) or mask.device != a.device or not 2 <= mask.dim() <= 4:
        return False
    wanted = (*a.shape[:3], b.shape[2])
    if not all(m == 1 or m == n for m, n in zip(mask.shape[::-1], wanted[::-1], strict=False)):  # noqa: PLR1714 (symbols)
        return False
    if scores.fill is not None:
        number = scores.fill[1]
        return mask.dtype is torch.bool and (math.isinf(number) or math.isfinite(torch.tensor(number, dtype=a.dtype).item()))
    return mask.dtype is a.dtype and not mask.requires_grad


def _keeps_gradients(scores: Scores, *operands: Any) -> bool:
    """A row whose every score got a huge number is uniform by hand. The kernel's backward computes weights again from a logarithm that this
    number has swallowed, and they are too large then. Only what is filled with minus infinity, NaN by hand, has no such row."""
    huge = scores.mask is not None or _is_finite(scores)
    return not huge or not torch.is_grad_enabled() or not any(value_of(n).requires_grad for n in operands)


# -- what stands there then -------------------------------------------------------------------------------------------


def _call(node: Node, q: Any, k: Any, v: Any, scores: Scores, scale: float, parts: list[Node]) -> Node:
    kwargs: dict[str, Any] = {"scale": scale}
    mask = _additive(node, scores, value_of(q).dtype)
    if mask is not None:
        kwargs["attn_mask"] = mask
    call = made(node, F.scaled_dot_product_attention, (q, k, v), kwargs, parts)
    if mask is not None and not _is_finite(scores):
        call = _with_nan(node, call, mask, value_of(q).dtype)
    return call if _is_turned_and_copied(node) else made(node, torch.Tensor.contiguous, (call,), {}, [])


def _is_turned_and_copied(node: Node) -> bool:
    """(batch, heads, length, width) is made (batch, length, heads, width), which is how the kernel lays it out for such a q; a product is
    contiguous, and other users would see the difference. A dimension of one element can make of such a copy a view."""
    if any(n == 1 for n in value_of(node).shape[1:]):
        return False
    turned = [_transposed(u, (1, 2)) is node for u in node.users]
    return all(turned) and all(_copies(c) for u in node.users for c in u.users)


def _copies(node: Node) -> bool:
    """Of four dimensions of which two were exchanged: contiguous ones, or fewer, are made by copying."""
    merged = node.target in MERGE and getattr(value_of(node), "ndim", 4) < 4
    return merged or (node.target in CONTIGUOUS and len(node.args) == 1 and not node.kwargs)


def _helper(node: Node, target: Any, *args: Any) -> Node:
    """A step on the way to the new value of `node`; its own value is not known."""
    new = made(node, target, args, {}, [])
    for key in ("example_value", "val"):
        new.meta.pop(key, None)
    return new


def _additive(node: Node, scores: Scores, dtype: torch.dtype) -> Node | None:
    """The mask as a tensor that is added, of two or four dimensions."""
    mask = scores.mask
    rank = value_of(mask).dim() if mask is not None else 0
    if scores.fill is not None:
        where, number, inside = scores.fill
        chosen = (where, number, 0.0) if inside else (where, 0.0, number)
        mask, rank = _helper(node, torch.Tensor.to, _helper(node, torch.where, *chosen), dtype), value_of(where).dim()
    return _helper(node, torch.unsqueeze, mask, 0) if rank == 3 else mask


def _is_finite(scores: Scores) -> bool:
    return scores.fill is not None and math.isfinite(scores.fill[1])


def _with_nan(node: Node, call: Node, mask: Node, dtype: torch.dtype) -> Node:
    """A row that may look at nothing is NaN by hand, and 0 in the kernel: times NaN there, times 1 elsewhere."""
    nothing = _helper(node, operator.eq, _helper(node, torch.amax, mask, -1, True), -math.inf)
    factor = _helper(node, torch.Tensor.to, _helper(node, torch.where, nothing, math.nan, 1.0), dtype)
    return made(node, torch.mul, (call, factor), {}, [])


ROOTS = MATMUL
