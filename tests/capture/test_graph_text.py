"""A captured graph reads as Python."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.capture.graph_text import text_of_graph

TEXT = """\
x: float32[3, 2, 8]
m: float32[3, 8]
n: int64[]
getitem = x[:, 0]                                          # +1
mul = getitem * 2
gelu = F.gelu(mul, approximate='tanh')
to = m.to(torch.float16)
float_1 = to.float()
sub = gelu - float_1
neg = -sub                                                 # +2
cat = torch.cat([sub, neg], dim=-1)
reshape = cat.reshape(-1, 4)
getitem_1 = reshape[..., 1:3:1]                            # +3
getitem_2 = reshape[..., :2]
gt = getitem_2 > 0
masked_fill = getitem_1.masked_fill(gt, -10000.0)
linalg_norm = torch.linalg.norm(masked_fill, dim=0)        # +4
zeros = torch.zeros(2, dtype=torch.float32, device='cpu')
add = linalg_norm + zeros
add_1 = n + 1                                              # +5
return (add, add_1)"""


def everything(x, m, n):
    y = F.gelu(x[:, 0] * 2, approximate="tanh") - m.to(torch.float16).float()
    z = torch.cat([y, -y], dim=-1).reshape(-1, 4)
    z = z[..., 1:3:1].masked_fill(z[..., :2] > 0, -1e4)
    w = torch.linalg.norm(z, dim=0) + torch.zeros(2, dtype=torch.float32, device="cpu")
    return w, n + 1


def test_a_graph_reads_as_python_with_the_users_lines():
    compiled = fuselab.compile(everything, backend="eager")
    compiled(torch.randn(3, 2, 8), torch.randn(3, 8), torch.tensor(3))
    first = everything.__code__.co_firstlineno
    lines = text_of_graph(compiled.graphs[0].module).replace(f"{__file__}:", "+").splitlines()
    said = [left + "# +" + str(int(line) - first) if line else left for left, _, line in (row.partition("# +") for row in lines)]
    assert "\n".join(said) == TEXT
