"""Random programs of views, in-place operations and arithmetic: values, aliasing, mutation and gradients as in eager."""

import random

import pytest
import torch
from agree import agree

from fuselab.toolkit.errors import CannotTrace

VIEWS = [
    lambda t, r: t.t() if t.dim() == 2 else t.view(-1),
    lambda t, r: t.reshape(-1),
    lambda t, r: t[r.randrange(t.shape[0])] if t.dim() > 1 else t,
    lambda t, r: t[1:] if t.shape[0] > 2 else t,
    lambda t, r: t[..., ::2],
    lambda t, r: t.unsqueeze(0).squeeze(0),
    lambda t, r: t.chunk(2, 0)[0] if t.shape[0] > 1 else t,
    lambda t, r: t.detach(),
    lambda t, r: t.transpose(0, -1),
    lambda t, r: t.narrow(0, 0, t.shape[0]),
]
CHANGES = [
    lambda t, u, r: t.mul_(2),
    lambda t, u, r: t.add_(u),
    lambda t, u, r: t.relu_(),
    lambda t, u, r: t.copy_(u),
    lambda t, u, r: t.zero_(),
    lambda t, u, r: t.sigmoid_(),
    lambda t, u, r: t.fill_(0.5),
    lambda t, u, r: t.clamp_(-1, 1),
]
FRESH = [
    lambda t, u, r: t + u,
    lambda t, u, r: t * 2,
    lambda t, u, r: t.clone(),
    lambda t, u, r: torch.cat([t.reshape(-1), u.reshape(-1)]),
    lambda t, u, r: t.sin(),
    lambda t, u, r: torch.where(t > 0, t, u),
    lambda t, u, r: t.sum(0, keepdim=True) + t,
]


def program(seed):
    """A function of three tensors; the same calls every time it runs."""

    def run(*inputs):
        r = random.Random(seed)
        pool = list(inputs)
        for _ in range(r.randrange(3, 12)):
            t = r.choice(pool)
            kind = r.random()
            partner = r.choice([p for p in pool if p.shape == t.shape])
            if kind < 0.4:
                pool.append(r.choice(VIEWS)(t, r))
            elif kind < 0.7:
                if r.random() < 0.2:
                    with torch.no_grad():
                        r.choice(CHANGES)(t, partner, r)
                else:
                    r.choice(CHANGES)(t, partner, r)
            else:
                pool.append(r.choice(FRESH)(t, partner, r))
        return tuple(r.sample(pool, min(len(pool), r.randrange(1, 5))))

    return run


def inputs(kinds):
    def make():
        g = torch.Generator().manual_seed(3)
        found = []
        for kind in kinds:
            t = torch.randn(4, 6, generator=g)
            leaf = t.requires_grad_() if kind != "t" else t
            found.append(leaf * 1 if kind == "n" else leaf)
            found[-1]._made_of = leaf
        return found

    return make


@pytest.mark.parametrize("kinds", ["ttt", "ntt", "nnt", "tpt", "npn"])
@pytest.mark.parametrize("block", range(4))
def test_random_programs_agree_with_eager(kinds, block):
    for seed in [*range(block * 10, block * 10 + 10), 415]:
        check(kinds, seed)


def check(kinds, seed):
    make, fn = inputs(kinds), program(seed)
    try:
        from agree import leaves, loss_of

        outs = leaves(fn(*(ins := make())))
        loss = loss_of([*outs, *ins])
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            loss.backward()
    except RuntimeError:
        return  # an error in eager: a leaf changed in place, a saved tensor changed
    try:
        agree(fn, make, calls=1)
    except CannotTrace:
        return
    except Exception as error:
        raise AssertionError(f"program {seed} on {kinds}: {error}") from error
