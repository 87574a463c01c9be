# ruff: noqa: E501  rows of code
"""Blocks of real programs as rows of text, for `random_blocks.py`: norms, attention, gates, mixtures, convolutions, losses, scans and so on.

A row is `ranks | flags | lines`. `{x}` is the tensor it takes, `{y}` another one, `{o}` its result; `;;` parts lines. `{w:n,c}` is a new
floating point input of this size, `{b:n,t}` one of booleans, `{i:n,t/c}` one of integers from 0 up to c, `{m:nn.Linear(c, 8)}` a module, where
n, a, t, c are the first, second, last but one and last sizes of x; `{d}` is one of x's dimensions and `{?1?2?3}` a choice.
Flags: `=` keeps values exact where they were (so that an operation that jumps may follow), `!` jumps and asks for exact values.
"""

from __future__ import annotations

from dataclasses import dataclass

NORMS = """
1234||F.layer_norm({x}, {x}.shape[-1:], {w:c}, {w:c})
1234||F.layer_norm({x}, {x}.shape[-1:])
234||F.layer_norm({x}, {x}.shape[1:], eps=1e-3)
234||{m:nn.LayerNorm(c, elementwise_affine={?True?False})}({x})
234||({x} - {x}.mean(-1, keepdim=True)) / ({x}.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * {w:c} + {w:c}
234||{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + 1e-6) * {w:c}
234||F.rms_norm({x}, {x}.shape[-1:], {w:c}, 1e-6)
234||({x}.float() * torch.rsqrt({x}.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to({x}.dtype) * (1 + {w:c})
234||F.normalize({x}, dim={d})
234||F.normalize({x}, p={?1?2?3.0?float("inf")}, dim={d}, eps=1e-3)
234||{o}m, {o}v = torch.{?var_mean?std_mean}({x}, dim={d}, keepdim=True);;{o} = ({x} - {o}v) / ({o}m + 1e-2)
234||F.batch_norm({x}, None, None, {w:a}, {w:a}, True, 0.1, 1e-3)
234||F.batch_norm({x}, {w:a}.detach(), {w:a}.detach().abs() + 0.5, {w:a}, {w:a}, False)
23||{m:nn.BatchNorm1d(a)}({x})
23||{m:nn.BatchNorm1d(a, affine=False).eval()}({x})
34||F.group_norm({x}, {?1?2?{x}.shape[1]}, {w:a}, {w:a})
34||{m:nn.GroupNorm(1, a)}({x})
34||F.instance_norm({x}, weight={w:a}, bias={w:a})
4||{m:nn.BatchNorm2d(a)}({x})
4||{m:nn.BatchNorm2d(a, momentum=None)}({x})
4||F.relu({m:nn.BatchNorm2d(a).eval()}({x}))
4||{m:nn.InstanceNorm2d(a, affine=True)}({x})
4||{o}g = torch.norm({x}, p=2, dim=(2, 3), keepdim=True);;{o}n = {o}g / ({o}g.mean(dim=1, keepdim=True) + 1e-3);;{o} = {w:1,a,1,1} * ({x} * {o}n) + {w:1,a,1,1} + {x}
4||{o}u = {x}.mean(1, keepdim=True);;{o}s = ({x} - {o}u).pow(2).mean(1, keepdim=True);;{o} = {w:a}[:, None, None] * (({x} - {o}u) / torch.sqrt({o}s + 1e-6)) + {w:a}[:, None, None]
4||F.layer_norm({x}.permute(0, 2, 3, 1), ({x}.shape[1],), {w:a}, {w:a}).permute(0, 3, 1, 2)
34||F.local_response_norm({x}, {?3?5?2}, alpha=1e-2)
234||({x} - {x}.mean(0)) / ({x}.std(0, unbiased=False) + 1e-3)
34||{x} / {x}.abs().amax(dim=(-2, -1), keepdim=True).clamp(min=1e-3)
34||{x} / ({x}.flatten(1).norm(dim=1).view(-1, *[1] * ({x}.dim() - 1)) + 1e-3)
4||F.conv2d({x}, ({w:6,a,3,3} - {w:6,a,3,3}.mean((1, 2, 3), keepdim=True)) / ({w:6,a,3,3}.std((1, 2, 3), keepdim=True) + 1e-2), padding=1)
234||{x} - {x}.mean(dim={d}, keepdim=True)
234||({x} - {x}.amin({d}, keepdim=True)) / ({x}.amax({d}, keepdim=True) - {x}.amin({d}, keepdim=True) + 1e-2)
"""

ATTENTION = """
3||{o}b, {o}t, {o}c = {x}.shape;;{o}q, {o}k, {o}v = F.linear({x}, {w:3*c,c}).split({o}c, dim=2);;{o}q, {o}k, {o}v = [z.view({o}b, {o}t, {?1?2?4}, -1).transpose(1, 2) for z in ({o}q, {o}k, {o}v)];;{o}s = ({o}q @ {o}k.transpose(-2, -1)) * (1.0 / math.sqrt({o}k.size(-1)));;{o}s = {o}s.masked_fill(torch.tril(torch.ones({o}t, {o}t, device={x}.device)).view(1, 1, {o}t, {o}t) == 0, float("-inf"));;{o} = F.linear((F.dropout({o}s.softmax(-1), 0.0) @ {o}v).transpose(1, 2).contiguous().view({o}b, {o}t, {o}c), {w:c,c}, {w:c})
3||{o}q, {o}k, {o}v = F.linear({x}, {w:3*c,c}, {w:3*c}).unflatten(-1, (3, {?1?2}, -1)).permute(2, 0, 3, 1, 4).unbind(0);;{o} = F.scaled_dot_product_attention({o}q, {o}k, {o}v, is_causal={?True?False}).transpose(1, 2).flatten(2)
3||{o}q = F.linear({x}, {w:c,c}).view({x}.shape[0], {x}.shape[1], -1, 2).transpose(1, 2);;{o}s = torch.matmul({o}q, {o}q.mT) / 2 ** 0.5;;{o}s = {o}s + torch.where({b:n,t}[:, None, None, :], 0.0, torch.finfo({x}.dtype).min);;{o} = (F.softmax({o}s, dim=-1, dtype=torch.float32).to({x}.dtype) @ {o}q).transpose(1, 2).reshape({x}.shape)
3||{o}s = torch.einsum("bic,bjc->bij", {x}, {x}) * {x}.shape[-1] ** -0.5;;{o}i = torch.arange({x}.shape[1]);;{o}w = ({o}i[:, None] - {o}i[None, :]).abs() <= {?1?2?3};;{o} = torch.einsum("bij,bjc->bic", {o}s.masked_fill(~{o}w, -1e4).softmax(-1), {x})
3||{o}i = torch.arange({x}.shape[1], dtype={x}.dtype);;{o}f = 1.0 / (100 ** (torch.arange(0, {x}.shape[2], 2).to({x}.dtype) / {x}.shape[2]));;{o}e = torch.outer({o}i, {o}f).repeat(1, 2)[:, :{x}.shape[2]];;{o}h = {x}.shape[2] // 2;;{o}r = torch.cat((-{x}[..., {o}h:], {x}[..., :{o}h]), dim=-1);;{o} = {x} * {o}e.cos() + {o}r * {o}e.sin()
3||{o}a, {o}b = {x}[..., ::2], {x}[..., 1::2];;{o}p = torch.arange({x}.shape[1])[:, None] / 10.0;;{o} = torch.stack([{o}a * {o}p.cos() - {o}b * {o}p.sin(), {o}a * {o}p.sin() + {o}b * {o}p.cos()], -1).flatten(-2).to({x}.dtype)
3||{o}h = 2;;{o}q = {x}.unflatten(-1, ({o}h, -1)).transpose(1, 2);;{o}m = torch.tensor([2.0 ** -(i + 1) for i in range({o}h)]);;{o}i = torch.arange({x}.shape[1]);;{o}s = {o}q @ {o}q.mT + ({o}m[:, None, None] * ({o}i[None, :] - {o}i[:, None])).to({x}.dtype);;{o} = ({o}s.softmax(-1) @ {o}q).transpose(1, 2).flatten(-2)
3||{o}q = F.linear({x}, {w:16,c}).view(*{x}.shape[:2], 4, 4).transpose(1, 2);;{o}k, {o}v = F.linear({x}, {w:16,c}).view(*{x}.shape[:2], 2, 8).transpose(1, 2).chunk(2, -1);;{o}k, {o}v = [z[:, :, None].expand(-1, -1, 2, -1, -1).reshape(z.shape[0], 4, *z.shape[2:]) for z in ({o}k, {o}v)];;{o} = F.scaled_dot_product_attention({o}q, {o}k, {o}v, attn_mask={?None?torch.ones({x}.shape[1], {x}.shape[1], dtype=torch.bool).tril()}).transpose(1, 2).reshape(*{x}.shape[:2], -1)
3||{o}k = {x}.repeat_interleave(2, dim=-1).unflatten(-1, (2, -1)).transpose(1, 2);;{o} = F.scaled_dot_product_attention({o}k, {o}k, {o}k, attn_mask={b:1,1,t,t} | torch.eye({x}.shape[1], dtype=torch.bool), scale={?None?0.3}).transpose(1, 2).flatten(2)
3||{o}q, {o}k = F.elu({x}) + 1, F.elu({x} * 0.5) + 1;;{o}kv = torch.einsum("bnd,bne->bde", {o}k, {x});;{o}z = 1 / (torch.einsum("bnd,bd->bn", {o}q, {o}k.sum(dim=1)) + 1e-3);;{o} = torch.einsum("bnd,bde,bn->bne", {o}q, {o}kv, {o}z)
3||{o}q = F.normalize({x}, dim=-1);;{o}s = ({o}q @ {o}q.transpose(1, 2)) * {w:1}.clamp(max=2.0).exp();;{o}s = 5 * torch.tanh({o}s / 5);;{o} = torch.bmm(F.softmax({o}s, -1), {x})
3||{o}p = (torch.arange({x}.shape[1])[None] - torch.arange({x}.shape[1])[:, None]).clamp(-4, 4) + 4;;{o}s = {x} @ {x}.mT * 0.2 + {w:9}[{o}p];;{o} = {o}s.softmax(dim=-1) @ {x}
3||{o}p = (torch.arange({x}.shape[1])[None] - torch.arange({x}.shape[1])[:, None]).clamp(-4, 4) + 4;;{o}s = {x} @ {x}.mT * 0.2 + F.embedding({o}p, {w:9,2}).permute(2, 0, 1)[:1];;{o} = {o}s.softmax(dim=-1) @ {x}
3||{o}s = torch.baddbmm({w:n,1,1}, {w:3,c}.expand({x}.shape[0], -1, -1), {x}.mT, beta=0.5, alpha=0.2);;{o} = torch.softmax({o}s, 2).bmm({x})
3||{m:nn.MultiheadAttention(c, 1, batch_first=True)}({x}, {x}, {x}, need_weights={?True?False})[0]
3||{m:nn.TransformerEncoderLayer(c, 1, 8, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")}({x})
3||{m:nn.TransformerDecoderLayer(c, 1, 8, dropout=0.0, batch_first=True)}({x}, {x}[:, :1] * 0.5)
4||{o}w = {x}.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).permute(0, 2, 4, 3, 5, 1).flatten(0, 2).flatten(1, 2);;{o}s = ({o}w @ {o}w.transpose(-2, -1)).softmax(-1);;{o} = ({o}s @ {o}w).view({x}.shape[0], {x}.shape[2] // 2, {x}.shape[3] // 2, 2, 2, -1).permute(0, 5, 1, 3, 2, 4).reshape({x}.shape)
3||{o}l = {i:n/t};;{o}m = torch.arange({x}.shape[1])[None, :] <= {o}l[:, None];;{o} = ({x} * {o}m[..., None]).sum(1) / {o}m.sum(1, keepdim=True).clamp(min=1)
3||{o}s = F.linear(torch.tanh(F.linear({x}, {w:5,c})), {w:1,5});;{o} = ({o}s.softmax(1) * {x}).sum(1)
3||{o}s = ({x} @ {x}.mT).float();;{o}s = {o}s - {o}s.amax(-1, keepdim=True);;{o}e = {o}s.exp().triu().tril({?0?2});;{o} = ({o}e / (1 + {o}e.sum(-1, keepdim=True))).to({x}.dtype) @ {x}
3||{o}m = {b:n,t}.unsqueeze(1).expand(-1, {x}.shape[1], -1);;{o}s = ({x} @ {x}.mT).masked_fill({o}m, -torch.inf).softmax(-1);;{o} = torch.nan_to_num({o}s, 0.0) @ {x}
3||{o}c = torch.cat([{w:1,1,c}.expand({x}.shape[0], -1, -1), {x}], dim=1) + {w:1,t+1,c};;{o} = {o}c
3||{o}k = torch.zeros({x}.shape[0], {x}.shape[1] + 4, {x}.shape[2], dtype={x}.dtype);;{o}k[:, 2:2 + {x}.shape[1]] = {x};;{o}k = torch.cat([{o}k[:, -2:], {o}k[:, :-2]], 1);;{o} = F.scaled_dot_product_attention({x}, {o}k, {o}k)
"""

GATES = """
234||F.glu({x}, dim={d})
234||F.linear(F.silu(F.linear({x}, {w:6,c})) * F.linear({x}, {w:6,c}), {w:c,6})
234||{o}a, {o}b = F.linear({x}, {w:10,c}, {w:10}).chunk(2, dim=-1);;{o} = {o}a * F.gelu({o}b{??, approximate="tanh"})
234||{o}g = torch.sigmoid(F.linear({x}, {w:c,c}, {w:c}));;{o} = {o}g * F.relu({x}) + (1 - {o}g) * {x}
4||{x} * F.hardsigmoid(F.conv2d(F.relu(F.conv2d({x}.mean((2, 3), keepdim=True), {w:4,a,1,1}, {w:4})), {w:a,4,1,1}, {w:a}))
4||{x} * {m:nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(a, 2, 1), nn.SiLU(), nn.Conv2d(2, a, 1), nn.Sigmoid())}({x})
4||{o}p = torch.cat([{x}.mean(1, keepdim=True), {x}.amax(1, keepdim=True)], 1);;{o} = {x} * torch.sigmoid(F.conv2d({o}p, {w:1,2,3,3}, padding=1))
4||{o}y = {x}.mean(dim=(2, 3));;{o}y = F.conv1d({o}y.unsqueeze(1), {w:1,1,3}, padding=1).squeeze(1);;{o} = {x} * {o}y.sigmoid()[:, :, None, None].expand_as({x})
1234||{?F.gelu?F.silu?F.mish?F.hardswish?F.softplus?F.elu?F.selu?F.celu?F.logsigmoid?F.tanhshrink?F.softsign?torch.tanh?torch.sigmoid?F.relu6?F.hardtanh?F.hardsigmoid}({x})
1234||{?torch.erf?torch.erfc?torch.sin?torch.cos?torch.atan?torch.asinh?torch.exp2?torch.expm1?torch.sinc?torch.special.i0e?torch.sgn?torch.special.erfcx?torch.special.ndtr}({x} * 0.5)
1234||{?torch.log?torch.log1p?torch.log2?torch.log10?torch.sqrt?torch.rsqrt?torch.lgamma?torch.digamma?torch.acosh?torch.reciprocal}({x}.abs() + 1.25)
1234||F.prelu({x}, {w:1})
234||F.prelu({x}, {w:a})
1234||F.leaky_relu({x}, {?0.1?-0.5?0}) + F.threshold({x}, 0.5, -1.0)
1234||F.{?hardshrink?softshrink}({x}, 0.5) * {x}.square()
1234||{x} * torch.tanh(F.softplus({x})) - 0.5 * {x} * (1 + torch.tanh(0.79788 * ({x} + 0.044715 * {x} ** 3)))
234||{o}d = F.dropout({x}, 0.0, True);;{o} = {o}d + F.dropout2d({o}d[None] if {o}d.dim() == 3 else {o}d, 0.0).reshape({o}d.shape)
1234||F.dropout({x}, 0.4, False) * {w:c}
1234||torch.where({x} > 0, {x}, torch.expm1({x})) + torch.lerp({x}, {w:c}, 0.3)
1234||torch.addcmul({x}, {w:c}, {x}, value=0.5) - torch.addcdiv({x}, {x}, {w:c}.abs() + 1, value=0.2)
1234||torch.clamp({x}, min={w:c}, max={w:c} + 1) + {x}.clip(-0.5, 0.75)
1234|=|F.relu({x})
1234|=|{x} * 2 - 1
1234|=|{x}.abs() + {x}.clamp(-1, 1)
1234|=|torch.maximum({x}, {w:c}) + torch.minimum({x}, {w:c})
1234|=|{x}.masked_fill({b:c}, 1.5)
234|=|torch.where({b:t,c}, {x}, {x} + 1)
234||(F.linear({x}, {w:2,c}).softmax(-1)[..., None, :] * torch.stack([{x}.sin(), {x}.cos()], -1)).sum(-1)
"""

MIXTURES = """
23|!|{o}g = F.linear({x}, {w:4,c});;{o}v, {o}i = {o}g.topk({?1?2}, dim=-1);;{o}v = {o}v.softmax(-1);;{o}z = torch.zeros_like({o}g).scatter({?-1?{x}.dim() - 1}, {o}i, {o}v);;{o} = torch.einsum("...e,...c,ecd->...d", {o}z, {x}, {w:4,c,c})
2|!|{o}g = F.softmax({x} @ {w:c,3}, dim=1, dtype=torch.float);;{o}i = ({x} @ {w:c,3}).argmax(1);;{o}h = F.one_hot({o}i, 3);;{o}l = ({o}h.float().mean(0) * {o}g.mean(0)).sum() * 3;;{o} = {x} * {o}g.gather(1, {o}i[:, None]).to({x}.dtype) + {o}l
2|!|{o}i = {x}.argmax(-1);;{o}h = F.one_hot({o}i, {x}.shape[1]);;{o}p = torch.cumsum({o}h, dim=0) * {o}h - 1;;{o}k = ({o}p < 2) & ({o}p >= 0);;{o} = ({x} * {o}k).sum(-1, keepdim=True) + {o}p.to({x}.dtype)
2||{o} = torch.zeros_like({x});;for {o}e in range(3):;;    {o}m = ({i:n/3} == {o}e)[:, None].to({x}.dtype);;    {o} = {o} + {o}m * F.linear({x}, {w:3,c,c}[{o}e])
2||{o}h = F.one_hot({i:n/3}, 3).to({x}.dtype);;{o}d = torch.einsum("ne,nc->enc", {o}h, {x});;{o}y = torch.bmm({o}d, {w:3,c,c});;{o} = torch.einsum("enc,ne->nc", {o}y, {o}h)
2||{o}o = torch.zeros(4, {x}.shape[1], dtype={x}.dtype).index_add(0, {i:n/4}, {x});;{o} = {o}o[{i:n/4}] + {x}
2||{o}o = torch.zeros(4, {x}.shape[1], dtype={x}.dtype).scatter_reduce(0, {i:n/4}[:, None].expand(-1, {x}.shape[1]), {x}, "{?mean?amax?amin?sum?prod}", include_self={?True?False});;{o} = {o}o
2||{o}c = torch.bincount({i:n/4}, minlength=4).clamp(min=1);;{o} = torch.zeros(4, {x}.shape[1], dtype={x}.dtype).index_add_(0, {i:n/4}, {x}) / {o}c[:, None]
2||{o}s, {o}r = {i:7/n}, {i:7/n};;{o}m = F.relu(torch.cat([{x}[{o}s], {x}[{o}r]], -1) @ {w:2*c,c});;{o} = torch.zeros_like({x}).index_add(0, {o}r, {o}m) + {x}
2||{o}s = {w:7};;{o}r = {i:7/n};;{o}m = torch.full(({x}.shape[0],), -1e9, dtype={o}s.dtype).scatter_reduce(0, {o}r, {o}s, "amax");;{o}e = ({o}s - {o}m[{o}r]).exp();;{o}z = torch.zeros({x}.shape[0], dtype={o}s.dtype).scatter_add(0, {o}r, {o}e);;{o} = torch.zeros_like({x}).index_add(0, {o}r, {x}[{i:7/n}] * ({o}e / ({o}z[{o}r] + 1e-3))[:, None])
3||{o}e = {x}.unflatten(1, (-1, 1)).transpose(0, 1);;{o} = torch.stack([torch.addmm({w:c}, z.reshape(-1, z.shape[-1]), {w:c,c}) for z in {o}e.unbind(0)], 1)
23||{x} + F.embedding({i:t/5}, {w:5,c}, padding_idx={?None?0?-1})
23||F.embedding_bag({i:t,3/7}, {w:7,c}, mode="{?sum?mean?max}") + {x}
2||F.embedding_bag({i:9/7}, {w:7,c}, torch.tensor([0, 2, 2, 5]), mode="{?sum?mean}", per_sample_weights=None).sum(0) + {x}
2||F.embedding_bag({i:t,3/7}, {w:7,c}, mode="sum", per_sample_weights={w:t,3}) + {x}
3||{x} + {m:nn.Embedding(6, c, max_norm=None)}({i:n,t/6})
3||{x} + torch.cat([torch.arange({x}.shape[1])[:, None].div(10).sin(), torch.arange({x}.shape[1])[:, None].div(10).cos()], 1).repeat(1, {x}.shape[2])[:, : {x}.shape[2]].to({x}.dtype)
2||{o}e = [F.embedding({i:n/5}, {w:5,4}), F.embedding({i:n/3}, {w:3,4}), F.linear({x}, {w:4,c})];;{o}z = torch.stack({o}e, 1);;{o}i, {o}j = torch.triu_indices(3, 3, 1);;{o} = torch.cat([{o}e[2], ({o}z @ {o}z.mT)[:, {o}i, {o}j]], 1)
23|=|F.pad({x}, (0, {?1?2?0}), value=1.0)[..., :{x}.shape[-1]]
"""

IMAGES = """
4||F.relu(F.conv2d({x}, {w:8,a,3,3}, {w:8}, stride={?1?2}, padding={?0?1?"same"?"valid"}))
4||F.conv2d({x}, {w:a,1,3,3}, {w:a}, padding={?1?2}, dilation={?1?2}, groups={x}.shape[1])
4||F.conv2d({x}, {w:a*2,1,5,3}, padding=(2, 1), stride=(2, 1), groups={x}.shape[1])
4||F.gelu(F.conv2d({x}, {w:5,a,1,1}, {w:5}))
4||{m:nn.Sequential(nn.Conv2d(a, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d({?2?3}, {?1?2}, 1))}({x})
4||{m:nn.Sequential(nn.Conv2d(a, 4, 1), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 4, 3, 2, 1, groups=4), nn.BatchNorm2d(4), nn.Hardswish(inplace=True), nn.Conv2d(4, a, 1)).eval()}({x})
4||{m:nn.Sequential(nn.Conv2d(a, a, 3, padding=1), nn.GroupNorm(1, a), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(a, a, 3, padding=1))}({x}) + {x}
4||{m:nn.Sequential(nn.ConvTranspose2d(a, 4, 2, 2), nn.ELU(inplace=True), nn.Conv2d(4, 3, 3, padding=1, padding_mode="{?reflect?replicate?circular?zeros}"))}({x})
4||F.conv_transpose2d({x}, {w:a,6,3,3}, stride={?1?2}, padding=1, output_padding={?0?1?0})
4||F.{?max_pool2d?avg_pool2d}({x}, {?2?3}, {?1?2}, {?0?1})
4||F.max_pool2d({x}, 3, 2, 1, ceil_mode=True) - F.avg_pool2d({x}, 3, 2, 1, ceil_mode=True, count_include_pad={?True?False})
4||F.adaptive_{?avg?max}_pool2d({x}, {?1?2?(1, 3)?(3, 5)?(None, 1)})
4||F.adaptive_avg_pool2d({x}, 1).flatten(1)
4||F.interpolate({x}, scale_factor={?2?0.5?1.5?(2, 1)}, mode="{?nearest?bilinear?bicubic?area?nearest-exact}")
4||F.interpolate({x}, size={?(7, 5)?(4, 9)?(1, 1)?(13, 2)}, mode="{?nearest?bilinear?bicubic?area?nearest-exact}")
4||F.interpolate({x}, scale_factor=2, mode="bilinear", align_corners=True) + F.interpolate({x}, scale_factor=2, mode="nearest")
4||F.interpolate({x}, size=({x}.shape[2] // 2 + 1, {x}.shape[3] * 2), mode="bilinear", antialias=True)
4||{o}d = F.max_pool2d({x}, 2);;{o}u = F.interpolate({o}d, size={x}.shape[2:], mode="{?bilinear?nearest}");;{o} = F.conv2d(torch.cat([{x}, {o}u], 1), {w:4,2*a,3,3}, padding=1)
4||F.pixel_shuffle(F.conv2d({x}, {w:8,a,3,3}, padding=1), 2)
4|=|F.pixel_unshuffle({x}, 2)
4|=|{x}.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)
4|=|F.channel_shuffle({x}, 2)
4|=|{x}.contiguous(memory_format=torch.channels_last)
4|=|{x}.to(memory_format=torch.channels_last) + 1
4|=|{x}.flatten(2).transpose(1, 2)
4|=|F.pad({x}, (1, 2, 0, 1), mode="{?reflect?replicate?circular?constant}")
3|=|F.pad({x}, (1, 1), mode="{?reflect?replicate?circular}")
34|=|F.pad({x}, ({?-1?1}, 2, 1, {?-1?0}), value=0.5)
4||F.unfold({x}, {?2?3}, padding=1, stride={?1?2})
4||F.fold(F.unfold({x}, 3, padding=1), {x}.shape[-2:], 3, padding=1)
4||{o}p, {o}i = F.max_pool2d({x}, 2, return_indices=True);;{o} = F.max_unpool2d({o}p, {o}i, 2, output_size={x}.shape[-2:])
4||F.grid_sample({x}, {w:n,3,5,2} * 0.3, mode="{?bilinear?nearest?bicubic}", padding_mode="{?zeros?border?reflection}", align_corners={?True?False})
4||F.grid_sample({x}, F.affine_grid({w:n,2,3} * 0.3, [{x}.shape[0], 1, 4, 5], align_corners=False), align_corners=False)
4||F.lp_pool2d({x}.abs() + 0.1, {?2?1?3}, 2)
4||{o} = {x};;for {o}k in range(3):;;    {o} = torch.cat([{o}, F.relu(F.conv2d({o}, {w:2,1,3,3}.expand(-1, {o}.shape[1], -1, -1), padding=1))], 1)
4||{o}x = {x}[:, :, 1:, :] - {x}[:, :, :-1, :];;{o}y = {x}[:, :, :, 1:] - {x}[:, :, :, :-1];;{o} = {o}x.abs().mean() + {o}y.pow(2).mean() + {x}
4||{o}k = torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]).to({x}.dtype) / 16;;{o} = F.conv2d({x}, {o}k.expand({x}.shape[1], 1, 3, 3), padding=1, groups={x}.shape[1])
4||torch.stack([{x}[:, :, 0::2, 0::2], {x}[:, :, 1::2, 0::2]], 0).mean(0)
4||{o}m = {x}.mean((0, 2, 3), keepdim=True);;{o} = ({x} - {o}m) / ({x}.std((0, 2, 3), keepdim=True) + 1e-2)
4||{o}f = {x}.flatten(2);;{o} = ({o}f @ {o}f.mT) / ({x}.shape[2] * {x}.shape[3] + 1)
3||F.conv1d({x}, {w:6,a,3}, {w:6}, padding={?0?1}, stride={?1?2})
3||F.conv1d(F.pad({x}, (2, 0)), {w:a,1,3}, groups={x}.shape[1])
3||F.gelu({m:nn.Conv1d(a, 4, 3, padding=2, dilation=2)}({x}))
3||F.{?max_pool1d?avg_pool1d}({x}, {?2?3}, {?1?2}, {?0?1})
3||F.interpolate({x}, scale_factor={?2?0.5}, mode="{?nearest?linear?area}")
3||F.conv_transpose1d({x}, {w:a,3,4}, stride=2, padding=1)
3|=|{x}.unsqueeze(2)
3||F.adaptive_{?max?avg}_pool1d({x}, {?1?3})
4||F.conv3d({x}[:, :, None], {w:4,a,1,3,3}, padding=(0, 1, 1)).squeeze(2)
4||F.{?max_pool3d?avg_pool3d}({x}[:, :, None].repeat(1, 1, 3, 1, 1), {?2?(1, 2, 2)}).flatten(2, 3)
"""

LOSSES = """
2||F.cross_entropy({x}, {i:n/c}, {w:c}.abs() + 0.1, reduction="{?mean?sum?none}", label_smoothing={?0.0?0.1})
2||F.cross_entropy({x}, {i:n/c}.where({b:n}, -100), ignore_index=-100, label_smoothing={?0.0?0.2}, reduction="{?mean?sum?none}")
34||F.cross_entropy({x}, {i:n,c/a} if {x}.dim() == 3 else {i:n,t,c/a}, ignore_index={?0?1?-100}, reduction="{?mean?sum?none}")
3||F.cross_entropy({x}[:, :-1].reshape(-1, {x}.shape[-1]).float(), {i:n,t/c}[:, 1:].reshape(-1))
23||F.cross_entropy({x}, {x}.detach().softmax(1), label_smoothing={?0.0?0.3}, reduction="{?mean?sum?none}")
2||F.nll_loss(F.log_softmax({x}, -1), {i:n/c}, {w:c}.abs(), reduction="{?mean?sum?none}", ignore_index={?-100?0})
1234||F.{?mse_loss?l1_loss?smooth_l1_loss?huber_loss}({x}, {w:c}.expand_as({x}), reduction="{?mean?sum?none}")
1234||F.smooth_l1_loss({x}, {w:c}.expand_as({x}), beta={?0.3?0.0}) + F.huber_loss({x}, {x}.detach() * 0.5, delta=0.4)
1234||F.binary_cross_entropy_with_logits({x}, {b:c}.to({x}.dtype).expand_as({x}), {w:c}.abs(), pos_weight={w:c}.abs(), reduction="{?mean?sum?none}")
1234||F.binary_cross_entropy(torch.sigmoid({x}), {b:c}.to({x}.dtype).expand_as({x}), reduction="{?mean?sum?none}")
1234||F.kl_div(F.log_softmax({x}, -1), F.softmax({w:c}.expand_as({x}), -1), reduction="{?mean?sum?none?batchmean}")
1234||F.kl_div(F.log_softmax({x}, -1), F.log_softmax({x} * 0.5, -1), log_target=True, reduction="{?sum?none}")
1234||F.poisson_nll_loss({x} * 0.3, {w:c}.abs().expand_as({x}), log_input={?True?False}, full={?True?False}, reduction="{?mean?sum?none}")
23||F.gaussian_nll_loss({x}, {w:c}.expand_as({x}), {x}.square() + 0.1, full={?True?False}, reduction="{?mean?sum?none}")
2||F.cosine_embedding_loss({x}, {w:n,c}, {b:n}.long() * 2 - 1, margin=0.2, reduction="{?mean?sum?none}")
2||F.triplet_margin_loss({x}, {w:n,c}, {w:n,c}, margin=0.5, p={?2?1}, swap={?True?False}, reduction="{?mean?sum?none}")
2||F.triplet_margin_with_distance_loss({x}, {w:n,c}, {w:n,c}, distance_function=lambda a, b: 1.0 - F.cosine_similarity(a, b))
12||F.margin_ranking_loss({x}, {w:c}.expand_as({x}), ({b:c}.to({x}.dtype) * 2 - 1).expand_as({x}), margin=0.1, reduction="{?mean?sum?none}")
12||F.hinge_embedding_loss({x}, ({b:c}.to({x}.dtype) * 2 - 1).expand_as({x}), margin=0.7, reduction="{?mean?sum?none}")
12||F.soft_margin_loss({x}, ({b:c}.to({x}.dtype) * 2 - 1).expand_as({x}), reduction="{?mean?sum?none}")
2||F.multi_margin_loss({x}, {i:n/c}, p={?1?2}, margin=0.6, reduction="{?mean?sum?none}")
2||F.multilabel_margin_loss({x}, {i:n,c/c}.where({b:n,c}, -1), reduction="{?mean?sum?none}")
2||F.multilabel_soft_margin_loss({x}, {b:n,c}.to({x}.dtype), {w:c}.abs(), reduction="{?mean?sum?none}")
3||F.ctc_loss(F.log_softmax({x}, -1), {i:a,2/c}.clamp(min=1), torch.full(({x}.shape[1],), {x}.shape[0]), torch.full(({x}.shape[1],), 1), zero_infinity=True, reduction="{?mean?sum?none}")
1234||{o}p = torch.sigmoid({x});;{o}t = {b:c}.to({x}.dtype).expand_as({x});;{o}c = F.binary_cross_entropy_with_logits({x}, {o}t, reduction="none");;{o}q = {o}p * {o}t + (1 - {o}p) * (1 - {o}t);;{o} = ((0.25 * {o}t + 0.75 * (1 - {o}t)) * {o}c * (1 - {o}q) ** 2).mean()
234||{o}p, {o}t = torch.sigmoid({x}).flatten(1), {b:c}.expand_as({x}).flatten(1).to({x}.dtype);;{o} = 1 - ((2 * ({o}p * {o}t).sum(1) + 1) / ({o}p.sum(1) + {o}t.sum(1) + 1)).mean()
2||{o}z = F.normalize({x}, dim=1);;{o}s = {o}z @ {o}z.t() / 0.5;;{o}s = {o}s.masked_fill(torch.eye({x}.shape[0], dtype=torch.bool), float("-inf"));;{o} = F.cross_entropy({o}s, (torch.arange({x}.shape[0]) + 1) % {x}.shape[0])
2||{o}l = {x} @ {w:n,c}.t();;{o}y = torch.arange({x}.shape[0]);;{o} = (F.cross_entropy({o}l, {o}y) + F.cross_entropy({o}l.t(), {o}y)) / 2
2||-F.logsigmoid(({x} - {w:n,c}).sum(-1)).mean() + ({x}.logsumexp(-1) ** 2).mean() * 1e-2
2||{o}d = torch.cdist({x}, {w:5,c}, p={?2.0?1.0?3.0});;{o} = {o}d.min(1).values.mean() + {o}d.exp().neg().add(1).sum(0, keepdim=True)
2||F.pairwise_distance({x}, {w:c}, p={?2?1}, keepdim={?True?False}) + F.cosine_similarity({x}, {w:1,c}, dim=1).mean()
2||{x}.gather(1, {i:n,1/c}).squeeze(1).log_softmax(0)
23||{o}l = {x}.log_softmax(-1);;{o}e = -({o}l.exp() * {o}l).sum(-1);;{o} = {o}e.mean() + torch.distributions.kl_divergence(torch.distributions.Normal({x}, 1.0), torch.distributions.Normal({x} * 0.5, 2.0)).mean()
2||{o}r = torch.exp(({x} - {x}.detach()) * 0.5);;{o}v = {w:n,1};;{o} = -torch.min({o}r * {o}v, torch.clamp({o}r, 0.8, 1.2) * {o}v).mean()
"""

SCANS = """
1234||torch.cumsum({x}, {d}) * 0.1
1234|=|{x}.cumsum({d})
1234||torch.cumprod({x} * 0.1 + 1, {d})
1234|=|{x}.cummax({d}).values - {x}.cummin({d})[0]
1234|!=|{x}.cummax({d}).indices.to({x}.dtype)
1234||torch.logcumsumexp({x}, {d})
234||{x}.flip({d}).cumsum({d}).flip({d}) - {x}
23||{o}a = torch.sigmoid({w:c}).expand_as({x});;{o}l = torch.cumsum(torch.log({o}a + 1e-4), {x}.dim() - 2);;{o} = torch.exp({o}l) * torch.cumsum({x} * torch.exp(-{o}l).clamp(max=20), {x}.dim() - 2)
3||{o}h = torch.zeros_like({x}[:, 0]);;{o}r = [];;for {o}t in range(min({x}.shape[1], 3)):;;    {o}h = 0.9 * {o}h + torch.tanh({x}[:, {o}t]);;    {o}r.append({o}h);;{o} = torch.stack({o}r, dim=1)
3||{o}h = torch.zeros({x}.shape[0], 4, dtype={x}.dtype);;for {o}t in range(2):;;    {o}r, {o}z, {o}n = (F.linear({x}[:, {o}t], {w:12,c}) + F.linear({o}h, {w:12,4})).chunk(3, 1);;    {o}z = torch.sigmoid({o}z);;    {o}h = (1 - {o}z) * torch.tanh({o}n * torch.sigmoid({o}r)) + {o}z * {o}h;;{o} = {o}h
2||{o}h, {o}c = {m:nn.LSTMCell(c, 4)}({x});;{o} = torch.cat([{o}h, {o}c], 1)
2||{m:nn.GRUCell(c, c)}({x}, {x} * 0.5) + {m:nn.RNNCell(c, c)}({x})
3||{m:nn.{?LSTM?GRU?RNN}(c, 4, batch_first=True)}({x})[0]
3||{o}s = {w:c,4}.neg().exp();;{o}h = {x}.new_zeros({x}.shape[0], {x}.shape[2], 4);;{o}r = [];;for {o}t in range(2):;;    {o}h = torch.exp(-{o}s.abs()) * {o}h + {x}[:, {o}t, :, None];;    {o}r.append(torch.einsum("bcn,cn->bc", {o}h, {o}s));;{o} = torch.stack({o}r, 1)
3||{o}k = {x}.unfold(1, 2, 1).mean(-1);;{o} = {o}k
3||torch.diff({x}, dim={d}, prepend={x}.narrow({d}, 0, 1))
2||torch.trapezoid({x}, dim={d}) + torch.cumulative_trapezoid({x}, dim=1).sum()
23||{x} * torch.hann_window({x}.shape[-1], dtype={x}.dtype) + torch.linspace(-1, 1, {x}.shape[-1], dtype={x}.dtype)
23||{x}[..., 1:] - 0.97 * {x}[..., :-1]
2||{x}.unfold(-1, 3, 2).mul({w:3}).sum(-1)
"""

SEARCH = """
234|!=|torch.sort({x}, dim={d}, descending={?True?False}, stable=True).values
234|!=|{x}.argsort(dim={d}, stable=True).to({x}.dtype)
234|!=|torch.topk({x}, 2, dim={d}, largest={?True?False})[0]
234|!=|torch.gather({x}, {d}, {x}.argsort({d}, stable=True).argsort({d}, stable=True))
234|!=|{x}.max({d}, keepdim=True)[0] + {x}.min({d}, keepdim=True).values
234|=|{x}.amax({d}, keepdim=True) - {x}.aminmax(dim={d}, keepdim=True).min
234|!=|{x} * (F.one_hot({x}.argmax(-1), {x}.shape[-1]) > 0)
234|!=|{x}.where({x} >= {x}.kthvalue(2, -1, keepdim=True).values, -2.0)
234||{x}.quantile(0.3, dim=-1)
1234||{x}.float().quantile(torch.tensor([0.25, 0.5, 0.9]), dim={d}, keepdim=True, interpolation="{?linear?nearest?lower?higher?midpoint}").sum(0)
1234||{x}.{?median?nanmedian}({d})[0] + {x}.{?std?var}({d}, unbiased={?True?False})
1234||torch.histc({x}.detach().float(), bins=5, min=-2, max=2).to({x}.dtype)
1|!|torch.bincount({x}.long().clamp(0, 6), minlength=3).to({x}.dtype)
1234|!=|torch.bucketize({x}, torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype={x}.dtype), right={?True?False}).to({x}.dtype)
1234|!=|torch.searchsorted(torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype={x}.dtype), {x}.contiguous()).float()
2|!|{o}l = {x}.float();;{o}s, {o}i = torch.sort({o}l, descending=True, stable=True);;{o}p = {o}s.softmax(-1).cumsum(-1);;{o}r = {o}p - {o}s.softmax(-1) > 0.9;;{o}m = torch.zeros_like({o}r).scatter(1, {o}i, {o}r);;{o} = {o}l.masked_fill({o}m, -30.0)
2|!=|{o}k = torch.topk({x}, 2)[0][..., -1, None];;{o} = torch.where({x} < {o}k, torch.full_like({x}, -8.0), {x})
234|=|{x}.gather({d}, torch.zeros_like({x}, dtype=torch.long).narrow({d}, 0, 1))
234|=|torch.take_along_dim({x}, {i:c/c}.view(*[1] * ({x}.dim() - 1), -1), dim=-1)
234|=|{x}.index_select({d}, torch.tensor([0, 0]))
234|=|{x}[{i:5/n}]
234|=|{x}[..., {i:4/c}]
234|=|{x}[:, {i:3/a}] * 2
234|=|{x}[{b:n}.nonzero().squeeze(1).clamp(max=0)]
34|=|{x}[torch.arange({x}.shape[0]), {i:n/a}]
3|=|{x}[torch.arange({x}.shape[0])[:, None], :, {i:n,2/c}]
234|=|{x}.masked_select({b:c}).sum()
234||torch.where({b:n}.view(-1, *[1] * ({x}.dim() - 1)), {x}, {x}.mean())
12|!|torch.unique({x})[:1] + {x}.sum()
1234||{x}.nan_to_num(0.0).count_nonzero(-1).to({x}.dtype) + torch.isfinite({x}).float().mean()
"""

BOXES = """
2||{o}b = {x}[:, :4];;{o}l, {o}h = {o}b[:, :2], {o}b[:, :2] + {o}b[:, 2:].abs();;{o}a = ({o}h - {o}l).prod(1);;{o}i = (torch.min({o}h[:, None], {o}h[None]) - torch.max({o}l[:, None], {o}l[None])).clamp(min=0);;{o}i = {o}i[..., 0] * {o}i[..., 1];;{o} = {o}i / ({o}a[:, None] + {o}a[None] - {o}i + 1e-3)
2||{o}x, {o}y, {o}w, {o}h = {x}[:, :4].unbind(-1);;{o} = torch.stack([{o}x - 0.5 * {o}w, {o}y - 0.5 * {o}h, {o}x + 0.5 * {o}w, {o}y + 0.5 * {o}h], dim=-1)
2|!|{o}k = torch.ones({x}.shape[0], dtype=torch.bool);;{o}s = ({x}[:, None] - {x}[None]).abs().sum(-1) < 6;;for {o}j in range(min(3, {x}.shape[0])):;;    {o}k = {o}k & ~({o}s[{o}j] & (torch.arange({x}.shape[0]) > {o}j) & {o}k[{o}j]);;{o} = {x} * {o}k[:, None]
2||{o}s = ({x} @ {x}.t()).triu(diagonal=1);;{o}m = {o}s.max(0).values;;{o} = ((-({o}s ** 2) * 0.05).exp() * {x}[:, :1]).amin(0)
4||{o}y, {o}x = torch.meshgrid(torch.arange({x}.shape[2]), torch.arange({x}.shape[3]), indexing="ij");;{o}g = torch.stack([{o}x, {o}y], 0).to({x}.dtype);;{o} = ({x}[:, :2].sigmoid() * 2 - 0.5 + {o}g) * 0.25
4||{o}p = {x}.flatten(2).softmax(-1).view({x}.shape);;{o}g = torch.linspace(-1, 1, {x}.shape[3], dtype={x}.dtype);;{o} = torch.stack([({o}p.sum(2) * {o}g).sum(-1), ({o}p.sum(3) * torch.linspace(-1, 1, {x}.shape[2], dtype={x}.dtype)).sum(-1)], -1)
2||{o}a = torch.atan2({x}[:, 0], {x}[:, 1].abs() + 0.5);;{o}r = torch.stack([torch.stack([{o}a.cos(), -{o}a.sin()], -1), torch.stack([{o}a.sin(), {o}a.cos()], -1)], -2);;{o} = torch.einsum("nij,nj->ni", {o}r, {x}[:, :2])
2||torch.linalg.norm({x}, dim=-1, keepdim=True) + torch.linalg.vector_norm({x}, ord={?1?2?3?float("inf")?0}, dim=0) + torch.cross(F.pad({x}, (0, 3))[:, :3], {x}.new_ones(1, 3) * 0.5, dim=-1).sum()
2||{o}q = F.normalize({x}[:, :4], dim=-1);;{o}r, {o}i, {o}j, {o}k = torch.unbind({o}q, -1);;{o}s = 2.0 / ({o}q * {o}q).sum(-1);;{o} = torch.stack((1 - {o}s * ({o}j ** 2 + {o}k ** 2), {o}s * ({o}i * {o}j - {o}k * {o}r), {o}s * ({o}i * {o}k + {o}j * {o}r)), -1)
3||{o}o = torch.cumsum(F.softplus({x}), 1);;{o}a = 1 - torch.exp(-F.relu({x}) * 0.1);;{o}t = torch.cumprod(torch.cat([torch.ones_like({o}a[:, :1]), 1 - {o}a + 1e-6], 1), 1)[:, :-1];;{o} = ({o}a * {o}t * {o}o).sum(1)
"""

CASTS = """
1234||{x}.to(torch.{?bfloat16?float16?float64?float32}).mul(1.5).to({x}.dtype)
1234||({x}.float().softmax(-1).to(torch.bfloat16) * {x}.bfloat16()).to({x}.dtype)
1234|!=|{x}.to(torch.{?int8?int16?int32?int64}).clamp(-4, 5).to({x}.dtype)
1234|!=|({x} > {?0?0.5}).to({x}.dtype) + ({x} == 1).int()
1234|!=|({x}.abs() * 2).to(torch.uint8).bitwise_and(5).to(torch.bool).to({x}.dtype)
1234||{o}s = {x}.abs().amax().clamp(min=1e-2) / 127;;{o} = ({x}.detach() / {o}s) * {o}s
1234|!|{o}q = torch.clamp(torch.round({x} * 2.0), -128, 127).to(torch.int8);;{o} = ({o}q.to(torch.float32) - 1) * 0.37
1234|!|torch.fake_quantize_per_tensor_affine({x}.float(), 0.25, 3, 0, 255)
234|!|torch.fake_quantize_per_channel_affine({x}.float(), torch.full(({x}.shape[0],), 0.25), torch.zeros({x}.shape[0], dtype=torch.int32), 0, -128, 127)
1234|!|{x} + (torch.round({x}) - {x}).detach()
23|!|{o}w = {w:6,c};;{o}s = 0.125;;{o}q = torch.round({o}w / {o}s).clamp(-8, 7).to(torch.int8);;{o} = F.linear({x}, {o}q.to({x}.dtype) * {o}s)
12|!=|{o}i = {x}.to(torch.int32);;{o} = (({o}i & 15) << 1 | (({o}i >> 1) & 3)).to({x}.dtype)
12|!=|{o}i = ({x}.to(torch.int32) & 255).to(torch.uint8);;{o} = torch.stack([{o}i & 0xF, {o}i >> 4], -1).flatten(-2).to({x}.dtype)
1234|!=|torch.div({x}, {?2?0.5?3}, rounding_mode="{?floor?trunc}") + torch.remainder({x}, 2)
1234|!=|torch.fmod({x}, 1.5) + {x}.frac() + torch.copysign({x}, {w:c}) + {x}.sign()
1234||torch.ldexp({x}, torch.tensor(2)) - torch.hypot({x}, {w:c}) + torch.xlogy({x}.abs(), 2.0)
23||{o}z = torch.complex({x}.float(), {x}.float() * 0.5);;{o} = ({o}z * {o}z.conj()).real + {o}z.abs()
3||{o}z = torch.view_as_complex({x}.float().unflatten(-1, (-1, 2)).contiguous());;{o}f = torch.polar(torch.ones_like({o}z.real), torch.arange({o}z.shape[1]).float()[:, None].expand_as({o}z.real) * 0.1);;{o} = torch.view_as_real({o}z * {o}f).flatten(-2).to({x}.dtype)
23||torch.fft.rfft({x}.float(), dim=-1).abs()
1234||{x}.double().sum(-1).to({x}.dtype) + {x}.sum(-1, dtype=torch.float64).float()
1234|=|{x}.to({x}.dtype).type_as({x}) + torch.zeros((), dtype=torch.float64)
1234||torch.where({b:c}, {x}, torch.tensor(float("nan"))).nansum({d}) + torch.where({b:c}, {x}, 0).nanmean()
"""

PRODUCTS = """
234||F.linear({x}, {w:{?1?5?8?16?33},c})
234||{m:nn.Linear(c, {?3?8?17})}({x})
234||{m:nn.Sequential(nn.Linear(c, 16), nn.GELU(), nn.Linear(16, c))}({x}) + {x}
2||torch.addmm({w:7}, {x}, {w:c,7}, beta={?1?0.5?0}, alpha={?1?2})
2||torch.mm({x}.t(), {x}) / ({x}.shape[0] + 1)
2||{x}.t() @ {w:n,3}
2||torch.mv({x}, {w:c}) + torch.outer({x}[:, 0], {x}[:, 0]).diagonal()
3||torch.bmm({x}, {x}.transpose(1, 2)) * 0.3
3||torch.baddbmm({w:n,t,5}, {x}, {w:n,c,5}, beta=0.3)
3||torch.einsum("bij,bkj->bik", {x}, {w:n,3,c})
3||torch.einsum("bij,j,kj->bk", {x}, {w:c}, {w:4,c})
4||torch.einsum("bchw,dc->bdhw", {x}, {w:3,a})
4||torch.einsum("bchw,bcHw->bhH", {x}, {x}) * 0.1
34||torch.tensordot({x}, {w:c,3}, dims=1)
34||torch.matmul({x}, {w:c}) + 1
2||F.bilinear({x}, {x}, {w:3,c,c}, {w:3})
2||torch.kron({x}[:2, :2], {w:2,1}) + torch.chain_matmul({x}[:, :2].t(), {x}[:, :3]).sum()
2||{o}k = {x} @ {x}.t();;{o}d = {o}k.diagonal();;{o} = ({o}d[:, None] + {o}d[None] - 2 * {o}k).clamp_min(0).add(1e-3).sqrt()
2||{x} @ ({w:c,3} @ {w:3,c}) * 0.5 + {x}
34||{x}.sum({?(0, 1)?(0, -1)?(1, -1)?(-2, -1)}, keepdim={?True?False}) + {x}.mean()
34||{x}.transpose({?0?1}, -1).mean({d}, keepdim=True)
34||{x}.transpose(1, 2).sum({d}) * {x}.amax({?(0, 1)?(0, -1)?(1, -1)}, keepdim=True).sum()
234||{x}.var({d}, keepdim=True) + {x}.logsumexp({d}, keepdim=True)
34||{x}.std({?(0, 1)?(0, -1)?(1, -1)}, correction={?0?1}) + {x}.prod({d}).mean()
234|!=|{x}.any({d}).to({x}.dtype) + ({x} > 0).all({d}) + ({x} > 0).sum({d})
1234||{x} * {x}.norm() / ({x}.shape[-1] + 1)
1234||F.softmax({x}, {d}) * F.log_softmax({x} * 0.5, {d}) + F.softmin({x}, {d})
2||torch.corrcoef({x}.float()[:3]) + torch.cov({x}.float()[:3])
2||torch.tril({x}, {?0?-1}) + torch.triu({x}, 1) * 2
"""

MOVES = """
1234|=|torch.cat([{x}, {y}], {d})
1234|=|torch.cat([{x}, {x} * 2, {x}.narrow({d}, 0, 1)], {d})
1234|=|torch.stack([{x}, {x} + 1], {?0?-1}).flatten({?0?-2}, {?1?-1}) if {x}.dim() > 1 else {x}
1234|=|{x}.tensor_split(2, {d})[0]
234|=|{o}l = {x}.chunk(3, {d});;{o} = torch.cat({o}l[::-1], {d})
234|=|torch.stack({x}.unbind({?0?1})[::-1], {?0?1})
1234|=|{x}.roll({?1?-1?2}, {d})
34|=|torch.roll({x}, shifts=(1, -1), dims=(1, 2))
1234|=|{x}.flip({d})
234|=|{x}.repeat_interleave({?2?3}, {d})
234|=|{x}.repeat(*[1] * ({x}.dim() - 1), 2)
234|=|{x}.transpose({d}, -1)
34|=|{x}.permute(*range(1, {x}.dim()), 0)
234|=|{x}.transpose(0, -1).contiguous()
234|=|{x}[:, ::2]
234|=|{x}[..., 1:] - {x}[..., :-1]
1234|=|{x}.unfold({d}, {?2?3}, {?1?2}).flatten(-2) if {x}.dim() < 4 else {x}
34|=|{x}.flatten({?0?1}, {?1?2})
34|=|{x}.reshape({x}.shape[0], -1)
2|=|{x}.unsqueeze({?0?1?2})
234|=|{x}.as_strided(({x}.shape[0], {x}.shape[-1]), ({x}.stride(0), {x}.stride(-1)))
234|=|{x}.rot90(1, (-2, -1))
234|=|{x}.movedim(0, -1).diff(dim=0)
2|=|torch.diag_embed({x}) + {x}.unsqueeze(-1)
34|=|{x}.diagonal(0, -2, -1)
234|=|{x}.squeeze().unsqueeze(0) if {x}.dim() == 4 else {x}[None].expand(2, *{x}.shape).flatten(0, 1)
1|=|{x}[:, None] - {x}[None, :]
1|=|{x}.view(1, -1).expand({?3?5}, -1)
1|=|torch.meshgrid({x}, {x}[:3], indexing="ij")[1] + torch.cartesian_prod({x}[:2], {x}[:2]).sum()
123|=|torch.block_diag({x}.reshape({x}.shape[0], -1)[:3], {x}.reshape({x}.shape[0], -1)[:1])
2|=|torch.combinations({x}[:4, 0], 2)
0|=|{x} + {x}.new_ones(3, 5)
0||{x}.exp().clamp(max=9) * torch.arange(1, 7).view(2, 3)
234|=|{x} + {y}
1234|=|{x} * 2 - {y}.sum()
"""

WRITES = """
1234|=|{o} = {x}.clone();;{o}[..., ::2] = 0.5;;{o}[..., 1:] += 1
234|=|{o} = {x}.clone();;{o}[:, 0] = {x}[:, -1];;{o}[1:] *= 2
1234|=|{o} = torch.zeros_like({x});;{o}.copy_({x} * 2);;{o}.add_({x})
1234|=|{o} = torch.full_like({x}, 7);;torch.mul({x}.detach(), 2, out={o})
234|=|{o} = {x}.clone();;{o}.masked_fill_({b:c}, -1.0);;{o}.clamp_(-2, 2)
234|=|{o} = {x}.clone();;{o}.view(-1)[0] = 3;;{o}.transpose(0, 1).add_(1)
234|=|{o} = {x}.new_zeros({x}.shape[0] + 2, *{x}.shape[1:]);;{o}[1:-1] = {x};;{o}[0], {o}[-1] = {x}[0], {x}[-1]
2|=|{o} = {x}.clone();;{o}.index_add_(0, {i:3/n}, {w:3,c});;{o}.fill_diagonal_(0.5)
2|=|{o} = {x}.clone();;{o}[{i:3/n}, {i:3/c}] = 1.0;;{o}.index_fill_(1, torch.tensor([0]), 2)
2|=|{o} = {x}.clone();;{o}.index_put_(({i:4/n},), {w:4,c}, accumulate=True)
2|=|{o} = {x}.clone();;{o}[{b:n}] = 0.25;;{o} = {o} * 2
2|=|{o} = {x}.clone();;{o}.scatter_add_(1, {i:n,2/c}, {w:n,2});;{o}.scatter_(1, {i:n,1/c}, 0.5)
234|=|{o} = {x}.clone();;for {o}k in range(min(2, {x}.shape[0])):;;    {o}[{o}k].mul_({o}k + 1).sub_(1)
234||{o} = {x}.exp().clamp(max=9);;{o}.div_({o}.sum(-1, keepdim=True) + 1);;{o}.neg_().sigmoid_()
1234|=|{x}.add_(1);;{o} = {x} * 1
1234|=|{x}[..., 0] = 2;;{o} = {x} + 1
234|=|{x}.select(1, 0).mul_(2);;{o} = {x}.t() if {x}.dim() == 2 else {x} + 0
1234|=|{x}.relu_();;{o} = {x}.view(-1)
34|=|{o}z = {x}.new_zeros({x}.shape[0], {x}.shape[1], {x}.shape[2] + 2, *{x}.shape[3:]);;{o}z[:, :, 1:-1].copy_({x});;{o} = {o}z[:, :, :-2] + {o}z[:, :, 2:]
4|=|{o} = torch.zeros({x}.shape[0], {x}.shape[1], {x}.shape[2] * 2, {x}.shape[3] * 2, dtype={x}.dtype);;{o}[:, :, ::2, ::2] = {x};;{o}[:, :, 1::2, 1::2] = -{x}
3|=|{o} = {x}.clone();;{o}[:, 1:, : {x}.shape[2] // 2] = {x}[:, :-1, : {x}.shape[2] // 2];;{o}[:, 0, : {x}.shape[2] // 2] = 0
23|=|{o}k, {o}v = torch.zeros(2, 8, {x}.shape[-1], dtype={x}.dtype).unbind(0);;{o}k[2:4] = {x}.flatten(0, -2)[:2];;{o}v.index_copy_(0, torch.tensor([1]), {x}.flatten(0, -2)[:1]);;{o} = {o}k @ {o}v.t()
"""


@dataclass(frozen=True)
class Block:
    """One row: the ranks it takes, its flags and its lines."""

    ranks: str
    flags: str
    lines: tuple[str, ...]
    family: str


def _rows(family: str, text: str) -> list[Block]:
    rows = []
    for row in text.strip().splitlines():
        ranks, flags, body = row.split("|", maxsplit=2)
        lines = body.split(";;")
        plain = len(lines) == 1 and not body.startswith("{o}")
        rows.append(Block(ranks, flags, tuple([f"{{o}} = {body}"] if plain else lines), family))
    return rows


FAMILIES = {
    "norms": NORMS,
    "attention": ATTENTION,
    "gates": GATES,
    "mixtures": MIXTURES,
    "images": IMAGES,
    "losses": LOSSES,
    "scans": SCANS,
    "search": SEARCH,
    "boxes": BOXES,
    "casts": CASTS,
    "products": PRODUCTS,
    "moves": MOVES,
    "writes": WRITES,
}
BLOCKS = [block for family, text in FAMILIES.items() for block in _rows(family, text)]
