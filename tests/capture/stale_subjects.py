"""What the functions of `stale_guards.py` read and write, and what changes it between two calls.

`SUBJECTS[name] = (reads, writes, changes)`: expressions, statements of the function, statements between its calls.

Holes: {k} a small number, {v} a simple value, {t} a tensor. A change that begins with `!` is one of the process, done once.
"""
# ruff: noqa: E501  one line holds many

from __future__ import annotations

SUBJECTS: dict[str, tuple[list[str], list[str], list[str]]] = {}


def subject(name: str, reads: str, writes: str, changes: str) -> None:
    """Alternatives are between `~` and lines."""
    SUBJECTS[name] = (options(reads), options(writes), options(changes))


def options(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split(" ~ ") if part.strip()]


subject(
    "scalars",
    """
A ~ A * x ~ A > {k} ~ x + B ~ B ~ S ~ len(S) ~ f"{A}-{S}" ~ N is None ~ N or A ~ bool(A) ~ type(A).__name__ ~ isinstance(A, ISA) ~ T[0] ~ T ~ len(T)
{k} in T ~ x[A:] if isinstance(A, int) else 0 ~ x.sum(dim=A % 2) ~ S == "ab" ~ x * (A + B) ~ sum(range(A)) ~ x.new_zeros(A) ~ A is B ~ R[1] ~ list(R)
x[SL] ~ torch.full((2,), A) ~ torch.arange(A) ~ COLOR is Color.RED ~ COLOR.value ~ COLOR.name ~ BYTES[0] ~ len(BYTES) ~ ARR[0]
""",
    """
A += 1 ~ A = S ~ B = A ~ N = x ~ T = (A, *T[:1]) ~ S += "c" ~ BYTES.append(1) ~ A, B = B, A ~ del N; N = 1 ~ R = range(A) if isinstance(A, int) else R
""",
    """
A = {v} ~ A = {k} ~ A = {k} ~ B = {v} ~ B = {k}.5 ~ B = A ~ S = {v} ~ S = "abc" ~ S = "x" * {k} ~ N = {v} ~ N = None ~ T = ({k}, {v}) ~ T = (1, 2)
T = [{k}] ~ T = (1, 2, {k}) ~ A = 2 ~ A = 2.0 ~ A = True ~ B = 1.5 ~ ISA = (int, str) ~ ISA = float ~ ISA = (float, bool) ~ R = range({k}, 4)
SL = slice({k}, None) ~ SL = {k} ~ COLOR = Color.BLUE ~ COLOR = Color.RED ~ BYTES[0] = 66 ~ BYTES.append(3) ~ ARR[0] = {k}
""",
)

subject(
    "lists",
    """
L[0] ~ L[-1] ~ len(L) ~ sum(v for v in L if isinstance(v, int)) ~ [v for v in L] ~ {k} in L ~ L == M ~ L is M ~ L == [1, 2, 3] ~ list(reversed(L))
x * len(L) ~ bool(L) ~ L[:2] ~ L + M ~ L and L[0] ~ max(M) ~ M[0] ~ L.index(2) if 2 in L else -1 ~ L.count({k})
torch.tensor([v for v in M if isinstance(v, int)]) ~ len(mylist) ~ mylist[0] ~ mylist.extra ~ list(mylist) ~ len(Q) ~ Q[0] ~ list(Q) ~ Q.maxlen
tuple(L) ~ any(v == {k} for v in L) ~ E ~ {k} in E ~ len(E) ~ sorted(E) ~ next(iter(E))
""",
    """
L.append({k}) ~ M[0] = {v} ~ L.pop() ~ L.reverse() ~ L = M ~ M = [*L] ~ L.extend(M) ~ E.add({k}) ~ mylist.append({k}) ~ mylist.extra = {k}
Q.append({k}) ~ Q.rotate(1) ~ L[0], M[0] = M[0], L[0] ~ L.append(x) ~ L += [{k}] ~ E.discard({k}) ~ L.sort(key=str) ~ L[:1] = [{k}, {k}] ~ del M[-1]
""",
    """
L.append({v}) ~ L.append({t}) ~ L[0] = {v} ~ L[-1] = {k} ~ L.pop() ~ L.reverse() ~ L.clear() ~ L.insert(0, {k}) ~ L = [1, 2, 3] ~ L = M ~ M = L
M = [1, 2, 3] ~ M[0] = {k} ~ L = (1, 2, 3) ~ L = Mylist([1, 2, 3]) ~ L[1:2] = [{k}, {k}] ~ mylist.append({k}) ~ mylist.extra = {k}
Mylist.extra = {k} ~ mylist[0] = {v} ~ mylist = [1, 2] ~ Q.append({k}) ~ Q.popleft() ~ Q.rotate(1) ~ Q = collections.deque(Q, maxlen=2) ~ Q[0] = {v}
E.add({k}) ~ E.discard({k}) ~ E = frozenset(E) ~ E = {{k}, 9}
""",
)

subject(
    "dicts",
    """
D["a"] ~ D.get("b", 5) ~ D.get("zz") ~ list(D) ~ len(D) ~ next(iter(D)) ~ "c" in D ~ sum(v for v in D.values() if isinstance(v, int))
[k for k, v in D.items()] ~ D == {"a": 1, "b": 2} ~ D | {"z": 1} ~ {**D} ~ bool(D) ~ x * D["a"] ~ 1 in D ~ D.get(1) ~ O["a"] ~ list(O)
next(reversed(O)) ~ list(D.keys())[-1] ~ DD["a"] ~ DD["zz"] ~ len(DD) ~ mydict["a"] ~ mydict["zz"] ~ mydict.extra ~ COUNTS["a"] ~ COUNTS["q"]
COUNTS.most_common(1) ~ CHAIN["a"] ~ CHAIN.get("b") ~ len(CHAIN) ~ PROXY["a"] ~ len(PROXY) ~ DEEP["a"][1][1]["b"] ~ DEEP["c"]["d"][0] ~ DEEP["a"][0]
len(DEEP["c"]) ~ D is O ~ sorted(D.items(), key=str) ~ reversed(list(D)).__next__() ~ D.keys() == O.keys() ~ D.items() >= {("a", 1)}
""",
    """
D["a"] = {v} ~ D["z"] = x ~ D.pop("b", 0) ~ D.update(c={k}) ~ O.move_to_end("a") ~ O["n"] = {k} ~ mydict["q"] = {k} ~ DD["zz"] += 1 ~ COUNTS["a"] += 1
DEEP["c"]["d"].append({k}) ~ DEEP["a"][0] = {v} ~ D = {**D, "n": {k}} ~ D.setdefault("s", []).append({k}) ~ PROXY_OF["w"] = {k} ~ D["a"] = D.get("b")
D.clear()
""",
    """
D["a"] = {v} ~ D["b"] = {v} ~ D["c"] = {t} ~ D.pop("a", 0) ~ D.pop("b", 0) ~ D["a"] = D.pop("a", 1) ~ D.clear() ~ D.update(c={k}, b={k})
D = {"b": 2, "a": 1} ~ D = {"a": 1, "b": 2} ~ D = {1: 3, "a": 2, "b": 0} ~ D = {True: 3, "a": 2, "b": 0} ~ D = {1.0: 3, "a": 2} ~ D = O
D = dict(reversed(D.items())) ~ O.move_to_end("a") ~ O["a"] = {k} ~ O = D ~ O.pop("b", 0) ~ DD["zz"] = {k} ~ DD.default_factory = lambda: {k}
DD.default_factory = None ~ DD.default_factory = list ~ DD.pop("zz", 0) ~ mydict["a"] = {k} ~ mydict["zz"] = {k} ~ mydict.pop("zz", 0)
Mydict.extra = {k} ~ mydict.extra = {k} ~ Mydict.__missing__ = lambda s, k: {k} ~ COUNTS["a"] += 1 ~ COUNTS["q"] = {k} ~ COUNTS.subtract(["b", "b"])
CHAIN.maps[0]["a"] = {k} ~ CHAIN.maps.insert(0, {"b": {k}}) ~ CHAIN.maps[0].pop("a", 0) ~ PROXY_OF["a"] = {k} ~ PROXY_OF["c"] = {k}
DEEP["a"][1][1]["b"] = {v} ~ DEEP["c"]["d"][0] = {v} ~ DEEP["a"][0] = {v} ~ DEEP["c"] = {"d": [{k}], "e": 1} ~ DEEP["a"] = [{k}, (2, {"b": {k}})]
""",
)

subject(
    "classes",
    """
thing.level ~ Thing.level ~ thing.own ~ thing.method(x) ~ thing.method(2, k=1) ~ thing.double ~ Thing.cm() ~ thing.cm() ~ thing.sm(x) ~ Thing.sm(1)
len(thing) ~ thing[{k}] ~ thing(x) ~ thing == {k} ~ thing == other_thing ~ bool(thing) ~ hasattr(thing, "more") ~ getattr(thing, "more", 6)
Thing.names[0] ~ len(Thing.names) ~ isinstance(thing, Base) ~ isinstance(thing, Base2) ~ issubclass(Thing, Base2) ~ type(thing).__name__
Thing.__name__ ~ thing.__class__.__qualname__ ~ Thing.__module__ ~ Thing.__doc__ ~ [c.__name__ for c in type(thing).__mro__][:2]
Thing.__bases__[0].__name__ ~ type(thing) is Thing ~ thing.base_only ~ vars(thing).get("more", 2) ~ sorted(vars(thing)) ~ thing.inner.v ~ Thing.kind
len(Thing) ~ {k} in Thing ~ Thing.meant ~ repr(thing) ~ f"{thing}" ~ thing.cached ~ "more" in thing.__dict__ ~ callable(thing) ~ thing is other_thing
Other.level ~ Other().method(x) ~ Other().cm() ~ Base.level ~ x * thing.own + thing.level ~ str(type(thing)) ~ Thing.__dict__.get("more")
super(Thing, thing).method(x) ~ thing.method.__name__ ~ Thing.method is Base.method ~ thing.method.__func__ is Base.method ~ dir(thing)[-1]
""",
    """
thing.own = {k} ~ thing.own += 1 ~ thing.level = {k} ~ Thing.level = {k} ~ Base.level += 1 ~ thing.more = {v} ~ thing.inner.v = {k}
other_thing.own = {k} ~ other_thing = thing ~ thing = Thing() ~ Thing.names.append("w") ~ del thing.own ~ thing.method = h ~ thing.inner = NS
thing.cached ~ setattr(thing, "more", x) ~ vars(thing)["own"] = {k}
""",
    """
thing.level = {k} ~ Thing.level = {k} ~ Base.level = {k} ~ vars(thing).pop("level", 0) ~ if "level" in vars(Thing): del Thing.level ~ thing.own = {v}
thing.own = {k} ~ Base.method = lambda self, v, k=1, j=0: v * {k} ~ Thing.method = lambda self, v, k=1, j=0: v + {k}
thing.method = lambda v, k=1: v - {k} ~ vars(thing).pop("method", 0) ~ if "method" in vars(Thing): del Thing.method
Base.method.__defaults__ = ({k},) ~ Base.method.__kwdefaults__ = {"j": {k}} ~ Base.method.__kwdefaults__["j"] = {k}
Base.method.__code__ = Base2.method.__code__ ~ Thing.double = property(lambda self: {k}) ~ Thing.double = {k}
Thing.cm = classmethod(lambda cls: {k}) ~ Thing.sm = staticmethod(lambda v: v * {k}) ~ Thing.__len__ = lambda self: {k}
Thing.__getitem__ = lambda self, k: {k} ~ Thing.__call__ = lambda self, v: v * {k} ~ Thing.__bool__ = lambda self: {k} > 1
if "__bool__" in vars(Thing): del Thing.__bool__ ~ Thing.__eq__ = lambda self, o: {k} > 2 ~ Thing.__hash__ = lambda self: {k} ~ thing.more = {k}
Thing.more = {k} ~ Base.more = {k} ~ vars(thing).pop("more", 0) ~ if "more" in vars(Thing): del Thing.more ~ Thing.names.append("z")
Thing.names[0] = "zz" ~ Thing.names = ["n"] ~ thing.names = ["own"] ~ Thing.__bases__ = (Base2,) ~ Thing.__bases__ = (Base, Base2)
Thing.__bases__ = (Base2, Base) ~ Thing.__bases__ = (Base,) ~ thing.__class__ = Other ~ thing.__class__ = Thing ~ thing = Other() ~ thing = Thing()
thing = other_thing ~ other_thing = Thing() ~ Thing.__name__ = "Thing{k}" ~ Thing.__name__ = "Thing" ~ Thing.__qualname__ = "Q{k}"
Thing.__module__ = "m{k}" ~ Base.__name__ = "Base{k}" ~ Base.level = Base2.level ~ thing.inner.v = {v} ~ thing.inner = types.SimpleNamespace(v={k})
Meta.kind = {k} ~ Thing.kind = {k} ~ if "kind" in vars(Thing): del Thing.kind ~ Meta.__len__ = lambda cls: {k}
Meta.__contains__ = lambda cls, k: k == {k} ~ Meta.meant = property(lambda cls: {k}) ~ Base.__repr__ = lambda self: "r{k}"
Thing.__str__ = lambda self: "s{k}" ~ Thing.__format__ = lambda self, spec: "f{k}" ~ vars(thing).pop("cached", 0) ~ thing.cached = {k}
Thing.__getattr__ = lambda self, name: {k} ~ if "__getattr__" in vars(Thing): del Thing.__getattr__
Thing.__getattribute__ = lambda self, name: 11 if name == "own" else object.__getattribute__(self, name)
if "__getattribute__" in vars(Thing): del Thing.__getattribute__ ~ Other.level = {k} ~ if "level" in vars(Other): del Other.level
Other.method = Base2.method ~ Thing.own = property(lambda self: {k}) ~ if "own" in vars(Thing): del Thing.own
thing.__dict__ = {"own": {k}, "inner": types.SimpleNamespace(v=1)} ~ thing.__dict__.update(own={k}) ~ Thing.__doc__ = "d{k}" ~ Thing = Other
""",
)

subject(
    "objects",
    """
slotted.a ~ slotted.b ~ hasattr(slotted, "b") ~ x * slotted.a ~ dynamic.xy ~ hasattr(dynamic, "zz") ~ getattr(dynamic, "zz", 2) ~ loud.seven
loud.log ~ holder.desc ~ Holder.desc.factor ~ point.x ~ point.y[0] ~ len(point.y) ~ point == Point(1, [1]) ~ Point().x
dataclasses.replace(point, x=4).y ~ dataclasses.asdict(point) ~ [f.name for f in dataclasses.fields(point)] ~ pair.left ~ pair.right ~ pair[0]
pair == (1, 2) ~ pair._replace(left=3) ~ isinstance(circle, Shape) ~ issubclass(Circle, Shape) ~ NS.v ~ vars(NS) ~ hasattr(NS, "w")
NS == types.SimpleNamespace(v=1, w=2) ~ WR() is None ~ WR().own if WR() is not None else 0 ~ VAR.get() ~ next(IT) ~ next(COUNT) ~ memo(2) ~ single(A)
single(S) ~ repr(point) ~ x + NS.v
""",
    """
slotted.a = {v} ~ slotted.b = x ~ del slotted.b ~ dynamic.rate += 1 ~ loud.log = {k} ~ point.x = {k} ~ point.y.append({k}) ~ point.y = [1]
NS.v = {v} ~ NS.w = x ~ VAR.set({k}) ~ NS = types.SimpleNamespace(v={k}) ~ pair = Pair({k}, x) ~ holder.fresh = {k} ~ Desc.factor = {k}
point = Point(x=point.x)
""",
    """
slotted.a = {v} ~ slotted.b = {v} ~ if hasattr(slotted, "b"): del slotted.b ~ slotted = Slotted() ~ Slotted.a = {k} ~ dynamic.xy = {k}
vars(dynamic).pop("xy", 0) ~ dynamic.rate = {k} ~ Dynamic.rate = {k} ~ dynamic.zz = {k} ~ Dynamic.zz = {k} ~ Dynamic.__getattr__ = lambda self, n: {k}
loud.log = {k} ~ Loud.__getattribute__ = object.__getattribute__ ~ Loud.seven = {k} ~ Loud.log = {k} ~ Holder.desc.factor = {k} ~ Desc.factor = {k}
Desc.__get__ = lambda self, t, o: {k} ~ Desc.__set__ = lambda self, t, v: None ~ holder.desc = {k} ~ vars(holder)["desc"] = {k} ~ Holder.desc = {k}
point.x = {v} ~ point.y.append({k}) ~ point.y[0] = {k} ~ point.y = [{k}] ~ point = Point({k}) ~ Point.x = {k}
Point.__init__.__defaults__ = ({k}, *Point.__init__.__defaults__[1:]) ~ Point.__eq__ = lambda a, b: {k} > 1 ~ Point.__repr__ = lambda s: "P{k}"
pair = Pair({k}, {v}) ~ pair = Pair(1, 2) ~ pair = (1, 2) ~ Pair.__new__.__defaults__ = ({k}, {k}) ~ Pair.left = property(lambda s: {k})
Shape.register(Circle) ~ Circle = type("Circle", (), {"area": lambda s: {k}}) ~ circle = Circle() ~ NS.v = {v} ~ NS.w = {v} ~ vars(NS).pop("w", 0)
NS = types.SimpleNamespace(w=2, v=1) ~ STRONG.clear() ~ (WR() or thing).own = {k} ~ STRONG.append(Thing()); WR = weakref.ref(STRONG[-1])
VAR.set({v}) ~ next(IT) ~ IT = iter([{k}, {k}]) ~ IT = itertools.cycle([1, {k}]) ~ COUNT = itertools.count({k}, 2) ~ next(COUNT) ~ A = {k} ~ A = "s"
memo.cache_clear() ~ memo = lambda k: k * {k} ~ single.register(int, lambda v: {k}) ~ single.register(str, lambda v: {k})
""",
)

subject(
    "functions",
    """
h(x) ~ h(2) ~ h(x, 3) ~ h(x, j=4) ~ h.tag ~ h.__name__ ~ h.__defaults__[0] ~ hasattr(h, "more") ~ h.__doc__ is None ~ closure(x) ~ closure(1)
part(x) ~ part.keywords["k"] ~ part.func is h ~ LAMBDAS[0](x) ~ LAMBDAS[-1](2) ~ len(LAMBDAS) ~ wrapped(x) ~ wrapped.extra ~ wrapped.__wrapped__(x)
wrapped.__name__ ~ h is h2 ~ [fn(2) for fn in LAMBDAS] ~ functools.reduce(h2, [x, 1]) ~ sum(map(LAMBDAS[0], [1, 2])) ~ len(h.__closure__ or ())
h.__kwdefaults__["j"] ~ h.__code__.co_argcount ~ h.__qualname__ ~ h.__annotations__ ~ callable(h) ~ operator.itemgetter(0)(T) ~ inner_default(x)
len("abc") ~ max(1, A) ~ abs(-1) ~ int("3") ~ sorted([3, 1])[0] ~ isinstance(1, int) ~ range(3)[1]
""",
    """
closure.put({k}) ~ h.tag = {k} ~ h.more = x ~ closure.table["a"] = {k} ~ LAMBDAS.append(h2) ~ LAMBDAS.reverse() ~ wrapped.extra += 1 ~ h = h2
LAMBDAS[0] = lambda v: v * 3 ~ closure.swap({"a": {k}}) ~ part = functools.partial(h2, k={k})
""",
    """
h.__defaults__ = ({k}, [1]) ~ h.__defaults__ = (2, [1, 2, 3]) ~ h.__defaults__[-1].append(3) ~ h.__kwdefaults__ = {"j": {k}}
h.__kwdefaults__["j"] = {k} ~ h.__kwdefaults__ = None ~ h.__code__ = h2.__code__ ~ h.__code__ = (lambda v, k=1, acc=(), *, j=1: v * {k}).__code__
h = h2 ~ h2 = h ~ h.tag = {k} ~ h.more = 1 ~ vars(h).pop("more", 0) ~ h.__name__ = "n{k}" ~ h.__qualname__ = "q{k}" ~ h.__doc__ = "d"
h.__dict__ = {"tag": {k}} ~ h.__annotations__ = {"v": {k}} ~ closure.put({k}) ~ closure.put({v}) ~ closure.drop() ~ closure.put(2)
closure.table["a"] = {k} ~ closure.table["b"] = {k} ~ closure.swap({"a": {k}}) ~ closure = maker({k}) ~ part = functools.partial(h, k={k})
part = functools.partial(h2) ~ part.keywords["k"] = {k} ~ LAMBDAS.reverse() ~ LAMBDAS[0] = lambda v: v - {k} ~ LAMBDAS.append(abs)
LAMBDAS[0].__code__ = (lambda v: v * {k}).__code__ ~ wrapped.extra = {k} ~ wrapped.__wrapped__ = lambda v: v + {k} ~ wrapped.__name__ = "w{k}"
wrapped = deco(lambda v: v * {k}) ~ wrapped.__closure__[0].cell_contents = lambda v: v - {k} ~ len = lambda v: {k} ~ max = lambda *a: {k}
abs = lambda v: {k} ~ int = float ~ sorted = lambda v: v ~ isinstance = lambda a, b: {k} ~ range = lambda n: [5, {k}]
[globals().pop(n, 0) for n in ("len", "max", "abs", "int", "sorted", "isinstance", "range")] ~ def inner_default(v, k={k}): return v * k
inner_default.__defaults__ = ({k},) ~ def h(v, k={k}, acc=(), *, j=1): return v + k + A ~ A = {k}
""",
)

subject(
    "modules",
    """
other.value ~ other.fn(x) ~ other.things[0] ~ len(other.things) ~ other.K.v ~ other.K().v ~ hasattr(other, "more") ~ getattr(other, "more", 3)
math.sqrt(4) ~ math.pi ~ F.relu(x) ~ torch.relu(x) ~ x.relu() ~ os.environ.get("FUSELAB_TEST_X", "none") ~ sys.getrecursionlimit() > 5 ~ imported()
imported2() ~ len(sys.path) > 0 ~ torch.pi ~ x.helper() if hasattr(x, "helper") else 0 ~ other.__name__
""",
    """
other.value = {k} ~ other.value += 1 ~ other.things.append({k}) ~ other.K.v = {k} ~ other.more = {v} ~ other.fresh = x
""",
    """
other.value = {v} ~ other.value = {k} ~ other.things.append({k}) ~ other.things = [{k}] ~ other.fn = lambda v: v * {k}
other.fn.__globals__["value"] = {k} ~ other.K.v = {k} ~ other.K = type("K", (), {"v": {k}}) ~ other.more = {k} ~ vars(other).pop("more", 0)
other = types.ModuleType("other{k}"); vars(other).update(vars(sys.modules["other"])) ~ sys.modules["other"].value = {k}
sys.modules["other"] = types.SimpleNamespace(value={k}) ~ sys.modules["other"] = other ~ other.__getattr__ = lambda name: {k}
vars(other).pop("__getattr__", 0) ~ os.environ["FUSELAB_TEST_X"] = "v{k}" ~ os.environ.pop("FUSELAB_TEST_X", 0)
math = types.SimpleNamespace(sqrt=lambda v: {k}, pi={k}) ~ F = types.SimpleNamespace(relu=lambda v: v * {k})
torch.Tensor.helper = lambda self: self * {k} ~ if hasattr(torch.Tensor, "helper"): del torch.Tensor.helper ~ other.__name__ = "n{k}"
""",
)

subject(
    "nets",
    """
net(x) ~ net(x) ~ net(x) ~ net.lin(x) ~ net.norm(x) ~ net.drop(x) ~ net.scale ~ net.scale * x ~ net.missing is None ~ net.rate ~ net.depth
net.config["k"] ~ net.config["names"][0] ~ net.training ~ net.lin.training ~ len(net.layers) ~ [type(l).__name__ for l in net.layers] ~ net.by["a"](x)
list(net.by) ~ net.params[0] * x ~ len(net.params) ~ len(list(net.parameters())) ~ [n for n, _ in net.named_parameters()]
[n for n, _ in net.named_buffers()] ~ [n for n, _ in net.named_children()] ~ len(list(net.modules())) ~ net.lin.weight.requires_grad
net.lin.weight.shape ~ net.lin.bias is None ~ net.lin.weight.grad is None ~ net.lin.in_features ~ hasattr(net, "more") ~ getattr(net, "more", 4)
net.layers[0](x) ~ net.layers[-1](x) ~ net.act(x) ~ net.lin.weight.sum() ~ net.lin.weight is net.layers[0].weight
sum(p.numel() for p in net.parameters()) ~ net.drop.p ~ type(net).__name__ ~ "scale" in net.state_dict() ~ len(net._forward_hooks) ~ net.forward(x)
isinstance(net.lin, nn.Linear) ~ net.lin.extra_repr() ~ net.norm.running_mean ~ net.norm.num_batches_tracked ~ net.get_buffer("scale")
net.get_submodule("lin")(x) ~ any(p.requires_grad for p in net.parameters())
""",
    """
net.depth += 1 ~ net.rate = {k} ~ net.config["k"] = {k} ~ net.config["names"].append("w") ~ net.scale.add_(1) ~ net.scale = torch.full((3,), {k}.0)
net.more = x ~ net.norm.momentum = 0.5 ~ net.extra = L ~ net.eval() ~ net.train() ~ net.act = torch.tanh ~ net.missing = x[0] ~ net.lin.bias = None
""",
    """
net.eval() ~ net.train() ~ net.lin.eval() ~ net.norm.eval() ~ net.norm.train() ~ net.drop.train() ~ net.drop.eval() ~ net.drop.p = 0.{k}
net.double() ~ net.float() ~ net.to(torch.bfloat16) ~ net.requires_grad_(False) ~ net.requires_grad_(True) ~ net.lin.weight.requires_grad_(False)
net.lin.bias = None ~ net.lin.bias = nn.Parameter(torch.full((3,), {k}.0))
net.lin = nn.Linear(3, 3); nn.init.constant_(net.lin.weight, 0.{k}); nn.init.zeros_(net.lin.bias)
net.lin.weight = nn.Parameter(torch.full((3, 3), 0.{k})) ~ net.lin.weight.data = torch.full((3, 3), 0.{k}) ~ net.lin.weight.data.mul_({k})
torch.nn.init.constant_(net.lin.weight, {k}) ~ net.lin.weight = net.layers[0].weight if hasattr(net.layers[0], "weight") else net.lin.weight
net.lin.weight.grad = torch.ones_like(net.lin.weight) ~ net.lin.weight.grad = None ~ net.lin = nn.Identity() ~ net.lin = lambda v: v
net.lin.in_features = {k} ~ net.scale = torch.full((3,), {k}.0) ~ net.scale = torch.full((1,), {k}.0)
net.scale = torch.full((3,), {k}.0, dtype=torch.float64) ~ net.scale.fill_({k}) ~ net.scale = None
net.register_buffer("missing", torch.ones({k} + 1)) ~ net.missing = None ~ net.missing = torch.ones(3) ~ del net.scale; net.scale = {k}
vars(net).pop("scale", 0); net.register_buffer("scale", torch.full((3,), 2.0)) ~ net.register_buffer("fresh{k}", torch.ones(1)) ~ net.rate = {k}
Net.rate = {k} ~ net.depth = {v} ~ net.config["k"] = {v} ~ net.config["names"].insert(0, "z{k}") ~ net.config = {"k": {k}, "names": ["q"]}
net.layers.append(nn.Tanh()) ~ net.layers[1] = nn.Sigmoid() ~ net.layers = net.layers[:1] ~ net.layers.insert(0, nn.Hardtanh())
net.layers = nn.Sequential(nn.Linear(3, 3)); net.layers[0].weight.data.fill_(0.5); net.layers[0].bias.data.fill_({k}) ~ net.by["a"] = nn.ReLU()
net.by["c"] = nn.Softsign() ~ net.by.pop("b") if "b" in net.by else 0 ~ net.params.append(nn.Parameter(torch.ones({k} + 1)))
net.params[0] = nn.Parameter(torch.full((3,), {k}.0)) ~ net.register_parameter("extra{k}", nn.Parameter(torch.ones(1))) ~ net.act = F.gelu
net.act = torch.tanh ~ net.act = nn.Tanh() ~ net.act = lambda v: v * {k} ~ net.more = {k} ~ Net.more = {k} ~ if hasattr(Net, "more"): del Net.more
vars(net).pop("more", 0) ~ net.forward = lambda v: v * {k} ~ vars(net).pop("forward", 0) ~ Net.forward = lambda self, v: self.lin(v) + {k}
nn.Linear.extra = {k} ~ handles.append(net.register_forward_hook(lambda m, a, o: o * {k}))
handles.append(net.lin.register_forward_hook(lambda m, a, o: o * {k}) if isinstance(net.lin, nn.Module) else net.register_forward_hook(lambda m, a, o: o))
handles.append(net.register_forward_pre_hook(lambda m, a: (a[0] + {k},)))
! handles.append(torch.nn.modules.module.register_module_forward_hook(lambda m, a, o: o + {k}))
! handles.append(torch.nn.modules.module.register_module_forward_pre_hook(lambda m, a: (a[0] * {k},))) ~ if handles: handles.pop().remove() ~ reset()
net = Net() ~ net.__class__ = type("Net2", (Net,), {"rate": {k}}) ~ net.norm.running_mean = torch.full((3,), {k}.0) ~ net.norm.momentum = 0.{k}
net.norm.track_running_stats = False ~ net.norm.eps = {k}.0 ~ net.norm.weight = None ~ net.norm.affine = False ~ net.zero_grad()
net.load_state_dict({n: torch.full_like(t, {k}) for n, t in net.state_dict().items()}) ~ net._modules["lin"] = nn.Tanh()
net._buffers["scale"] = torch.full((3,), {k}.0) ~ net.__dict__["rate"] = {k}
torch.nn.utils.parametrize.register_parametrization(net.layers[0], "weight", nn.Tanh()) if isinstance(net.layers[0], nn.Linear) else 0
""",
)

subject(
    "tensors",
    """
W ~ W * x ~ W.shape ~ W.stride() ~ W.storage_offset() ~ W.is_contiguous() ~ W.dtype ~ W.requires_grad ~ W.is_leaf ~ W.grad is None ~ W.grad_fn is None
W.ndim ~ W.numel() ~ len(W) ~ W is x ~ W is y ~ x is y ~ x + y ~ x.add(1).stride() ~ x.is_contiguous() ~ x.storage_offset() ~ x.requires_grad
x.grad is None ~ x.grad_fn is None ~ x.is_leaf ~ x.dtype == torch.float32 ~ type(x).__name__ ~ isinstance(x, nn.Parameter) ~ hasattr(x, "tag")
getattr(x, "tag", 4) ~ x.element_size() ~ x.view(-1) if x.is_contiguous() else 0 ~ x.T.is_contiguous() ~ x.size(0) ~ x.shape[-1] * 2 ~ x.numel() > {k}
W._base is None ~ W._is_view() ~ W.is_conj() ~ W.is_neg() ~ W.layout ~ W.is_inference() ~ W.names ~ x.device.type ~ W.data_ptr() == x.data_ptr()
x.sum() * W.sum() ~ x.mul_(2) is x ~ x.storage_offset() + x.stride(0) ~ x.unsqueeze(0).shape ~ x.dim() == W.dim() ~ list(x.shape)
x.is_floating_point() ~ torch.is_tensor(N) ~ torch.result_type(x, W) ~ x.detach().requires_grad ~ W.retains_grad ~ W.output_nr ~ W.itemsize ~ W.nbytes
W.is_sparse ~ x.grad ~ [v.sum() for v in x] ~ x.tolist() if x.numel() < 2 else 0 ~ W.__class__ ~ torch.equal(x, W)
""",
    """
x.add_(1) ~ W.mul_(2) ~ W = W + 1 ~ y[0] = 7 ~ x.tag = {k} ~ W = x ~ y = y * 2 ~ N = x.detach() ~ W = x[:1] ~ x.zero_() ~ N = W.clone()
""",
    """
W = {t} ~ W = {t} ~ x = {t} ~ x = {t} ~ x = {t} ~ y = {t} ~ y = x ~ x = y ~ W = x ~ x = W ~ y = x[0:1] ~ y = x.T ~ x.tag = {k}
W.requires_grad_(True) if W.is_leaf and W.is_floating_point() else 0 ~ W = W.detach() ~ x = x.detach()
W.grad = torch.ones_like(W) if W.is_leaf and W.is_floating_point() else None ~ W.grad = None
x.grad = torch.full_like(x, {k}) if x.is_leaf and x.is_floating_point() else None ~ x.grad = None ~ W = torch.ones(2, 3).t()
W = torch.ones(4, 3)[{k} % 3:] ~ W.t_() if not W.requires_grad else 0 ~ W = torch.ones(2, 3, dtype=torch.complex64).conj() ~ W = W + 1
W.data = torch.ones({k} + 1, 3) ~ W.data = torch.ones(2, 3).double() if not W.requires_grad else W.data
W.set_(torch.arange(6.0).reshape(3, 2)) if not W.requires_grad else 0 ~ x = nn.Parameter(torch.ones(2, 3)) ~ W = nn.Parameter(torch.ones(2, 3))
with torch.inference_mode(): W = torch.ones(2, 3) ~ x = torch.ones(2, 3).expand(4, 2, 3) ~ x = x.double() ~ x = x.float() ~ x = x[..., :1] ~ x = {k}
N = W ~ N = None ~ W.retain_grad() if W.requires_grad else 0
""",
)

subject(
    "modes",
    """
torch.is_grad_enabled() ~ torch.is_inference_mode_enabled() ~ (x.sum() * p).requires_grad ~ (p * 2).requires_grad ~ x @ x.T
torch.is_autocast_enabled("cpu") ~ torch.get_autocast_dtype("cpu") ~ torch.get_default_dtype() ~ torch.ones(2).dtype ~ torch.tensor(1.5).dtype
x.new_ones(2) ~ torch.get_default_device().type ~ torch.are_deterministic_algorithms_enabled() ~ torch.get_num_threads()
torch.get_float32_matmul_precision() ~ torch.backends.mkldnn.enabled ~ torch.backends.cudnn.benchmark ~ torch.backends.cudnn.deterministic
torch.is_anomaly_enabled() ~ torch.full((2,), 1) ~ torch.arange(3.0) ~ torch.empty(2).shape ~ torch.zeros(2) + x.sum() ~ random.random()
torch.rand(2) ~ torch.finfo(torch.get_default_dtype()).eps ~ torch.is_deterministic_algorithms_warn_only_enabled()
torch.utils.deterministic.fill_uninitialized_memory ~ torch.backends.mha.get_fastpath_enabled()
torch.promote_types(torch.get_default_dtype(), torch.int32) ~ torch.linspace(0, 1, 3) ~ F.linear(x, x) ~ torch.nn.functional.softmax(x, -1)
1.5 + torch.ones(2, dtype=torch.int32) ~ net(x) ~ nn.Linear(2, 2).weight.dtype
""",
    """
random.random() ~ W = torch.rand(2) ~ N = torch.ones(2) ~ W = x @ x.T
""",
    """
torch.set_grad_enabled(False) ~ torch.set_grad_enabled(True) ~ torch.set_default_dtype(torch.float64) ~ torch.set_default_dtype(torch.float32)
torch.set_default_device("meta") ~ torch.set_default_device("cpu") ~ torch.set_default_device(None) ~ torch.use_deterministic_algorithms(True)
torch.use_deterministic_algorithms(True, warn_only=True) ~ torch.use_deterministic_algorithms(False) ~ torch.set_num_threads({k} + 1)
torch.set_float32_matmul_precision("high") ~ torch.set_float32_matmul_precision("highest") ~ torch.backends.mkldnn.flags(enabled=False).__enter__()
torch.backends.mkldnn.enabled = True ~ torch.backends.cudnn.benchmark = True ~ torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = {k} > 1 ~ torch.set_anomaly_enabled(True) ~ torch.set_anomaly_enabled(False)
torch.set_autocast_enabled("cpu", True) ~ torch.set_autocast_enabled("cpu", False) ~ torch.set_autocast_dtype("cpu", torch.float16)
torch.set_autocast_dtype("cpu", torch.bfloat16) ~ torch.utils.deterministic.fill_uninitialized_memory = {k} > 1
torch.backends.mha.set_fastpath_enabled({k} > 1) ~ x = {t}
""",
)

subject(
    "arguments",
    """
args ~ args[0] ~ len(args) ~ named.get("p") ~ named ~ list(named) ~ "r" in named ~ d ~ x * d ~ x * args[0] ~ named["q"] ~ args[-1] ~ sum(args[:1])
sorted(named) ~ [k for k in named] ~ d is N ~ args[0] is d ~ len(named) ~ bool(args) ~ max(*args, 0) ~ isinstance(args[0], int) ~ {**named, "z": 1}
""",
    """
args += (1,) ~ named["r"] = {k} ~ d = args ~ x.add_(1) ~ args[0].append({k}) ~ named.pop("p", 0) ~ del d; d = 2 ~ args[0].own = {k}
""",
    """
ARGS = ({v},) ~ ARGS = ({k}, {v}) ~ ARGS = () ~ ARGS = ({t}, {k}) ~ NAMED = {"p": {v}} ~ NAMED = {"q": 1, "p": {v}} ~ NAMED = {} ~ NAMED["r"] = {t}
f.__kwdefaults__ = {"d": {v}} ~ f.__kwdefaults__["d"] = {k} ~ NAMED["d"] = {v} ~ NAMED.pop("d", 0) ~ ARGS = (L, L) ~ ARGS = (L, M) ~ L.append({k})
ARGS = (thing, {k}) ~ ARGS = (Thing(), thing) ~ ARGS = (D, {k}) ~ D["a"] = {k} ~ ARGS = (h, {k}) ~ ARGS = (h2,) ~ ARGS = (x, {k}) ~ x = {t} ~ N = 1
ARGS = (Color.RED,) ~ ARGS = (Color.BLUE,) ~ ARGS = (int, {k}) ~ ARGS = (float,) ~ ARGS = (Point({k}), 1) ~ ARGS = (Pair({k}), 1) ~ ARGS = ((1, {k}), {k})
ARGS = ([{k}, {k}], 1) ~ ARGS = ({1: {k}}, 2) ~ ARGS = ({{k}, 2},) ~ ARGS = (slice({k}, 2),) ~ ARGS = (range({k}),) ~ ARGS = (torch.float32,)
""",
)

CONSTANTS = ("0", "1", "2", "3", "5")
VALUES = ("0", "1", "True", "2.0", "-1", "None", "'ab'", "(1, 2)", "2.5", "[1]", "False", "7", "float('nan')", "-0.0", "''", "10**20")
TENSORS = (
    "torch.arange(6.0).reshape(2, 3)", "torch.ones(2, 3)", "torch.ones(3, 2)", "torch.ones(2, 3, dtype=torch.float64)", "torch.ones(4, 3)",
    "torch.ones(2, 3, dtype=torch.int64)", "torch.ones(3, 2).T", "torch.ones(2, 3, requires_grad=True)", "torch.ones(1, 3)", "torch.ones(0, 3)",
    "torch.tensor(2.0)", "torch.ones(2, 6)[:, ::2]", "torch.ones(3, 3)[1:]", "torch.ones(3)", "torch.ones(2, 3, dtype=torch.bool)",
    "torch.ones(2, 1).expand(2, 3)", "torch.ones(2, 3, 1)[..., 0]", "nn.Parameter(torch.ones(2, 3))", "torch.ones(5, 3)", "torch.ones(2, 3) * 3",
    "torch.ones(2, 3, dtype=torch.bfloat16)", "torch.ones(2, 3, requires_grad=True) * 2", "torch.ones(2, 3, dtype=torch.complex64)",
)  # fmt: skip
