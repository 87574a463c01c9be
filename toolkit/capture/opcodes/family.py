"""What the opcode families see of the interpreter they are mixed into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from ..bytecode import Body, Instruction
    from ..operations import Operations
    from ..variables.base import VariableTracker
    from ..variables.cells import CellVariable

    class Family(Operations):
        code: CodeType
        body: Body
        namespace: dict[str, Any]
        locals: dict[str, VariableTracker]
        cells: dict[str, CellVariable]
        stack: list[VariableTracker]
        function: VariableTracker | None
        index: int
        next: int
        kw_names: tuple[str, ...]
        result: VariableTracker | None
        yielded: VariableTracker | None

        def push(self, value: VariableTracker) -> None: ...
        def pop(self) -> VariableTracker: ...
        def pop_lazy(self) -> VariableTracker: ...
        def popn(self, count: int) -> list[VariableTracker]: ...
        def jump(self, target: Instruction | None) -> None: ...
else:

    class Family:
        """Nothing at run time: the methods are the interpreter's."""
