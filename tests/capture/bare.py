"""Makes `bare_capture`: the torch-free files of toolkit/capture as a package of their own, importable on a bare interpreter."""

import sys
import types
from pathlib import Path

if "bare_capture" not in sys.modules:
    package = types.ModuleType("bare_capture")
    package.__path__ = [str(Path(__file__).resolve().parents[2] / "toolkit" / "capture")]
    sys.modules["bare_capture"] = package
