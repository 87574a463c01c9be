"""Random programs of views, updates in place, reductions and reorderings: whatever is fused, the results are eager's."""

from __future__ import annotations

import random

import pytest
import torch

from .compiled import agrees

SIZES = {"small": (12, 20), "large": (130, 200)}  # large: threads, tiles, several blocks

# {0} and {1} are tensors of the full size made before, {2} a column (one value a row), {3} a row, {v} the new name.
FULL = (
    "{v} = {0} * 2 + {1}",
    "{v} = torch.softmax({0}, 0)",
    "{v} = torch.softmax({0}, 1)",
    "{v} = {0} - {0}.mean(1, keepdim=True)",
    "{v} = {0}.flip(0) + {1}",
    "{v} = {0}.flip(1) * {1}",
    "{v} = ({0}.t().contiguous() * 1.5).t()",
    "{v} = {0}.clone(); {v}.mul_(0.5).add_({1})",
    "{v} = {0}.clone(); {v}[:, 1:] += {1}[:, :-1]",
    "{v} = {0}.clone(); {v}[2:5] = {1}[5:8] * 2",
    "{v} = torch.cat([{0}[:, :7], {1}[:, 7:]], 1)",
    "{v} = {0}.reshape(W, H).t().reshape(H, W).sigmoid()",
    "{v} = {0} * {2}[:, None]",
    "{v} = {0} - {3}",
    "{v} = torch.gather({0}, 1, places) + {1}",
    "{v} = {0}.clone().index_add_(0, rows, {1})",
    "{v} = ({0} @ w) * 0.05",
    "x.copy_({0} * 0.5)",
    "{v} = {0}.cumsum(0) * 0.1",
    "{v} = ({0} - {0}.mean()) / ({1}.std() + 1)",
    "{v} = torch.nn.functional.layer_norm({0}, (W,))",
)
COLUMNS = ("{v} = {0}.sum(1)", "{v} = {0}.amax(1) + {1}.argmin(1)")
ROWS = ("{v} = {0}.sum(0)", "{v} = {0}.var(0)")


def program(seed: int) -> str:
    """The source of `f(x, y, w, places, rows)`."""
    pick = random.Random(seed)
    full, columns, rows, lines = ["x", "y"], ["x[:, 0]"], ["y[0]"], []
    for number in range(pick.randint(4, 12)):
        made, rule = pick.choice(
            [(full, pick.choice(FULL)), (full, pick.choice(FULL)), (columns, pick.choice(COLUMNS)), (rows, pick.choice(ROWS))]
        )
        lines.append(rule.format(pick.choice(full), pick.choice(full), pick.choice(columns), pick.choice(rows), v=f"v{number}"))
        if "{v}" in rule:
            made.append(f"v{number}")
    outputs = pick.sample([*full, *columns[1:], *rows[1:]], min(len(full), pick.randint(2, 4)))
    return "\n    ".join(["def f(x, y, w, places, rows):", *lines, f"return [{', '.join(outputs)}]"])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_is_eagers(seed, size):
    height, width = SIZES[size]
    names = {"torch": torch, "H": height, "W": width}
    source = program(seed)
    exec(source, names)
    draw = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(height, width, generator=draw) for _ in range(2))
    w, places = torch.randn(width, width, generator=draw), torch.randint(0, width, (height, width), generator=draw)
    try:
        agrees(names["f"], x, y, w, places, torch.randint(0, height, (height,), generator=draw), tolerance=1e-3)
    except AssertionError as error:
        raise AssertionError(f"{source}\n\n{error}") from error
