"""Sources as code: one emitter for each kind of access."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .source import (
    READ,
    AttrSource,
    BuiltinSource,
    CallSource,
    CellSource,
    ConstSource,
    DictAttrSource,
    DrawSource,
    GlobalSource,
    GlobalsSource,
    ItemSource,
    LocalSource,
    ModuleTableSource,
    Source,
    TupleItemSource,
)
from .variables.cells import OwnCellSource

if TYPE_CHECKING:
    from .rebuild import Rebuilder


def drawn_name(index: int) -> str:
    """The local that keeps the `index`-th random number drawn before the graph."""
    return f".drawn{index}"


def emit_source(out: Rebuilder, source: Source) -> None:
    """Code that leaves the object at `source` on the stack."""
    rule = RULES.get(type(source))
    if rule is not None:
        rule(out, source)
        return
    assert source.base is not None, source
    steps = source.steps()
    for accessor, _ in reversed(steps):
        out.emit.load_const(READ[accessor])
    out.source(source.base)
    for _, operand in steps:
        out.emit.load_const(operand)
        out.emit.call(2)


def _call(out: Rebuilder, source: CallSource) -> None:
    out.emit.load_const(source.function)
    out.source(source.base)
    out.emit.call(1)


def _attr(out: Rebuilder, source: AttrSource) -> None:
    out.source(source.base)
    out.emit.load_attr(source.name)


def _item(out: Rebuilder, source: ItemSource) -> None:
    out.source(source.base)
    out.emit.load_const(source.key)
    out.emit.binary_subscr()


def _tuple_item(out: Rebuilder, source: TupleItemSource) -> None:
    out.source(source.base)
    out.emit.load_const(source.index)
    out.emit.binary_subscr()


def _dict_attr(out: Rebuilder, source: DictAttrSource) -> None:
    out.source(source.base)
    out.emit.load_attr("__dict__")
    out.emit.load_const(source.name)
    out.emit.binary_subscr()


def _module_table(out: Rebuilder, source: ModuleTableSource) -> None:
    out.source(source.base)
    out.emit.load_attr(source.table)
    out.emit.load_const(source.name)
    out.emit.binary_subscr()


RULES: dict[type[Source], Callable[[Rebuilder, Any], None]] = {
    LocalSource: lambda out, s: out.emit.load_fast(s.name),
    GlobalSource: lambda out, s: out.emit.load_global(s.name),
    BuiltinSource: lambda out, s: out.emit.load_global(s.name),
    CellSource: lambda out, s: out.emit.load_deref(s.name),
    OwnCellSource: lambda out, s: out.emit.load_closure(s.name),
    ConstSource: lambda out, s: out.emit.load_const(s.value),
    DrawSource: lambda out, s: out.emit.load_fast(drawn_name(s.index)),
    GlobalsSource: lambda out, s: out.emit.load_const(out.trace.top.namespace),
    AttrSource: _attr,
    ItemSource: _item,
    TupleItemSource: _tuple_item,
    DictAttrSource: _dict_attr,
    ModuleTableSource: _module_table,
    CallSource: _call,
}
