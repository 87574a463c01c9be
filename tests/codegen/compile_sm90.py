"""Compile the Triton kernels of a few programs for an H100 (sm_90), on a machine without a GPU. Prints `kernel: bytes of cubin`.

A script of its own, since Triton decides when it is imported whether it interprets or compiles.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import fuselab
from fuselab.toolkit.runtime import artifact, launch_triton

NAMES = {torch.float32: "fp32", torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
         torch.int8: "i8", torch.uint8: "u8", torch.bool: "i1", torch.int16: "i16"}  # fmt: skip


def compile_for_h100(kernels, prelude):
    launch_triton.interpreted = lambda: False
    space = launch_triton._executed("\n\n".join([prelude, *(k.source for k in kernels)]))
    for k in kernels:
        signature = {a.name: "i64" if a.is_size else "*" + NAMES[a.dtype] for a in k.signature} | dict.fromkeys(
            k.launch["blocks"], "constexpr"
        )
        source = ASTSource(space[k.name], signature, constexprs=dict(k.launch["blocks"]))
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": k.launch["warps"]})
        print(f"{k.name}: {len(made.asm['cubin'])}", flush=True)
    return {k.name: lambda *args: None for k in kernels}


PROGRAMS = {
    "chain": (lambda x, y: (x * 2 + y).relu().sin() - 1, (33, 65), (33, 65)),
    "softmax": (lambda x: torch.softmax(x, -1), (33, 65)),
    "long softmax": (lambda x: torch.softmax(x, -1), (3, 9000)),
    "layer norm": (lambda x: F.layer_norm(x, (65,)), (33, 65)),
    "gelu": (lambda x: F.gelu(x).bfloat16(), (33, 65)),
    "extremes": (lambda x: (x.argmax(-1), x.amin(0), x.var(-1), (x > 0).any(-1)), (33, 65)),
    "long extremes": (lambda x: (x.argmax(-1), x.var(-1), x.cumsum(-1)), (3, 9000)),
    "bisection": (lambda x, y: torch.logical_xor(torch.bucketize(x, y) > 1, y[0] > 0), (33,), (65,)),
    "a row's number, in the loop and after it": (lambda x, y: (x - y[:, None]).relu().sum(-1) * y.rsqrt(), (33, 65), (33,)),
    "a float for an integer": (lambda x: torch.linspace(-2.5, 3, 1, dtype=torch.int64) + x.long(), (5,)),
    "gather": (lambda x: x[(x[:, 0] > 0).long()] % 0.7 + torch.tanh(x) ** 1.5, (33, 65)),
}


def main() -> None:
    torch.cuda.is_available = lambda: False
    artifact.LOADERS["triton"] = compile_for_h100
    for name, (fn, *shapes) in PROGRAMS.items():
        f = fuselab.compile(fn, backend="triton")
        f(*(torch.randn(*s) for s in shapes))
        failures = [e for e in f._fuselab_history.events if type(e).__name__ in ("InternalFailure", "KernelFailed")]
        for failure in failures:
            raise SystemExit(f"{name}: {failure.error}")


if __name__ == "__main__":
    main()
