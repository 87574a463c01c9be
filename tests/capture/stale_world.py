"""The world that programs of `stale_guards.py` live in: a module with something of every kind that a function may read.

`HEAD` is its source; `RESET` puts back what is the process's own.
"""
# ruff: noqa: E501  the language as people write it

HEAD = '''
import abc, array, collections, contextvars, dataclasses, enum, functools, itertools, math, operator, os, random, sys, types, typing, weakref
import torch
import torch.nn.functional as F
from torch import nn

A, B, S, T, N = 2, 1.5, "ab", (1, 2), None
L, M = [1, 2, 3], [1, 2, 3]
D = {"a": 1, "b": 2}
E = {1, 2}
DEEP = {"a": [1, (2, {"b": 3})], "c": {"d": [4]}}
O = collections.OrderedDict(a=1, b=2)
Q = collections.deque([1, 2, 3])
COUNTS = collections.Counter("aab")
DD = collections.defaultdict(lambda: 3, a=1)
CHAIN = collections.ChainMap({"a": 1}, {"b": 2})
NS = types.SimpleNamespace(v=1, w=2)
PROXY_OF = {"a": 1}
PROXY = types.MappingProxyType(PROXY_OF)
BYTES = bytearray(b"abc")
R = range(3)
SL = slice(0, 2)
VAR = contextvars.ContextVar("VAR", default=3)
IT = iter([1, 2, 3, 4, 5, 6, 7, 8, 9])
COUNT = itertools.count(1)
W = torch.ones(2, 3)
ARR = array.array("i", [1, 2, 3])
ARGS, NAMED = (1, "a"), {"p": 1, "q": 2.0}

class Color(enum.Enum):
    RED = 1
    BLUE = 2

COLOR = Color.RED

class Meta(type):
    kind = 1
    def __len__(cls):
        return 3
    def __contains__(cls, k):
        return k == 2
    @property
    def meant(cls):
        return cls.kind + 1

class Base:
    level = 1
    base_only = 4
    def method(self, v, k=2, *, j=1):
        return v * k + j
    def __repr__(self):
        return f"<{type(self).__name__}>"

class Base2:
    level = 8
    base_only = 9
    def method(self, v, k=3, *, j=2):
        return v - k
    def __repr__(self):
        return "base 2"

class Thing(Base, metaclass=Meta):
    """About things."""
    names = ["p", "q"]
    def __init__(self):
        self.own = 1
        self.inner = types.SimpleNamespace(v=2)
    @property
    def double(self):
        return self.own * 2
    @classmethod
    def cm(cls):
        return cls.level + 1
    @staticmethod
    def sm(v):
        return v + 1
    def __len__(self):
        return 2
    def __getitem__(self, k):
        return self.own + k
    def __call__(self, v):
        return super().method(v)
    def __eq__(self, other):
        return self.own == other
    __hash__ = object.__hash__
    @functools.cached_property
    def cached(self):
        return self.own + 5

class Other(Thing):
    level = 5
    def method(self, v, k=2):
        return v - k

class Slotted:
    __slots__ = ("a", "b", "__weakref__")
    def __init__(self):
        self.a, self.b = 1, 2

class Dynamic:
    rate = 2
    def __getattr__(self, name):
        if name.startswith("x"):
            return self.rate
        raise AttributeError(name)

class Loud:
    log = 0
    def __getattribute__(self, name):
        return 7 if name == "seven" else object.__getattribute__(self, name)
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1 if isinstance(value, int) else value)

class Desc:
    factor = 2
    def __get__(self, thing, owner):
        return self if thing is None else self.factor * 3

class Holder:
    desc = Desc()

@dataclasses.dataclass
class Point:
    x: int = 1
    y: list = dataclasses.field(default_factory=lambda: [1])

class Pair(typing.NamedTuple):
    left: int = 1
    right: object = 2

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Circle:
    def area(self):
        return 3

class Mylist(list):
    extra = 1

class Mydict(dict):
    extra = 1
    def __missing__(self, key):
        return self.extra

thing, other_thing, slotted, dynamic, loud, holder = Thing(), Thing(), Slotted(), Dynamic(), Loud(), Holder()
point, pair, circle, mylist, mydict = Point(), Pair(), Circle(), Mylist([1, 2]), Mydict(a=1)
target = Thing()
WR = weakref.ref(target)
STRONG = [target]
del target
ISA = (int, str)

def h(v, k=2, acc=[1, 2], *, j=1):
    return v * k + j + len(acc)

h.tag = 1

def h2(v, k=3, acc=(), *, j=2):
    return v - k - j

def maker(start):
    count, table = start, {"a": start}
    def read(v):
        return v * count + table["a"] + len(table)
    def put(k):
        nonlocal count
        count = k
    def drop():
        nonlocal count
        del count
    def swap(t):
        nonlocal table
        table = t
    read.put, read.drop, read.swap, read.table = put, drop, swap, table
    return read

closure = maker(2)
part = functools.partial(h, k=3)
LAMBDAS = [lambda v: v + 1, lambda v: v * 2]

def deco(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args) + wrapper.extra
    wrapper.extra = 1
    return wrapper

@deco
def wrapped(v):
    return v * 2

@functools.lru_cache
def memo(k):
    return k + A

@functools.singledispatch
def single(v):
    return 1

@single.register
def _(v: int):
    return 2

other = types.ModuleType("other")
exec("value = 3\\nthings = [1]\\nclass K:\\n    v = 1\\ndef fn(v):\\n    return v + value", vars(other))
sys.modules["other"] = other

class Net(nn.Module):
    rate = 2
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.ReLU()])
        self.by = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Sigmoid()})
        self.params = nn.ParameterList([nn.Parameter(torch.ones(3))])
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.register_buffer("missing", None)
        self.config = {"k": 2, "names": ["a"]}
        self.act = F.relu
        self.depth = 1
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.1 + i)
    def forward(self, v):
        v = self.act(self.lin(v)) * self.scale * self.rate
        for layer in self.layers:
            v = layer(v)
        return v

net = Net()
hooks = []
handles = []

def reset():
    for handle in handles:
        handle.remove()
    handles.clear()
p = nn.Parameter(torch.ones(1))

def imported():
    import other as o
    return o.value

def imported2():
    from other import value
    return value

def inner_default(v, k=2):
    return v * k

'''

RESET = """
torch.set_grad_enabled(True); torch.set_default_dtype(torch.float32); torch.set_default_device(None); torch.use_deterministic_algorithms(False)
torch.set_num_threads(1); torch.set_float32_matmul_precision("highest"); torch.set_anomaly_enabled(False); torch.set_autocast_enabled("cpu", False)
torch.set_autocast_dtype("cpu", torch.bfloat16); torch.backends.cudnn.benchmark = False; torch.backends.cudnn.deterministic = False
torch.utils.deterministic.fill_uninitialized_memory = True; torch.backends.mha.set_fastpath_enabled(True)
os.environ.pop("FUSELAB_TEST_X", 0); vars(torch.nn.Linear).get("extra") is not None and delattr(nn.Linear, "extra")
if hasattr(torch.Tensor, "helper"): del torch.Tensor.helper
torch.backends.mkldnn.flags(enabled=True).__enter__()
reset()
"""
