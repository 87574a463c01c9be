"""C++ kernels from scheduled loops.

One function a kernel, `extern "C" const char* NAME(void* const* p, const int64_t* n)`: pointers to tensors' first elements, then sizes; the
result is null, or what went wrong. This file writes the function's frame; `cpp_text.py` tells where the rest is.
"""

from __future__ import annotations

from ..provenance import trail
from ..scheduling.loop_order import Hints
from ..scheduling.nodes import FusedSchedulerNode
from .cpp_loops import CppLoops
from .cpp_prelude import C_TYPES
from .cpp_special import FREXP, INCLUDE
from .kernel import Arg, Kernel, Memory
from .names import header, kernel_name
from .tiling import kept_rows
from .writer import Writer


def write_kernel(group: FusedSchedulerNode, number: int, memory: Memory, hints: Hints) -> Kernel:
    """The C++ kernel of a scheduled group."""
    name = kernel_name(group, number)
    signature, text = CppKernel(group, name, hints, {n: memory[n].dtype for n in group.names()}).write()
    origins = frozenset([trail.add("kernel", name, group.origins)]) if group.origins else frozenset()
    return Kernel(name, "cpp", text.text() + "\n", signature, origins, tuple(n.buffer for n in group.nodes), text.line_origins())


class CppKernel(CppLoops):
    """Writes one kernel."""

    def write(self) -> tuple[tuple[Arg, ...], Writer]:
        text = Writer()
        for line in header(self.group, self.name):
            text.line(f"// {line}")
        included = text.section()
        with text.block(f'extern "C" const char* {self.name}(void* const* p, const int64_t* n)'):
            head = text.section()
            self.out = text.section()
            self.form()
            if self.streamed:
                text.line("fence();")
            text.line(self._return())
        self._head(head)
        for line in (INCLUDE, *FREXP.splitlines()) if self.includes else ():
            included.line(line)
        return self.signature(), text

    def _head(self, head: Writer) -> None:
        signature = self.signature()
        for i, arg in enumerate(signature):
            if arg.is_size:
                head.line(f"const int64_t {arg.name} = n[{i - len(self.used)}];")
                continue
            kind = ("const " if arg.kind == "in" else "") + C_TYPES[arg.dtype]
            head.line(f"{kind}* __restrict {arg.name} = ({kind}*)p[{i}];")
        if self.codes:
            head.line("int bad = 0;")

    def _return(self) -> str:
        text = "nullptr"
        for code, message in sorted(self.codes.items(), reverse=True):
            text = f'bad & {code} ? "{message}" : {text}'
        return f"return {text};"


__all__ = ["CppKernel", "kept_rows", "write_kernel"]
