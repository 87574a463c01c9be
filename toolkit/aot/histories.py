"""What eager's graph of autograd tells of the results, each for itself, where a compiled graph has one backward for all of them: which
inputs each leads to, whose backward frees what another needs, and which tensors of the caller's it will read.

The trace has that graph: it is read before the gradients are asked for. Results are bits: bit k is the k-th result with a gradient.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from .functionalize import storage_key


class Watched(NamedTuple):
    """A tensor that the caller has, read by eager's backward of the results `bits`: the input, or the value of the graph, `index`."""

    kind: str
    index: int
    bits: int


@dataclass
class Histories:
    reach: list[int] = field(default_factory=list)  # for each input that requires gradients, the results that lead to it
    freed: list[int] = field(default_factory=list)  # for each result, those whose backward frees what its own needs
    watched: list[Watched] = field(default_factory=list)

    @property
    def all(self) -> int:
        return (1 << len(self.freed)) - 1

    def alive(self, spent: int) -> int:
        """The results that can still be differentiated after the backward of those `spent`."""
        return sum(1 << k for k, bits in enumerate(self.freed) if not bits & spent)

    def keep(self, kept: Sequence[int]) -> None:
        """Only these values are left, numbered anew."""
        left = [w for w in self.watched if w.kind == "input" or w.index in kept]
        self.watched = [w if w.kind == "input" else w._replace(index=kept.index(w.index)) for w in left]

@dataclass(eq=False)
class Part:
    """Results and inputs with no way from or to any others. Inputs that the same results lead to are a group, results that lead to the
    same groups a class."""

    groups: list[list[int]]  # of inputs, by their places in `reach`
    classes: list[tuple[list[int], list[int]]]  # results, and the groups that these lead to
    alone: bool  # one class, one group, and the backward of any result leaves nothing to any other: as one node of eager's

    @property
    def results(self) -> list[int]:
        return sorted(k for results, _ in self.classes for k in results)


def parts(histories: Histories, apart: Collection[int] = ()) -> list[Part]:
    """All results and inputs. Each of the inputs `apart` is a group of its own."""
    kinds: dict[Any, list[int]] = {}
    for place, bits in enumerate(histories.reach):
        kinds.setdefault(place if place in apart else (bits,), []).append(place)
    whole: list[tuple[int, list[list[int]]]] = []  # results, as bits, and groups that hang together
    for group in kinds.values():
        bits = histories.reach[group[0]]
        joined = [w for w in whole if w[0] & bits]
        groups = [g for _, gs in joined for g in gs]
        whole = [w for w in whole if w not in joined]
        whole.append((functools.reduce(operator.or_, (b for b, _ in joined), bits), [*groups, group]))
    return [_part(histories, groups, bits, apart) for bits, groups in whole]


def _part(histories: Histories, groups: list[list[int]], bits: int, apart: Collection[int]) -> Part:
    classes: dict[tuple[int, ...], list[int]] = {}
    for k in (k for k in range(bits.bit_length()) if bits >> k & 1):
        classes.setdefault(tuple(g for g, group in enumerate(groups) if histories.reach[group[0]] >> k & 1), []).append(k)
    found = [(results, list(way)) for way, results in classes.items()]
    alone = len(groups) == 1 and groups[0][0] not in apart and all(histories.freed[k] == bits for results, _ in found for k in results)
    return Part(groups, found, alone)


def read(outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], owners: Mapping[int, tuple[str, int]]) -> Histories:
    """The histories of `outputs`, back to `leaves`. `owners`: what of the caller's has the memory with this key."""
    bits = _bits(outputs)
    found = Histories([0] * len(leaves), [0] * len(outputs))
    places = {id(leaf): n for n, leaf in enumerate(leaves)}
    watched: dict[tuple[str, int], int] = {}
    for node, reached in bits.items():
        if (place := places.get(id(getattr(node, "variable", None)))) is not None:
            found.reach[place] |= reached
        for n, tensor in enumerate(_saved(node)):
            if n == 0:
                found.freed = [f | reached if reached >> k & 1 else f for k, f in enumerate(found.freed)]
            if tensor is not None and (owner := owners.get(storage_key(tensor))) is not None:
                watched[owner] = watched.get(owner, 0) | reached
    found.watched = [Watched(kind, index, reached) for (kind, index), reached in watched.items()]
    return found


def _bits(outputs: Sequence[torch.Tensor]) -> dict[Any, int]:
    """Every node of autograd's behind the outputs, and from which of them it is reached."""
    before = _edges(o.grad_fn for o in outputs)
    bits = dict.fromkeys(reversed(before), 0)
    for k, o in enumerate(outputs):
        bits[o.grad_fn] |= 1 << k
    for node in bits:  # each comes before those behind it
        for behind in before[node]:
            bits[behind] |= bits[node]
    return bits


def _edges(roots: Iterable[Any]) -> dict[Any, list[Any]]:
    """node -> the nodes that its gradients go to; each node after all that are behind it."""
    found: dict[Any, list[Any]] = {}
    open_: dict[Any, list[Any]] = {}
    todo = [r for r in roots if r is not None]
    while todo:
        node = todo[-1]
        if node not in open_:
            open_[node] = [n for n, _ in node.next_functions if n is not None]
            todo += [n for n in open_[node] if n not in open_]
        else:
            todo.pop()
            found.setdefault(node, open_[node])
    return found


def _saved(node: Any) -> Iterator[Any]:
    """The tensors that a node keeps until its backward; None for one that cannot be had any more."""
    for name in _names(type(node)):
        try:
            value = getattr(node, name)
        except RuntimeError:  # changed in place since
            value = (None,)
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from value


@functools.cache
def _names(kind: type) -> list[str]:
    """The attributes of a class of nodes that are saved tensors; each has a raw twin, except that a Function's go by another name."""
    raw = [n.removeprefix("_raw") for n in dir(kind) if n.startswith("_raw_saved_")]
    return ["saved_tensors" if n == "_saved_tensors" else n for n in raw]


__all__ = ["Histories", "Part", "Watched", "parts", "read"]
