"""What trackers are asked, and in which order: the object protocol of Python over trackers.

`tx.call`, `tx.binary`, `tx.compare`, `tx.truth`, ... are the way to ask from anywhere; they realise, fold constants, try the operand
and its reflection, and raise the traced program's TypeError or break the graph when nobody answers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from .assumptions import Answer
from .breaks import LEAVING, BreakGraph, Observed
from .constants import same_constant
from .guards import Guard, GuardKind
from .source import ConstSource, Source
from .variables.base import Args, Kwargs, NotConstant, VariableTracker
from .words import class_name

if TYPE_CHECKING:
    from .effects import Effects
    from .graph import GraphBuilder
    from .trace import Trace

COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}
MIRRORED = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}


class Operations:
    """Mixed into Interpreter."""

    trace: Trace

    @property
    def graph(self) -> GraphBuilder:
        return self.trace.graph

    @property
    def effects(self) -> Effects:
        return self.trace.effects

    # -- trackers of objects ----------------------------------------------------------------------------------------------

    def realize(self, value: VariableTracker) -> VariableTracker:
        return value.realize(self)  # type: ignore[arg-type]

    def wrap(self, value: object, source: Source) -> VariableTracker:
        """The tracker of a real object that the compiled code finds at `source`; guards are made."""
        from .variables.wrap import wrap

        return wrap(self, value, source)  # type: ignore[arg-type]

    def wrap_constant(self, value: object) -> VariableTracker:
        """The tracker of a value known now and for good: no guard; the compiled code holds it."""
        from .variables.constant import constant_variable

        plain = constant_variable(value)
        return plain if plain is not None else self.wrap(value, ConstSource(value, getattr(value, "__name__", type(value).__name__)))

    def guard(self, kind: GuardKind, source: Source | None, expected: Any = None) -> None:
        """Assume something about the object at `source` (no source: nothing to check)."""
        self.trace.guard(kind, source, expected)

    def answered(self, function: Callable[..., Any], args: tuple[Any, ...], value: Any) -> None:
        """Assume that `function(*args)`, asked before the compiled code runs, gives `value` again."""
        self.trace.guards.add(Guard(GuardKind.STATE, None, Answer(function, value, args), self.trace.line()))

    def same_object(self, known: VariableTracker, source: Source) -> None:
        """`source` gave an object that has a tracker already: guard that both sources give one object."""
        if known.source is None or known.source == source:
            return
        first, second = (known.source, source) if isinstance(source, ConstSource) else (source, known.source)
        self.guard(GuardKind.SAME_OBJECT, first, second)

    def break_graph(self, id: str, reason: str, hint: str = "") -> NoReturn:
        """End the graph before the top frame's current instruction."""
        raise BreakGraph(id, reason, hint)

    def raise_error(self, kind: type[BaseException], /, *args: object, **attributes: object) -> NoReturn:
        """The traced program raises `kind(*args)` with these attributes (`vars(error)`: what its class's `__init__` set)."""
        from .variables.exceptions import ExceptionVariable

        values = [a if isinstance(a, VariableTracker) else self.wrap_constant(a) for a in args]
        self.raise_user(ExceptionVariable(kind, values, {name: self.wrap_constant(v) for name, v in attributes.items()}))

    def raise_user(self, exception: VariableTracker) -> NoReturn:
        raise NotImplementedError

    # -- questions ----------------------------------------------------------------------------------------------------------

    def call(self, function: VariableTracker, args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        """`function(*args, **kwargs)`."""
        function = self.realize(function)
        kwargs = kwargs or {}
        if not function.takes_lazy:
            args = [self.realize(a) for a in args]
            kwargs = {k: self.realize(v) for k, v in kwargs.items()}
        return function.call(self, args, kwargs)  # type: ignore[arg-type]

    def get_attr(self, value: VariableTracker, name: str) -> VariableTracker:
        value = self.realize(value)
        try:
            return self.realize(value.get_attr(self, name))  # type: ignore[arg-type]
        except Observed as missing:
            missing.variable.missed(self, value, name)  # type: ignore[arg-type]
            raise

    def binary(self, op: Callable[..., Any], left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """`op(left, right)`, op a function of `operator`; in-place ones (`iadd`) fall back to their plain form."""
        left, right = self.realize(left), self.realize(right)
        if left.is_constant() and right.is_constant():
            return self.fold(op, left.constant(), right.constant())
        if left.is_constant():
            op = PLAIN_FORM.get(op, op)
        answer = self._ask(op, left, right)
        if answer is None and op in PLAIN_FORM:
            answer = self._ask(PLAIN_FORM[op], left, right)
        if answer is None:
            self._no_operator(op.__name__, left, right)
        return answer

    def _ask(self, op: Callable[..., Any], left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
        if _comes_first(op, right, left):
            answer = right.reflected(self, op, left)  # type: ignore[arg-type]
            return answer if answer is not None else left.binary(self, op, right)  # type: ignore[arg-type]
        answer = left.binary(self, op, right)  # type: ignore[arg-type]
        return answer if answer is not None else right.reflected(self, op, left)  # type: ignore[arg-type]

    def _no_operator(self, name: str, *operands: VariableTracker) -> NoReturn:
        self._refuse_operands(name, operands)
        kinds = " and ".join(v.python_type().__name__ for v in operands)
        self.break_graph("unsupported-operator", f"{name} of {kinds}")

    def _refuse_operands(self, name: str, operands: tuple[VariableTracker, ...]) -> None:
        """Objects of user classes among plain values: their classes have been asked, so Python would raise."""
        from .variables.user_defined import UserObjectVariable

        objects = [v for v in operands if isinstance(v, UserObjectVariable)]
        if not objects or any(v.base is not None for v in objects):
            return
        if not all(v.is_constant() or v in objects or v.python_type() in (int, float) for v in operands):
            return
        kinds = " and ".join(f"'{class_name(v.python_type())}'" for v in operands)
        if name in COMPARE:
            self.raise_error(TypeError, f"'{name}' not supported between instances of {kinds}")
        if len(operands) == 1:
            self.raise_error(TypeError, f"bad operand type for unary {SYMBOLS[name]}: {kinds}")
        self.raise_error(TypeError, f"unsupported operand type(s) for {SYMBOLS[name]}: {kinds}")

    def unary(self, op: Callable[..., Any], value: VariableTracker) -> VariableTracker:
        """operator.neg, pos, invert, not_."""
        value = self.realize(value)
        if op is operator.not_:
            return self.wrap_constant(not self.truth(value))
        if value.is_constant():
            return self.fold(op, value.constant())
        answer = value.unary(self, op)  # type: ignore[arg-type]
        if answer is None:
            self._no_operator(op.__name__, value)
        return answer

    def compare(self, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """`left op right`, op one of < <= == != > >=."""
        left, right = self.realize(left), self.realize(right)
        if left.is_constant() and right.is_constant():
            return self.fold(COMPARE[op], left.constant(), right.constant())
        answer = None
        for one, symbol, other in ((right, MIRRORED[op], left), (left, op, right))[:: 1 if _derives(right, left) else -1]:
            if answer is None:
                answer = one.compare(self, symbol, other)  # type: ignore[arg-type]
        if answer is None and op in ("==", "!="):
            answer = self.wrap_constant(self.is_same(left, right) == (op == "=="))
        if answer is None:
            self._no_operator(op, left, right)
        return answer

    def fold(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> VariableTracker:
        """A pure function of Python values, run now; what it raises, the traced program raises."""
        try:
            value = function(*args, **kwargs)
        except (NotConstant, *LEAVING):
            raise
        except Exception as error:
            self.raise_error(type(error), *error.args, **vars(error))
        return self.wrap_constant(value)

    def truth(self, value: VariableTracker) -> bool:
        """bool(value)."""
        return self.realize(value).truth(self)  # type: ignore[arg-type]

    def length(self, value: VariableTracker) -> VariableTracker:
        """len(value)."""
        size = self.realize(value).length(self)  # type: ignore[arg-type]
        return size if isinstance(size, VariableTracker) else self.wrap_constant(size)

    def get_item(self, container: VariableTracker, key: VariableTracker) -> VariableTracker:
        """container[key]."""
        return self.realize(self.realize(container).get_item(self, self.realize(key)))  # type: ignore[arg-type]

    def contains(self, container: VariableTracker, item: VariableTracker) -> VariableTracker:
        """`item in container`."""
        return self.realize(container).contains(self, self.realize(item))  # type: ignore[arg-type]

    def iterate(self, value: VariableTracker) -> VariableTracker:
        """iter(value)."""
        return self.realize(value).iterate(self)  # type: ignore[arg-type]

    def unpack(self, value: VariableTracker) -> list[VariableTracker]:
        """list(value)."""
        return self.realize(value).unpack(self)  # type: ignore[arg-type]

    def is_same(self, left: VariableTracker, right: VariableTracker) -> bool:
        """`left is right`."""
        left, right = self.realize(left), self.realize(right)
        if left is right:
            return True
        if left.source is not None and right.source is not None and not _differ_anyway(left, right):
            same = self.trace.object_at(left.source) is self.trace.object_at(right.source)
            self._assume_identity(left.source, right.source, same)
            return same
        try:
            return left.real() is right.real()
        except NotConstant:
            return False

    def is_one(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """`left is right`, asked by the program itself."""
        left, right = self.realize(left), self.realize(right)
        if left is not right and left.source is not None and right.source is not None and _varies(left, right):
            self.break_graph("unsupported-operator", "whether two numbers that vary are one object is asked")
        return self.wrap_constant(self.is_same(left, right))

    def _assume_identity(self, left: Source, right: Source, same: bool) -> None:
        """Two objects that existed before are one object, or two, only while their places hold what they hold now."""
        first, second = (right, left) if isinstance(left, ConstSource) else (left, right)
        self.guard(GuardKind.SAME_OBJECT if same else GuardKind.DISTINCT_OBJECT, first, second)


def _varies(left: VariableTracker, right: VariableTracker) -> bool:
    """Two numbers, one of which varies from call to call?"""
    same_kind = left.python_type() is right.python_type() in (int, float)
    return same_kind and not (left.is_constant() and right.is_constant())


def _differ_anyway(left: VariableTracker, right: VariableTracker) -> bool:
    """Do guards on types and values say already that these are two objects, or does only their value matter?"""
    if left.python_type() is not right.python_type():
        return True
    if _varies(left, right):  # the values are compared too
        return True
    return left.is_constant() and right.is_constant() and not same_constant(left.constant(), right.constant())


def _comes_first(op: Callable[..., Any], right: VariableTracker, left: VariableTracker) -> bool:
    """Does the class of the right operand derive from the left one's, with a reflected method of its own? That is then asked first."""
    name = f"__r{op.__name__.strip('_')}__"
    return _derives(right, left) and getattr(right.python_type(), name, None) is not getattr(left.python_type(), name, None)


def _derives(right: VariableTracker, left: VariableTracker) -> bool:
    from .variables.user_defined import UserObjectVariable

    if not isinstance(right, UserObjectVariable) or not isinstance(left, UserObjectVariable):
        return False
    return right.cls is not left.cls and left.cls in right.cls.__mro__


_BINARY_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "** or pow()",
    "matmul": "@",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
SYMBOLS = {
    **_BINARY_SYMBOLS,
    **{"i" + name.strip("_"): symbol.split()[0] + "=" for name, symbol in _BINARY_SYMBOLS.items()},
    "divmod": "divmod()",
    "neg": "-",
    "pos": "+",
    "invert": "~",
}
PLAIN_FORM: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(operator, "i" + name): getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
} | {
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}
