"""Strides of gradients that autograd's own formulas decide, where these do not go with traced tensors as they go in eager.

Some formulas ask whether a tensor is "like a subclass", which every traced one is, and then take a way of other operations: without writes
in place, without sizes that only the data knows. The values are the same, the strides are not. (And `masked_fill` stands for `masked_fill_`
too, which keeps the strides; the formula of its own gradient uses the former.) Here stands what eager's way gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from . import strides
from .strides import Strides

Rule = Callable[[Any, torch.Tensor, torch.Tensor], Strides]  # (autograd node, the gradient that came in, the one it gives)


def as_input(node: Any, came: torch.Tensor, grad: torch.Tensor) -> Strides:
    """What an elementwise operation on the saved input gives."""
    return strides.elementwise([node._saved_self if hasattr(node, "_saved_self") else node._saved_input], grad.shape)


def contiguous(node: Any, came: torch.Tensor, grad: torch.Tensor) -> Strides:
    return strides.contiguous(grad, grad)


def product(node: Any, came: torch.Tensor, grad: torch.Tensor) -> Strides:
    """Of `came * (result / input)`, with the reduced dimension put back."""
    if not node._saved_keepdim:
        dim = node._saved_dim  # autograd shows a negative one as an unsigned number
        came = came.unsqueeze(dim - 2**64 if dim >= 2**63 else dim)
    return strides.elementwise([came, node._saved_self], grad.shape)


_RULES: dict[str, dict[int, Rule]] = {  # autograd node -> which gradient of it -> rule
    "MaskedFillBackward0": {0: contiguous},
    "MaskedFillBackward1": {0: contiguous},
    "MaskedSelectBackward0": {0: as_input},
    "ProdBackward0": {0: as_input},  # without zeros in the input: with some, eager's are contiguous
    "ProdBackward1": {0: product},  # likewise
    "MaxBackward1": {0: contiguous},
    "MinBackward1": {0: contiguous},
    "LinalgHouseholderProductBackward0": {0: as_input},
    "OrmqrBackward0": {0: as_input},
}


def mend(outputs: Iterable[torch.Tensor]) -> None:
    """Make the backward of `outputs`, traced functional tensors, lay out its gradients as eager's."""
    for node in _nodes(t.grad_fn for t in outputs):
        rules = _RULES.get(node.name())
        if rules is not None:
            node.register_hook(lambda grads, came, rules=rules, node=node: _laid(rules, node, came[0], grads))


def _laid(rules: dict[int, Rule], node: Any, came: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(g if g is None or k not in rules else strides.turned(g, [rules[k](node, came, g)]) for k, g in enumerate(grads))


def _nodes(roots: Iterable[Any]) -> Iterator[Any]:
    """All autograd nodes behind these."""
    todo = [r for r in roots if r is not None]
    seen = set(todo)
    while todo:
        node = todo.pop()
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                todo.append(before)


__all__ = ["mend"]
