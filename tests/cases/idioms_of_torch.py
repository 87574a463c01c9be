"""Programs of `idioms`: state of autograd and modules, subclasses of tensors."""

from __future__ import annotations

import torch
from torch import nn

from .idioms import program, repeated

X = torch.linspace(-1, 1, 12).reshape(3, 4)

# -- state ------------------------------------------------------------------------------------------------------------------------


@program("state")
def data_assigned():
    def fn(x, y):
        y = y * 1
        y.data = x * 2
        return y + 1

    return repeated(fn, X, X)


@program("state")
def parameter_data_written():
    layer = nn.Linear(4, 4)

    def fn(x):
        layer.weight.data.mul_(0.5)
        layer.bias.data = layer.bias.data + 1
        return layer(x)

    return repeated(fn, X)


@program("state")
def ema_update():
    layer, ema = nn.Linear(4, 4), nn.Linear(4, 4)

    def fn(x):
        with torch.no_grad():
            for p, e in zip(layer.parameters(), ema.parameters(), strict=True):
                e.data.mul_(0.9).add_(p.data, alpha=0.1)
        return ema(x)

    return repeated(fn, X)


@program("state")
def retain_grad():
    def fn(x):
        y = x * 2
        y.retain_grad()
        y.sum().backward()
        return y.grad, x.grad

    return fn, [(X.clone().requires_grad_(),) for _ in range(3)]


@program("state")
def grad_read_and_cleared():
    layer = nn.Linear(4, 4)

    def fn(x):
        loss = layer(x).sum()
        loss.backward()
        norm = layer.weight.grad.norm()
        layer.weight.grad = None
        layer.bias.grad.zero_()
        return loss, norm

    return repeated(fn, X)


@program("state")
def train_step():
    layer = nn.Linear(4, 4)
    opt = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def fn(x):
        opt.zero_grad()
        loss = layer(x).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        opt.step()
        return loss.detach()

    return repeated(fn, X, times=5)


@program("state")
def state_dict_inside():
    layer, other = nn.Linear(4, 4), nn.Linear(4, 4)

    def fn(x):
        other.load_state_dict(layer.state_dict())
        return other(x)

    return repeated(fn, X)


@program("state")
def hook_registered_inside():
    layer = nn.Linear(4, 4)

    def fn(x):
        kept = []
        handle = layer.register_forward_hook(lambda m, i, o: kept.append(o * 2))
        out = layer(x)
        handle.remove()
        return out, kept[0]

    return repeated(fn, X)


@program("state")
def tensor_hook():
    def fn(x):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        return y.sum()

    def step(x):
        fn(x).backward()
        return x.grad

    return step, [(X.clone().requires_grad_(),) for _ in range(3)]


@program("state")
def saved_on_cpu():
    def fn(x):
        with torch.autograd.graph.save_on_cpu():
            y = (x * x).sin()
        return y.sum()

    return repeated(fn, X.clone().requires_grad_())


@program("state")
def saved_hooks():
    def fn(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            y = (x * x).sin()
        return y.sum()

    return repeated(fn, X.clone().requires_grad_())


class Outside(torch.autograd.Function):
    factor = torch.tensor(3.0)

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x * scale * Outside.factor, x.shape[0]

    @staticmethod
    def backward(ctx, grad, _):
        assert len(ctx.saved_tensors) == 1
        return None if grad is None else grad * ctx.scale * Outside.factor, None


@program("state")
def function_reads_outside():
    def fn(x):
        y, n = Outside.apply(x, 2.0)
        return y * n

    return repeated(fn, X.clone().requires_grad_())


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@program("state")
def function_marks_dirty():
    return repeated(lambda x: InPlace.apply(x * 1) + 1, X.clone().requires_grad_())


class TwoStep(torch.autograd.Function):
    @staticmethod
    def forward(x, k):
        return x**k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]
        ctx.mark_non_differentiable()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad * ctx.k * x ** (ctx.k - 1) if ctx.needs_input_grad[0] else None), None


@program("state")
def function_setup_context():
    return repeated(lambda x: TwoStep.apply(x, 3).sum(), X.clone().requires_grad_())


@program("state")
def scripted_function():
    @torch.jit.script
    def scripted(x, y: int):
        return x * y + 1

    return repeated(lambda x: scripted(x.sin(), 3).cos(), X)


@program("state")
def traced_module():
    traced = torch.jit.trace(nn.Linear(4, 4), X)
    return repeated(lambda x: traced(x.sin()).cos(), X)


@program("state")
def grad_inside():
    def fn(x):
        y = (x**2).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.pow(2).sum()

    return repeated(fn, X.clone().requires_grad_())


@program("state")
def requires_grad_inside():
    def fn(x):
        y = x.detach().requires_grad_()
        return (y * y).sum()

    return repeated(fn, X)


# -- subclasses -------------------------------------------------------------------------------------------------------------------


class TwoPart(torch.Tensor):
    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, ctx, size, stride):
        return TwoPart(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def pick(name):
            return torch.utils._pytree.tree_map_only(TwoPart, lambda t: getattr(t, name), (args, kwargs or {}))

        (a1, k1), (a2, k2) = pick("a"), pick("b")
        left, right = func(*a1, **k1), func(*a2, **k2)
        return TwoPart(left, right) if isinstance(left, torch.Tensor) else left


@program("subclass")
def wrapper_subclass():
    def fn(t, x):
        y = (t + 1).sin() * 2
        return y.a, y.b, x + 1

    return fn, [(TwoPart(X, X * 2), X)] * 3


@program("subclass")
def wrapper_made_inside():
    def fn(x):
        y = TwoPart(x, x + 1) * 2
        return y.a + y.b

    return repeated(fn, X)


@program("subclass")
def nested_tensor():
    def fn(a, b):
        n = torch.nested.nested_tensor([a, b], layout=torch.jagged)
        return (n * 2).values(), a + 1

    return repeated(fn, torch.ones(2, 3), torch.ones(4, 3))


@program("subclass")
def flex_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def fn(q):
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu", BLOCK_SIZE=16)
        return flex_attention(q, q, q, block_mask=mask) + 1, flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + i - j)

    return repeated(fn, torch.ones(1, 2, 16, 8))


# -- torch's programs as objects, and notes for the peer ------------------------------------------------------------------------------


@program("objects")
def traced_by_fx():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    return repeated(lambda x: traced(x) + 1, X)


@program("objects")
def exported():
    module = torch.export.export(nn.Linear(4, 4), (X,)).module()
    return repeated(lambda x: module(x) + 1, X)


@program("objects")
def compiled_region():
    @torch.compiler.nested_compile_region
    def region(x):
        return x.sin() * 2

    return repeated(lambda x: region(region(x)) + 1, X)


@program("objects")
def sizes_marked_inside():
    def fn(x):
        y = x * 2
        torch._dynamo.mark_static(y, 0)
        torch._dynamo.maybe_mark_dynamic(y, 1)
        return y + 1

    return repeated(fn, X)


@program("objects")
def parameter_made_inside():
    return repeated(lambda x: nn.Parameter(x.sin()) * nn.LayerNorm(4)(x), X)


@program("objects")
def tensor_of_tensors():
    return repeated(lambda x: torch.tensor([x[0, 0], x[1, 1], 1.5]) + torch.FloatTensor([1, 2, 3]), X)


@program("state")
def asserted():
    def fn(x):
        y = x.sin()
        assert (y < 1).all(), "too large"
        return y.cos()

    return repeated(fn, X)


@program("state")
def features_by_hooks():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

    def fn(x):
        found = {}
        handles = [m.register_forward_hook(lambda m, i, o, n=n: found.__setitem__(n, o)) for n, m in net.named_modules() if n]
        y = net(x)
        for handle in handles:
            handle.remove()
        return y, found

    return repeated(fn, X)


@program("state")
def full_backward_hook():
    layer = nn.Linear(4, 4)
    layer.register_full_backward_hook(lambda m, given, got: (given[0] * 2,))
    return repeated(lambda x: layer(x).sin(), X.clone().requires_grad_())
