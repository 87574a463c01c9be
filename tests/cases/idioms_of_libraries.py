"""Programs of `idioms`: libraries, and what torch offers like them."""

from __future__ import annotations

import dataclasses
import os

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils import checkpoint

from .idioms import program, repeated

X = torch.linspace(-1, 1, 12).reshape(3, 4)

# -- libraries --------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 4
    names: tuple = ("a", "b")
    extra: dict = dataclasses.field(default_factory=dict)


@program("library")
def dataclass_config():
    def fn(x, cfg):
        new = dataclasses.replace(cfg, width=2)
        return x * cfg.width + new.width + len(dataclasses.asdict(cfg)), new

    return repeated(fn, X, Config())


@program("library")
def parametrized():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).T

    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())

    def fn(x):
        with parametrize.cached():
            return layer(x) + layer(x * 2)

    return repeated(fn, X)


@program("library")
def weight_norm():
    return repeated(parametrizations.weight_norm(nn.Linear(4, 4)), X)


@program("library")
def old_weight_norm():
    return repeated(torch.nn.utils.weight_norm(nn.Linear(4, 4)), X)


@program("library")
def spectral_norm():
    return repeated(parametrizations.spectral_norm(nn.Linear(4, 4)), X)


@program("library")
def old_spectral_norm():
    return repeated(torch.nn.utils.spectral_norm(nn.Linear(4, 4)), X)


@program("library")
def functional_call():
    layer = nn.Linear(4, 4)
    params = {k: v.detach() * 2 for k, v in layer.named_parameters()}
    return repeated(lambda x: torch.func.functional_call(layer, params, (x,)), X)


@program("library")
def functional_call_grad():
    layer = nn.Linear(4, 4)
    params = dict(layer.named_parameters())

    def fn(x):
        return torch.func.grad(lambda p: torch.func.functional_call(layer, p, (x,)).sum())(params)

    return repeated(fn, X)


@program("library")
def checkpointed():
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())

    def fn(x):
        return checkpoint.checkpoint(layer, x, use_reentrant=False) + 1

    return repeated(fn, X.clone().requires_grad_())


@program("library")
def checkpointed_reentrant():
    layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def fn(x):
        return checkpoint.checkpoint(layer, x, use_reentrant=True) + 1

    return repeated(fn, X.clone().requires_grad_())


@program("library")
def checkpoint_sequential():
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())
    return repeated(lambda x: checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False), X.clone().requires_grad_())


@program("library")
def averaged_model():
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    layer = nn.Linear(4, 4)
    averaged = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(0.9))

    def fn(x):
        averaged.update_parameters(layer)
        return averaged(x)

    return repeated(fn, X, times=5)


@program("library")
def grad_scaler():
    layer = nn.Linear(4, 4)
    opt = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def fn(x):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = layer(x).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    return repeated(fn, X, times=5)


@program("library")
def scheduler_step():
    layer = nn.Linear(4, 4)
    opt = torch.optim.AdamW(layer.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)

    def fn(x):
        loss = layer(x).pow(2).mean()
        loss.backward()
        opt.step()
        scheduler.step()
        opt.zero_grad(set_to_none=True)
        return loss.detach(), scheduler.get_last_lr()

    return repeated(fn, X, times=10)


@program("library")
def optimizer_with_schedule():
    p = nn.Parameter(X.clone())
    opt = torch.optim.Adam([p], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)

    def fn(g):
        p.grad = g * 1
        opt.step()
        return p.detach() * 1

    def call(g):
        out = fn(g)
        scheduler.step()
        return out

    return repeated(call, X, times=8)


@program("library")
def einops_rearrange():
    import einops
    from einops.layers.torch import Rearrange

    layer = Rearrange("b (h d) -> b h d", h=2)

    def fn(x):
        y = einops.rearrange(x, "b (h d) -> h b d", h=2)
        both = einops.reduce(y, "h b d -> b", "mean"), einops.repeat(x, "b c -> b c k", k=2)
        return *both, layer(x), einops.einsum(x, x, "a b, c b -> a c")

    return fn, [(X,), (X,), (torch.ones(5, 4),), (torch.ones(6, 4),)]


@program("library")
def jaxtyped():
    from jaxtyping import Float, jaxtyped

    @jaxtyped(typechecker=None)
    def fn(x: Float[torch.Tensor, "b d"]) -> Float[torch.Tensor, "b d"]:  # noqa: F722
        return x * 2

    return repeated(fn, X)


@program("library")
def isinstance_jaxtyping():
    from jaxtyping import Float

    def fn(x):
        return x * 2 if isinstance(x, Float[torch.Tensor, "b d"]) else x

    return repeated(fn, X)


@program("library")
def accelerate_hooks():
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module

    layer = nn.Linear(4, 4)
    add_hook_to_module(layer, AlignDevicesHook(execution_device="cpu", io_same_device=True))
    return repeated(lambda x: layer(x) + 1, X)


@program("library")
def peft_lora():
    from peft import LoraConfig, get_peft_model

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(4, 4)

        def forward(self, x):
            return self.q(x)

    return repeated(get_peft_model(Net(), LoraConfig(target_modules=["q"], r=2)), X)


def _gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    config = GPT2Config(vocab_size=32, n_positions=32, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=31, pad_token_id=30)
    return GPT2LMHeadModel(config).eval()


@program("library")
def peft_prompt_tuning():
    from peft import PromptTuningConfig, get_peft_model

    model = get_peft_model(_gpt2(), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)).eval()
    return repeated(lambda i: model(input_ids=i).logits, torch.tensor([[1, 2, 3]]))


@program("library")
def generate_greedy():
    model = _gpt2()

    def fn(ids):
        return model.generate(ids, max_new_tokens=8, do_sample=False)

    return repeated(fn, torch.tensor([[1, 2, 3]]), times=2)


def _llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 32, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    tokens = {"bos_token_id": 0, "eos_token_id": 31, "pad_token_id": 30}
    config = LlamaConfig(**sizes, **tokens, num_key_value_heads=1, max_position_embeddings=64)
    return LlamaForCausalLM(config).eval()


@program("library")
def generate_static_cache():
    model = _llama()

    def fn(ids):
        return model.generate(ids, max_new_tokens=8, do_sample=False, cache_implementation="static", disable_compile=True)

    return repeated(fn, torch.tensor([[1, 2, 3]]), times=2)


@program("library")
def forward_dynamic_cache():
    from transformers import DynamicCache

    model = _llama()

    @torch.no_grad()
    def call(ids):
        cache = DynamicCache()
        token, out = ids, []
        for _ in range(8):
            logits = model(token, past_key_values=cache, use_cache=True).logits
            token = logits[:, -1:].argmax(-1)
            out.append(token)
        return torch.cat(out, 1)

    return repeated(call, torch.tensor([[1, 2, 3]]), times=2)
