"""Which loops become one kernel, which must not, and why."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fuselab.toolkit import options
from fuselab.toolkit.events import Fused, FusionRefused, Recorder, Scheduled

from ..codegen.compiled import agrees, scheduled


def r(*size):
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size)))


ONE_KERNEL = {
    "a pointwise chain": (lambda x, y: torch.relu(x * 2 + y).sin() * x, r(64, 100), r(100)),
    "pointwise and a sum of rows": (lambda x: (x * 2 + 1).relu().sum(-1), r(64, 100)),
    "softmax": (lambda x: torch.softmax(x, -1), r(64, 100)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), r(64, 100)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (100,), w, b), r(64, 100), r(100), r(100)),
    "residual and layer norm": (lambda x, y, w, b: (x + y, F.layer_norm(x + y, (100,), w, b)), r(64, 100), r(64, 100), r(100), r(100)),
    "a mean and what is made of it": (lambda x: x - x.mean(-1, keepdim=True), r(64, 100)),
    "two sums of the same rows": (lambda x: (x.sum(-1), (x * x).sum(-1)), r(64, 100)),
    "two readers of one input": (lambda x: (x + 1, x * 2), r(64, 100)),
    "a reshape between": (lambda x: (x * 2).view(-1).relu(), r(64, 100)),
    "a sum and its use for each row": (lambda x, w: (x.sum(-1) * w).exp(), r(64, 100), r(64)),
    "group norm": (lambda x, w, b: F.group_norm(x, 3, w, b), r(4, 6, 8, 8), r(6), r(6)),
    "masked softmax with scale": (lambda x, m: torch.softmax(x / 8 + m, -1), r(2, 4, 16, 16), r(2, 1, 1, 16)),
    "transposed heads": (lambda x: (x.view(2, 16, 4, 8).permute(0, 2, 1, 3) * 2).contiguous(), r(2, 16, 32)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_becomes_one_kernel(name):
    agrees(*ONE_KERNEL[name], kernels=1, externs=0)


def test_sums_over_other_ranges_stay_two_kernels():
    with Recorder() as events:
        agrees(lambda x: (x.sum(0), x.sum(1)), r(64, 100), kernels=2)
    assert not events.of(Fused)


def test_a_mirrored_read_of_what_is_written_stays_behind_it():
    def fn(x):
        y = x * 3.0
        z = y.clone()
        z.sub_(y.flip(0))
        return y, z

    agrees(fn, r(4, 7))


def test_a_write_stays_behind_an_earlier_read_of_the_same_memory():
    def fn(target, source):
        target[:, 0:] = source[:, 0:]
        source.mul_(2)
        return source

    agrees(fn, torch.zeros(2, 5), r(2, 5))


def test_index_put_then_a_mirrored_update():
    def fn(x):
        x.index_put_((torch.arange(x.shape[0]),), x * 3.0)
        x.sub_(x.flip(0))
        return x

    agrees(fn, r(4, 7))


def test_argmin_of_a_transposed_view_after_an_update():
    def fn(x):
        x.cos_()
        return x.t().argmin()

    agrees(fn, r(5, 7))


def test_two_adds_into_one_column():
    def fn(v):
        acc = torch.zeros_like(v)
        acc[:, 1] += v[:, 2].abs()
        acc[:, 1] += v[:, 2].abs()
        return acc.sum()

    agrees(fn, r(3, 4))


def test_index_add_next_to_its_source():
    def fn(src):
        acc = torch.zeros(1, dtype=torch.float64)
        fresh = src * 1.5
        out = acc.index_add(0, torch.tensor([0]), fresh, alpha=4.0) / 4
        return out - fresh, fresh

    agrees(fn, torch.tensor([0.7], dtype=torch.float64))


def test_a_kernel_that_must_run_between_keeps_two_apart():
    def fn(x, w):
        y = x.relu()
        return (y @ w) + y

    made = agrees(fn, r(16, 16), r(16, 16), externs=1)
    assert len(made.schedule.kernels) == 2


def test_refusals_have_reasons():
    with Recorder() as events:
        scheduled(lambda x: (x.exp().sum(0, keepdim=True) * torch.ones(64, 1)).flip(1).sum(1), r(64, 100))
    assert events.of(FusionRefused)
    assert all(len(e.reason.split()) > 3 for e in events.of(FusionRefused))


def test_options_turn_fusion_off():
    fn, *args = ONE_KERNEL["softmax"]
    with options.using(fusion=False):
        assert len(scheduled(fn, *args).kernels) > 1


def test_options_turn_horizontal_fusion_off():
    with options.using(horizontal_fusion=False):
        assert len(scheduled(lambda x: (x + 1, x * 2), r(64, 100)).kernels) == 2


def test_dead_memory_is_taken_again():
    def fn(x, w):
        for _ in range(4):
            x = torch.relu(x @ w)
        return x

    made = agrees(fn, r(32, 32), r(32, 32))
    assert made.program.peak_bytes <= 2 * 32 * 32 * 4
    assert "# in place" in made.program.wrapper


def test_outputs_and_inputs_are_never_written_over():
    def fn(x, w):
        y = x @ w
        return y, torch.relu(y), torch.relu(x)

    made = agrees(fn, r(32, 32), r(32, 32))
    assert "# in place" not in made.program.wrapper


def test_a_result_that_nobody_reads_is_not_computed():
    made = agrees(lambda x: F.max_pool2d(x, 2), r(2, 3, 16, 16), kernels=1)
    assert len(made.schedule.kernels[0].nodes) == 1


def test_a_scheduled_event_tells_the_groups():
    with Recorder() as events:
        scheduled(*ONE_KERNEL["layer norm"])
    (event,) = events.of(Scheduled)
    assert event.kernels == 1
    assert event.externs == 0
    assert len(event.groups) == 1


def test_a_thousand_nodes_are_scheduled_in_the_time_of_a_thousand():
    def fn(x, w):
        outs = []
        for i in range(120):
            x = torch.softmax(torch.relu(x @ w) + i, -1)
            outs.append(x.sum(0))
        return outs

    assert len(scheduled(fn, r(8, 8), r(8, 8)).kernels) <= 360
