"""Torch functions that are traced in another form.

Batch and instance norm write running statistics in kernels whose schemas say that nothing is written. While a graph is traced these calls
go to ATen's honest form of them, which functionalization sees through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import CannotTrace
from . import mutating


def batch_norm(
    x: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float, cudnn_enabled: bool
) -> Any:
    if not training or running_mean is None:
        return NotImplemented
    mean, var = running_mean.clone(), running_var.clone()  # autograd keeps these; the caller's may change again before backward
    y = torch._native_batch_norm_legit(x, weight, bias, mean, var, True, momentum, eps)[0]
    with torch.no_grad():
        running_mean.copy_(mean)
        running_var.copy_(var)
    return y


def instance_norm(
    x: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Batch norm of one batch with N*C channels; the running statistics are the mean over N of what that makes of N copies of them."""
    if not use_input_stats or running_mean is None:
        return NotImplemented
    n, c, *rest = x.shape
    mean, var = running_mean.repeat(n), running_var.repeat(n)
    weight, bias = (t.repeat(n) if t is not None else None for t in (weight, bias))
    y = torch._native_batch_norm_legit(x.contiguous().view(1, n * c, *rest), weight, bias, mean, var, True, momentum, eps)[0]
    with torch.no_grad():
        for running, new in ((running_mean, mean), (running_var, var)):
            running.copy_(new.view(n, c).mean(0))
    return y.view(x.shape)


def functional_batch_norm(
    x: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if x.dim() < 2 or x.numel() <= x.shape[1]:
        return NotImplemented  # the function itself says what is wrong
    return batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, True)


def functional_instance_norm(
    x: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if x.dim() < 3 or x.numel() <= x.shape[0] * x.shape[1]:
        return NotImplemented
    return instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def adaptive_avg_pool2d(x: Tensor, output_size: Any) -> Any:
    """To one pixel: a mean. ATen's own form restrides the result of a channels-last image, which gradients pay for with scatters."""
    one = output_size == 1 or (isinstance(output_size, tuple | list) and list(output_size) == [1, 1])
    return x.mean((-2, -1), keepdim=True) if one and x.dim() in (3, 4) and x.numel() else NotImplemented


def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Any:
    """Eager fills a contiguous copy. ATen's functional form stands for the in-place one too, which keeps the strides."""
    return NotImplemented if x.is_contiguous() else x.contiguous().masked_fill(mask, value)


def _layer_by_layer(rnn: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent network with dropout between its layers: torch's own form for symbolic sizes forgets that one."""

    def run(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        sizes = args[:1] if len(args) > 2 and not isinstance(args[2], bool) else ()  # of a packed sequence
        if kwargs or not any(isinstance(n, torch.SymInt) for n in x.shape):
            return NotImplemented
        state, weights, biases, count, p, train, both, *batch_first = args[len(sizes) :]
        if not (p and train and count > 1):
            return NotImplemented
        states = [s.chunk(int(count)) for s in (state if isinstance(state, tuple | list) else [state])]
        each = len(weights) // int(count)
        x, last = (x.transpose(0, 1) if batch_first == [True] else x), []
        for i, given in enumerate(zip(*states, strict=True)):
            x = torch.dropout(x, p, True) if i else x
            own = given if isinstance(state, tuple | list) else given[0]
            x, *now = rnn(x, *sizes, own, weights[i * each : (i + 1) * each], biases, 1, 0.0, train, both, *[False for _ in batch_first])
            last.append(now)
        return (x.transpose(0, 1) if batch_first == [True] else x), *(torch.cat(s) for s in zip(*last, strict=True))

    return run


def one_hot(x: Tensor, num_classes: int = -1) -> Any:
    """ATen looks at the values to check them, which a trace cannot: here the graph does."""
    if x.dtype is not torch.int64:
        raise CannotTrace("one_hot of other numbers than int64, which torch's Python form of it, used with symbolic sizes, takes")
    if num_classes <= 0 or not x.numel():
        return NotImplemented
    torch.ops.aten._assert_async.msg(x.min() >= 0, "Class values must be non-negative.")
    torch.ops.aten._assert_async.msg(x.max() < num_classes, "Class values must be smaller than num_classes.")
    return (x.unsqueeze(-1) == torch.arange(num_classes, device=x.device)).to(torch.int64)


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Any:
    """Torch's Python form of it, used with symbolic sizes too, also counts what is behind the end of a row's targets, its first -1, as if
    the first class stood there."""
    if x.dim() not in (1, 2) or target.shape != x.shape or not x.numel():
        return NotImplemented
    torch.ops.aten._assert_async.msg(target.min() >= -1, "argument #2 'target' is out of range")
    rows, target = torch.atleast_2d(x), torch.atleast_2d(target)
    place = torch.arange(rows.shape[1], device=x.device)
    listed = place < torch.where(target < 0, place, rows.shape[1]).amin(1, True)
    is_target = (torch.where(listed, target, -1).unsqueeze(2) == place).any(1)
    missing = 1 - rows.gather(1, torch.where(listed, target, 0)).unsqueeze(2) + rows.unsqueeze(1)
    counts = listed.unsqueeze(2) & ~is_target.unsqueeze(1) & ~(missing <= 0)
    each = torch.where(counts, missing, 0.0).sum((1, 2)) / rows.shape[1]
    return (each.reshape(x.shape[:-1]), each.mean(), each.sum())[reduction]


def functional_multilabel_margin_loss(
    x: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    if size_average is not None or reduce is not None:
        return NotImplemented
    return multilabel_margin_loss(x, target, ("none", "mean", "sum").index(reduction))


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Where nothing is left to chance: torch's Python form of it, used with symbolic sizes, copies what eager returns as it is, and draws
    for p = 1."""
    if training and p == 1 and not inplace:
        return x * torch.zeros((), dtype=x.dtype, device=x.device)
    return x if not training or p == 0 else NotImplemented


def max_pool1d(x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Eager has a kernel of its own where no gradients are asked for, which does not take integers; a trace pools an image of one row."""
    if not x.is_floating_point() and x.device.type == "cpu":
        raise CannotTrace("max_pool1d of integers")
    return NotImplemented


def resize_as_(x: Tensor, like: Tensor, *, memory_format: Any = None) -> Any:
    """Functionalization of it forgets the new size."""
    return x.resize_(like.shape, **({} if memory_format is None else {"memory_format": memory_format}))


SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    torch.batch_norm: batch_norm,
    torch.max_pool1d: max_pool1d,
    F.max_pool1d: max_pool1d,
    torch.resize_as_: resize_as_,
    torch.Tensor.resize_as_: resize_as_,
    F.one_hot: one_hot,
    torch.dropout: dropout,
    F.dropout: dropout,
    torch.masked_fill: masked_fill,
    torch.Tensor.masked_fill: masked_fill,
    torch.instance_norm: instance_norm,
    **{rnn: _layer_by_layer(rnn) for rnn in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)},
    F.batch_norm: functional_batch_norm,
    F.instance_norm: functional_instance_norm,
    F.adaptive_avg_pool2d: adaptive_avg_pool2d,
    torch._C._nn.adaptive_avg_pool2d: adaptive_avg_pool2d,
    F.multilabel_margin_loss: functional_multilabel_margin_loss,
    torch._C._nn.multilabel_margin_loss: multilabel_margin_loss,
}


class Substituting(TorchFunctionMode):
    """Sends calls of the functions above to their substitutes, wherever in the traced program they happen."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        substitute = SUBSTITUTES.get(func)
        result = substitute(*args, **(kwargs or {})) if substitute is not None else mutating.traced(func, args, kwargs or {})
        return func(*args, **(kwargs or {})) if result is NotImplemented else result
