"""The symbolic evaluator: runs the instructions of one function over trackers instead of objects.

An `Interpreter` (called `tx` everywhere) is one activation of one function; `tx.trace` is what all activations under one top
frame share: graph, guards, effects, fake mode. Inlining makes a child. Opcodes live in `opcodes/`, one method an opcode.
"""

from __future__ import annotations
