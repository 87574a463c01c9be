"""fuselab: a see-through compiler for PyTorch programs that lives in the notebook. The public face; see DESIGN.md."""

from .magics import load_ipython_extension, unload_ipython_extension
from .toolkit.driver import (
    allow_in_graph,
    compile,
    disable,
    explain,
    graph_break,
    is_compiling,
    mark_dynamic,
    record,
    reset,
    stance,
    verify,
)
from .toolkit.errors import FuselabError, Unsupported
from .toolkit.options import Options, using

__all__ = [
    "FuselabError",
    "Options",
    "Unsupported",
    "allow_in_graph",
    "compile",
    "disable",
    "explain",
    "graph_break",
    "is_compiling",
    "load_ipython_extension",
    "mark_dynamic",
    "record",
    "reset",
    "stance",
    "unload_ipython_extension",
    "using",
    "verify",
]
