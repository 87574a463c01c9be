"""numpy on numbers: `np.sqrt(width)`, `np.prod(x.shape)`. Functions of known values run at once; its scalars are constants like Python's.

Arrays are not followed: a function that gives one, or takes one, breaks the graph.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from ..guards import GuardKind
from .base import Args, Kwargs, NotConstant, VariableTracker
from .builtins import BuiltinVariable
from .constant import ConstantVariable
from .rules import PURE, fold_if_constant

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder
    from ..source import Source

try:
    import numpy
except ImportError:  # torch runs without it
    SCALARS: tuple[type, ...] = ()
    FUNCTIONS: tuple[type, ...] = ()
else:
    SCALARS = (numpy.number, numpy.bool_)
    PURE.update(kind for kind in numpy.sctypeDict.values() if issubclass(kind, SCALARS))
    FUNCTIONS = (numpy.ufunc, type(numpy.prod), types.FunctionType, types.BuiltinFunctionType)
_ACTING = ("numpy.random", "numpy.testing", "numpy.lib.npyio", "numpy.lib._npyio_impl")  # modules whose functions do more than compute


class NumpyScalarVariable(ConstantVariable):
    """A numpy scalar, immutable. To an operation of torch it is the Python number."""

    def proxy(self, tx: Interpreter) -> Any:
        return self.value.item()

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.value)


class NumpyFunctionVariable(BuiltinVariable):
    """A function of numpy that computes."""

    def describe(self) -> str:
        return f"numpy.{self.function.__name__}"

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            answer = fold_if_constant(tx, self._scalar, args, kwargs)
        except NotConstant:
            answer = None
        return answer if answer is not None else tx.break_graph("numpy", f"{self.describe()} works on arrays")

    def _scalar(self, *args: Any, **kwargs: Any) -> Any:
        value = self.function(*args, **kwargs)
        if isinstance(value, (bool, int, float, *SCALARS)):
            return value
        raise NotConstant("an array")


def wrap_numpy(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if SCALARS and isinstance(value, SCALARS):
        tx.guard(GuardKind.CONSTANT_EQUALS, source, value)
        return NumpyScalarVariable(value, source)
    if not isinstance(value, FUNCTIONS) or not _computes(value):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return NumpyFunctionVariable(value, source)


def _computes(function: Any) -> bool:
    module = getattr(function, "__module__", None) or ("numpy" if type(function).__name__ == "ufunc" else "")
    return module.partition(".")[0] == "numpy" and not module.startswith(_ACTING)
