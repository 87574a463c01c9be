"""Programs of `idioms`: numpy inside, things that grow, contexts."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .idioms import program, repeated

X = torch.linspace(-1, 1, 12).reshape(3, 4)

# -- numpy --------------------------------------------------------------------------------------------------------------------


@program("numpy")
def np_array_to_tensor():
    return repeated(lambda x: x * torch.from_numpy(np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)), X)


@program("numpy")
def np_arange_table():
    def fn(x):
        table = np.arange(4, dtype=np.float32) / 4
        return x + torch.from_numpy(np.sin(table))

    return repeated(fn, X)


@program("numpy")
def np_roundtrip():
    def fn(x):
        y = x.sin().numpy()
        z = np.exp(y) + np.ones_like(y)
        return torch.from_numpy(z) * 2

    return repeated(fn, X)


@program("numpy")
def np_linspace_tolist():
    def fn(x):
        for rate in np.linspace(0, 0.5, 3).tolist():
            x = x * (1 - rate)
        return x

    return repeated(fn, X)


@program("numpy")
def np_array_argument():
    def fn(x, a):
        return x + torch.as_tensor(a * 2 + a.mean())

    return fn, [(X, np.arange(4, dtype=np.float32)), (X, np.arange(4, dtype=np.float32) + 1)]


@program("numpy")
def np_result():
    return repeated(lambda x: np.maximum(x.cos().detach().numpy(), 0), X)


@program("numpy")
def np_zeros_filled():
    def fn(x):
        mask = np.zeros((3, 4), dtype=bool)
        mask[1:, :2] = True
        return x.masked_fill(torch.from_numpy(mask), 0.0)

    return repeated(fn, X)


@program("numpy")
def np_positional_table():
    def fn(x):
        position = np.arange(3)[:, None]
        div = np.power(10000, np.arange(0, 4, 2) / 4)
        table = np.zeros((3, 4))
        table[:, 0::2] = np.sin(position / div)
        table[:, 1::2] = np.cos(position / div)
        return x + torch.tensor(table, dtype=torch.float32)

    return repeated(fn, X)


@program("numpy")
def np_functions():
    def fn(x):
        a = x.numpy()
        b = np.concatenate([a, a[:, ::-1]], axis=1).reshape(2, -1)
        return np.sum(b, axis=0), np.argmax(b), np.where(b > 0, b, -b).max(), b.shape, b.T @ b

    return repeated(fn, X)


@program("numpy")
def np_scalar_of_tensor():
    return repeated(lambda x: x * np.float32(2.0) + np.pi, X)


@program("numpy")
def np_random():
    def fn(x):
        np.random.seed(0)
        return x + torch.from_numpy(np.random.rand(4).astype(np.float32))

    return repeated(fn, X)


@program("numpy")
def np_meshgrid():
    def fn(x):
        gy, gx = np.meshgrid(np.arange(3), np.arange(4), indexing="ij")
        grid = np.stack([gx, gy], -1).astype(np.float32)
        return x + torch.from_numpy(grid).sum(-1)

    return repeated(fn, X)


# -- growing --------------------------------------------------------------------------------------------------------------------


@program("growing")
def counter_on_module():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def forward(self, x):
            self.count += 1
            return x * self.count

    return repeated(Counting(), X, times=12)


@program("growing")
def counter_with_break():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def forward(self, x):
            x = x.sin()
            print(end="")
            self.steps += 1
            return x + 1

    return repeated(Counting(), X, times=12)


@program("growing")
def cache_by_length():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}

        def forward(self, x):
            n = x.shape[0]
            if n not in self.cache:
                self.cache[n] = torch.arange(n, dtype=x.dtype)[:, None]
            return x + self.cache[n]

    return Cached(), [(torch.ones(n, 2),) for n in (2, 3, 2, 4, 5, 6, 7, 3, 8, 9)]


@program("growing")
def list_grows_between_calls():
    history = []

    def fn(x):
        history.append(x.sum().detach())
        return x * 2

    return repeated(fn, X, times=12)


@program("growing")
def list_read_grows():
    history = []

    def fn(x):
        history.append(x.sum())
        return torch.stack(history).mean() + x

    return repeated(fn, X, times=12)


@program("growing")
def losses_with_break():
    def fn(x):
        losses = []
        for _ in range(10):
            x = x.sin()
            losses.append(x.sum().item())
            print(end="")
        return x, losses

    return repeated(fn, X, times=2)


@program("growing")
def string_grows():
    def fn(x):
        text = ""
        for i in range(10):
            x = x + 1
            print(end="")
            text += str(i)
        return x, text

    return repeated(fn, X, times=2)


@program("growing")
def set_grows():
    def fn(x):
        seen = set()
        for i in range(10):
            x = x + 1
            print(end="")
            seen.add(i)
        return x, sorted(seen)

    return repeated(fn, X, times=2)


@program("growing")
def dict_grows():
    def fn(x):
        seen = {}
        for i in range(10):
            x = x + 1
            print(end="")
            seen[f"k{i}"] = x
        return x, seen

    return repeated(fn, X, times=2)


@program("growing")
def generation_loop():
    def fn(x):
        tokens = [0]
        while len(tokens) < 10:
            x = (x + tokens[-1]).cos()
            token = int(x.sum().item() * 100) % 7
            tokens.append(token)
        return x, tokens

    return repeated(fn, X, times=2)


@program("growing")
def while_counter_break():
    def fn(x):
        step = 0
        while step < 12:
            x = x.sin() + step
            print(end="")
            step += 1
        return x

    return repeated(fn, X, times=2)


@program("growing")
def global_counter():
    state = {"n": 0, "seen": []}

    def fn(x):
        state["n"] += 1
        state["seen"].append(state["n"])
        return x + state["n"]

    return repeated(fn, X, times=12)


@program("growing")
def float_schedule():
    class Scheduled(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = 1.0

        def forward(self, x):
            self.rate *= 0.9
            return x * self.rate

    return repeated(Scheduled(), X, times=12)


@program("growing")
def string_key_changes():
    def fn(x, table, key):
        table[key] = x.sum()
        return x + 1

    table = {}
    return fn, [(X, table, f"layer{i}") for i in range(12)]


@program("growing")
def index_argument():
    def fn(x, i, name):
        return x[i % 3] * 2, f"{name}:{i}"

    return fn, [(X, i, "a") for i in range(12)]


@program("growing")
def tensors_cat_cache():
    def fn(x, cache):
        cache["k"] = torch.cat([cache["k"], x]) if "k" in cache else x
        return cache["k"].sum()

    cache = {}
    return fn, [(X, cache)] * 10


@program("growing")
def random_number():
    import random

    random.seed(3)

    def fn(x):
        return x * 2 if random.random() < 0.5 else x + random.randint(1, 100)

    return repeated(fn, X, times=10)


# -- contexts -------------------------------------------------------------------------------------------------------------------


@program("contexts")
def sdpa_kernel():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def fn(q):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, q, q) + 1

    return repeated(fn, torch.ones(1, 2, 4, 8))


@program("contexts")
def sdpa_kernel_list():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def fn(q):
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            return F.scaled_dot_product_attention(q, q, q) + 1

    return repeated(fn, torch.ones(1, 2, 4, 8))


@program("contexts")
def inference_mode():
    def fn(x):
        with torch.inference_mode():
            y = x * 2
        return y.sin() + 1

    return repeated(fn, X)


@program("contexts")
def inference_mode_decorated():
    @torch.inference_mode()
    def fn(x):
        return x.sin() + 1

    return repeated(fn, X)


@program("contexts")
def fork_rng():
    def fn(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            noise = torch.rand(4)
        return x + noise + torch.rand(4)

    return repeated(fn, X)


@program("contexts")
def generator_inside():
    def fn(x):
        generator = torch.Generator().manual_seed(5)
        return x + torch.rand(4, generator=generator)

    return repeated(fn, X)


@program("contexts")
def generator_argument():
    generator = torch.Generator().manual_seed(5)

    def fn(x, g):
        return x + torch.randn(4, generator=g)

    return fn, [(X, generator)] * 3


@program("contexts")
def manual_seed():
    def fn(x):
        torch.manual_seed(0)
        return x + torch.rand(4)

    return repeated(fn, X)


@program("contexts")
def default_dtype():
    def fn(x):
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(4)
        finally:
            torch.set_default_dtype(torch.float32)
        return x + y

    return repeated(fn, X)


@program("contexts")
def default_device():
    def fn(x):
        torch.set_default_device("meta")
        y = torch.ones(4)
        torch.set_default_device(None)
        return x + 1, y.shape

    return repeated(fn, X)


@program("contexts")
def detect_anomaly():
    def fn(x):
        with torch.autograd.set_detect_anomaly(True):
            y = (x * 2).sum()
        return y + 1

    return repeated(fn, X.clone().requires_grad_())


@program("contexts")
def backends_flags():
    def fn(x):
        with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
            y = x @ x.T
        return y + 1

    return repeated(fn, X)


@program("contexts")
def own_context_over_break():
    @contextlib.contextmanager
    def scaled(box):
        box.append("in")
        try:
            yield 3
        finally:
            box.append("out")

    def fn(x):
        box = []
        with scaled(box) as factor:
            x = x * factor
            print(end="")
            x = x + factor
        return x + 1, box

    return repeated(fn, X)


@program("contexts")
def exit_stack():
    def fn(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            y = x * 2
        return y, torch.is_grad_enabled()

    return repeated(fn, X.clone().requires_grad_())


@program("contexts")
def no_grad_over_break():
    def fn(x):
        with torch.no_grad():
            y = x * 2
            print(end="")
            y = y + 1
        return y + x

    return repeated(fn, X.clone().requires_grad_())


@program("contexts")
def profiler_range():
    def fn(x):
        with torch.profiler.record_function("part"), torch.autograd.profiler.record_function("b"):
            return x * 2

    return repeated(fn, X)
