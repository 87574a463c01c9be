"""The short way to a fake result gives what torch's fake mode gives."""

import pytest
import torch

from fuselab.toolkit import shapes
from fuselab.toolkit.shapes.direct import DIRECT, direct

A, B, V = torch.randn(4, 6).t(), torch.randn(6, 1), torch.randn(6, 4, dtype=torch.float64)
I = torch.randint(1, 5, (6, 4))  # noqa: E741
M = torch.randn(2, 6, 4)
SPECIAL = {
    "addmm.default": (torch.randn(5), A, torch.randn(4, 5)),
    "baddbmm.default": (torch.randn(2, 6, 5), M, torch.randn(2, 4, 5)),
    "bmm.default": (M, torch.randn(2, 4, 5)),
    "mm.default": (A, torch.randn(4, 5)),
    "as_strided.default": (A, [2, 3], [1, 2]),
    "expand.default": (B, [3, 6, 4]),
    "permute.default": (M, [2, 0, 1]),
    "select.int": (M, 1, 2),
    "slice.Tensor": (M, 1, 1, 5, 2),
    "split.Tensor": (M, 2, 1),
    "split_with_sizes.default": (M, [1, 3], 2),
    "squeeze.dim": (B, 1),
    "squeeze.dims": (B, [1]),
    "sum.dim_IntList": (M, [0, 2], True),
    "mean.dim": (M, [1]),
    "amax.default": (M, [1]),
    "amin.default": (M, [1], True),
    "any.dim": (M, 1),
    "transpose.int": (M, 0, 2),
    "unbind.int": (M, 1),
    "unsqueeze.default": (M, 1),
    "view.default": (M, [12, 4]),
    "pow.Tensor_Scalar": (A, 3),
    "clamp.default": (A, 0, 1),
    "clamp_max.default": (A, 1),
    "clamp_min.default": (A, 1),
    "t.default": (A,),
    "bitwise_and.Tensor": (I, I),
    "bitwise_or.Tensor": (I, I),
    "bitwise_not.default": (I,),
    "argmax.default": (M, 1),
    "argmin.default": (M,),
}


def arguments(op):
    name = str(op).removeprefix("aten.")
    if name in SPECIAL:
        return [SPECIAL[name]]
    if name.endswith(".Scalar"):
        return [(A, 2), (I, 2.5), (A, True)]
    if len([a for a in op._schema.arguments if str(a.type) == "Tensor"]) == 2:
        return [(A, B), (B, A), (A, V), (I, A), (A, 3), (I, I), (A.contiguous(), A)]
    return [(A,), (I,), (V,), (M[:, ::2],), (M.transpose(0, 2),)]


def seen(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype, value.device
    return [seen(v) for v in value]


@pytest.mark.parametrize("op", sorted(DIRECT, key=str), ids=str)
def test_same_sizes_strides_and_dtype_as_eager(op):
    mode = shapes.fake_mode()
    for args in arguments(op):
        try:
            want = op(*args)
        except RuntimeError:
            continue
        fakes = tuple(shapes.fakify(mode, a) if isinstance(a, torch.Tensor) else a for a in args)
        with mode:
            have = direct(mode, op, fakes, {})
        assert have is not NotImplemented
        assert seen(have) == seen(want)


def test_views_share_the_fake_storage():
    mode = shapes.fake_mode()
    x = shapes.fakify(mode, torch.randn(4, 6))
    with mode:
        assert x.t()[1:].untyped_storage()._cdata == x.untyped_storage()._cdata
