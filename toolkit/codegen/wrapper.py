"""The wrapper: Python source of `call(args)`, which allocates, launches, calls ATen, lets go, and returns the outputs with eager's strides.

It reads top to bottom as what happens. `args` is emptied, so that an input nobody else holds dies at its last use. Names of buffers are the
schedule's; a kernel is called by its name.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch

from ..errors import InternalError
from ..loops.ir import Buffer, ComputedBuffer, ConstantBuffer, ExternKernel, InputBuffer, MultiOutput, ReinterpretView
from ..loops.layout import Layout
from ..scheduling import ExternSchedulerNode, Schedule
from ..scheduling.depends import tensors_in
from ..scheduling.memory import Allocate, Plan, Reuse, size_in_bytes
from ..shapes.text import python as python_text
from .kernel import Kernel
from .writer import Writer

# Ops whose Python binding is the same call with less ceremony than the operator object.
BINDINGS = {
    "aten.mm.out": "torch.mm", "aten.addmm.out": "torch.addmm", "aten.bmm.out": "torch.bmm", "aten.baddbmm.out": "torch.baddbmm",
    "aten.mm.default": "torch.mm", "aten.addmm.default": "torch.addmm", "aten.bmm.default": "torch.bmm",
    "aten.convolution.default": "torch.convolution",
}  # fmt: skip
LARGE = 32 << 20  # bytes of memory that is asked for in large pages (see runtime/large.py)
OF_SIZES = {"max", "min", "abs", "int", "float", "bool", "round", "pow"}  # what the text of a size may call
RESERVED = {"args", "call", "torch", "empty_strided", "empty_large", "as_strided", "settled", "fitting", "unfit", "math"} | OF_SIZES


def write_wrapper(
    schedule: Schedule, plan: Plan, launches: dict[int, Kernel], taken: Iterable[str]
) -> tuple[str, dict[str, Callable[..., Any]]]:
    """(source, objects it names that have no dotted name). `launches` gives the kernel of each group that is one, by id; `taken` are names
    in use."""
    return Wrapper(schedule, plan, launches, set(taken)).write()


class Wrapper:
    def __init__(self, schedule: Schedule, plan: Plan, launches: dict[int, Kernel], taken: set[str]) -> None:
        self.schedule, self.graph, self.plan, self.launches = schedule, schedule.graph, plan, launches
        kernels = {k.name for k in launches.values()}
        self.reserved = RESERVED | kernels | {s.name for s in self.graph.symbols} | set(keyword.kwlist)
        self.taken = taken | self.reserved
        self.functions: dict[Any, str] = {}
        self.imports: dict[str, str] = {}
        self.objects: dict[str, Any] = {}
        self.buffers = self.graph.buffers()
        self.checks = list(self.graph.checks)
        self.known = set[sympy.Symbol]()
        self.out = Writer("    ")

    def write(self) -> tuple[str, dict[str, Any]]:
        self.out.line("def call(args):")
        with self.out.indented():
            self._inputs()
            for step, group in enumerate(self.schedule.groups):
                for action in self.plan.before[step]:
                    self._memory(action)
                if id(group) in self.launches:
                    self._launch(self.launches[id(group)])
                else:
                    assert isinstance(group, ExternSchedulerNode)
                    self._extern(group.buffer)
                if step + 1 < len(self.schedule.groups):
                    self._let_go(self.plan.after[step])
            if self.checks:
                raise InternalError(f"nobody tells the sizes of {self.checks[0][0]}")
            self.out.line(f"return [{', '.join(self.value(o) for o in self.graph.outputs)}]")
        head = "".join(f"{name} = {path}\n" for name, path in self.imports.items())
        return head + ("\n\n" if head else "") + self.out.text() + "\n", self.objects

    # -- names and values

    def name(self, buffer: str) -> str:
        return buffer + "_" if buffer in self.reserved else buffer

    def text(self, e: Any) -> str:
        return size_text(e)

    def tuple(self, values: Iterable[Any]) -> str:
        parts = [self.text(v) for v in values]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def value(self, v: Any) -> str:
        """Python text of an argument or output."""
        if isinstance(v, Buffer):
            return self.name(v.name)
        if isinstance(v, ReinterpretView):
            return self.view(v)
        if isinstance(v, sympy.Basic):
            return self.text(v)
        if isinstance(v, list):
            return f"[{', '.join(self.value(x) for x in v)}]"
        if isinstance(v, tuple):
            return f"({', '.join(self.value(x) for x in v)}{',' if len(v) == 1 else ''})"
        return self.constant(v)

    def constant(self, v: Any) -> str:
        if isinstance(v, float) and not math.isfinite(v):
            return f"float('{v}')"
        if v is None or isinstance(v, (bool, int, float, str)):
            return repr(v)
        if isinstance(v, torch.device):
            return f"torch.device('{v}')"
        if isinstance(v, (torch.dtype, torch.layout, torch.memory_format)):
            return str(v)
        return self.object(v, type(v).__name__.lower())

    def object(self, v: Any, name: str) -> str:
        """A thing without text: it is put into the wrapper's globals under a name."""
        known = next((n for n, o in self.objects.items() if o is v), None)
        if known is None:
            known = self.unused(name)
            self.objects[known] = v
        return known

    def unused(self, name: str) -> str:
        found, number = name, 0
        while found in self.taken:
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found)
        return found

    def view(self, v: ReinterpretView) -> str:
        base, layout = self.name(v.buffer.name), v.layout
        if layout.dtype is not v.buffer.layout.dtype:
            base = f"{base}.view({layout.dtype})"
        offset = "" if layout.offset == 0 else f", {self.text(layout.offset)}"
        if offset and not _ours(v.buffer):
            offset += f" + {self.name(v.buffer.name)}.storage_offset()"
        return f"as_strided({base}, {self.tuple(layout.size)}, {self.tuple(layout.stride)}{offset})"

    # -- lines

    def _inputs(self) -> None:
        names = [self.name(n) for n in self.graph.inputs]
        if names:
            self.out.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = args")
            self.out.line("args.clear()")
        for name in self.graph.inputs:
            self._sizes(name)
        dead = [n for n in self.graph.input_buffers if n not in self._touched()]
        if dead:
            self.out.line(f"del {', '.join(map(self.name, dead))}")

    def _sizes(self, name: str) -> bool:
        """Read the size symbols that a tensor or number tells; whether there were any."""
        told = [(s, dim) for s, (source, dim) in self.graph.symbols.items() if source == name]
        for symbol, dim in told:
            if dim is not None or symbol.name != self.name(name):
                read = "" if dim is None else f".stride({dim[1]})" if isinstance(dim, tuple) else f".size({dim})"
                self.out.line(f"{symbol.name} = {self.name(name)}{read}")
        self.known.update(s for s, _ in told)
        for condition, said in [c for c in self.checks if c[0].free_symbols <= self.known]:
            self.checks.remove((condition, said))
            self.out.line(f"if not ({self.text(condition)}):")
            with self.out.indented():
                self.out.line(f"raise unfit({said!r})")
        return bool(told)

    def _touched(self) -> set[str]:
        outputs = {b.name for b in tensors_in(list(self.graph.outputs))}
        return outputs.union(*(g.names() for g in self.schedule.groups))

    def _memory(self, action: Allocate | Reuse) -> None:
        layout, name = self.buffers[action.name].layout, self.name(action.name)
        if isinstance(action, Allocate):
            device = "" if layout.device.type == "cpu" else f", device='{layout.device}'"
            large = not device and size_in_bytes(layout.extent(), self.buffers[action.name], self.schedule.hints) >= LARGE
            places = f"{self.tuple(layout.size)}, {self.tuple(layout.stride)}"
            self.out.line(f"{name} = empty_{'large' if large else 'strided'}({places}, dtype={layout.dtype}{device})")
            return
        old, before = self.name(action.old), self.buffers[action.old].layout
        if (before.size, before.stride) == (layout.size, layout.stride):
            self.out.line(f"{name} = {old}" + ("  # in place" if action.inplace else ""))
        else:
            self.out.line(f"{name} = as_strided({old}, {self.tuple(layout.size)}, {self.tuple(layout.stride)})")
        if not action.inplace:
            self.out.line(f"del {old}")

    def _launch(self, kernel: Kernel) -> None:
        self.out.line(f"{kernel.name}({', '.join(a.buffer if a.is_size else self.name(a.buffer) for a in kernel.signature)})")

    def _extern(self, buffer: Buffer) -> None:
        if isinstance(buffer, MultiOutput):
            if buffer.planned:
                return
            self._result(buffer, self.name(buffer.parent.name) + "".join(f"[{i}]" for i in buffer.path), True)
            return
        assert isinstance(buffer, ExternKernel)
        args = [self.value(a) for a in buffer.args] + [f"{k}={self.value(v)}" for k, v in buffer.kwargs.items()]
        name = self.name(buffer.name)
        if buffer.out is not None:
            made = buffer.parts if buffer.several else [buffer]
            args += [f"{a}={self.name(b.name)}" for a, b in zip(buffer.into, made, strict=True)]
            self.out.line(f"{name + ' = ' if buffer.several else ''}{self.function(buffer.out)}({', '.join(args)})")
            return
        text = f"{self.function(buffer.target)}({', '.join(args)})"
        self._result(buffer, text, not (buffer.several or buffer.mutates or buffer.opaque))

    def _result(self, buffer: Buffer, text: str, promised: bool) -> None:
        """Name what ATen gave; its strides are checked if they were `promised`. Sizes nobody knew before are read off it."""
        name = self.name(buffer.name)
        if any(source == buffer.name for source, _ in self.graph.symbols.values()):
            self.out.line(f"{name} = {text}")
            self._sizes(buffer.name)
            text = name
        elif self._as_found_elsewhere(buffer):
            text = f"fitting({text}, {self.tuple(buffer.layout.size)})"
        if promised:
            text = self.settled(text, buffer.layout)
        if text != name:
            self.out.line(f"{name} = {text}")

    def _as_found_elsewhere(self, buffer: Buffer) -> bool:
        """Its size depends on data, and is assumed to be that of another result."""
        sizes = {s for n in buffer.layout.size for s in n.free_symbols}
        target = getattr(getattr(buffer, "parent", buffer), "target", None)
        own = torch.Tag.dynamic_output_shape in getattr(target, "tags", ())
        return own and any(self.graph.symbols[s][0] not in self.graph.inputs for s in sizes)

    def settled(self, text: str, layout: Layout) -> str:
        """A result of ATen with the strides that were promised."""
        return f"settled({text}, {self.tuple(layout.size)}, {self.tuple(layout.stride)})"

    def function(self, target: Any) -> str:
        """A global name for a callable."""
        if target not in self.functions:
            path = dotted(target)
            name = getattr(target, "__name__", "function").replace(".default", "").replace(".", "_")
            self.functions[target] = self.unused(name) if path else self.object(target, name)
            if path:
                self.imports[self.functions[target]] = path
        return self.functions[target]

    def _let_go(self, names: list[str]) -> None:
        gone = [self.name(n) for n in names if n not in self.graph.scalars]
        if gone:
            self.out.line(f"del {', '.join(gone)}")


def size_text(e: Any) -> str:
    return python_text(sympy.sympify(e))


def dotted(target: Any) -> str:
    """How to reach an operator from `torch`, or "" if there is no such path."""
    if isinstance(target, torch._ops.OpOverload):
        text = str(target)
        base, _, overload = text.rpartition(".")
        plain = f"torch.ops.{text}" if not keyword.iskeyword(overload) else f"getattr(torch.ops.{base}, {overload!r})"  # random.from
        return BINDINGS.get(text) or plain
    for module, path in ((torch, "torch"), (torch.nn.functional, "torch.nn.functional")):
        name = getattr(target, "__name__", "")
        if name and getattr(module, name, None) is target:
            return f"{path}.{name}"
    return ""


def _ours(buffer: Buffer) -> bool:
    """Allocated by the wrapper: its storage offset is 0."""
    if isinstance(buffer, MultiOutput):
        return buffer.planned
    return isinstance(buffer, ComputedBuffer) or (isinstance(buffer, ExternKernel) and buffer.out is not None)


__all__ = ["ConstantBuffer", "InputBuffer", "Wrapper", "dotted", "write_wrapper"]
