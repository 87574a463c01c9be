"""An IPython shell in this process, for tests of the magics."""

from __future__ import annotations

import atexit

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import fuselab


class Shell:
    """`run(cell)` gives the output of a cell: .stdout, .stderr, .displays, .result, .error."""

    def __init__(self) -> None:
        InteractiveShell.clear_instance()
        self.ip = InteractiveShell.instance(colors="nocolor")
        atexit.unregister(self.ip.atexit_operations)  # each of a hundred shells would collect garbage at the end
        self.ip.history_manager.enabled = False
        self.ip.run_cell("%reset -f")
        self.ip.kernel = "a notebook's"
        fuselab.load_ipython_extension(self.ip)

    @property
    def ns(self):
        return self.ip.user_ns

    def run(self, cell: str):
        with capture_output() as out:
            result = self.ip.run_cell(cell, store_history=True)
        out.result, out.error = result.result, result.error_before_exec or result.error_in_exec
        out.displays = [o.data for o in out.outputs]
        return out

    def ok(self, cell: str):
        out = self.run(cell)
        assert out.error is None, out.stdout
        return out
