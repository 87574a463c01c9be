"""One guard for a module tree: whatever matters is still noticed, and what does not matter costs no recompilation."""

import math
import types

import torch
from eager import Captured
from torch import nn

from fuselab.toolkit.events import GuardsInstalled

x = torch.randn(3, 4)


class Config:
    def __init__(self):
        self.scale = 2.0
        self.sizes = [1, 2]
        self.kind = "relu"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.config = Config()
        self.register_buffer("shift", torch.zeros(4))
        self.extra = [1.0]
        self.weighted = True

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if self.config.kind == "relu":
                x = x.relu()
        if self.weighted:
            x = x * self.config.scale
        return x + self.shift * self.config.sizes[0] + self.extra[0]


def follows(change, recompiles=True):
    """Captured, changed, captured again: equal to eager both times."""
    model = Model()
    captured = Captured(model)
    assert torch.allclose(captured(x), model(x))
    change(model)
    assert torch.allclose(captured(x).float(), model(x).float())
    assert torch.allclose(captured(x).float(), model(x).float())
    assert len(captured.graphs) == 1 + recompiles, captured.graphs
    return captured


def test_few_guards_are_left():
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(20)])
    captured = Captured(model)
    captured(x)
    assert captured.of(GuardsInstalled)[0].count < 40
    assert "MODULE_STATE" in {row[1] for row in captured.of(GuardsInstalled)[0].rows()}


def test_attributes_parameters_and_submodules():
    follows(lambda m: setattr(m, "weighted", False))
    follows(lambda m: setattr(m.layers[0], "weight", nn.Parameter(torch.ones(4, 4))))
    follows(lambda m: m.layers.append(nn.Linear(4, 4)))
    follows(lambda m: m.layers.__setitem__(1, nn.Identity()))
    follows(lambda m: m.register_buffer("shift", torch.ones(4)))
    follows(lambda m: setattr(m.layers[0], "bias", None))


def test_values_of_parameters_may_change():
    def step(m):
        with torch.no_grad():
            for p in m.parameters():
                p.add_(1)
            m.shift.fill_(3)

    follows(step, recompiles=False)
    follows(lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}), recompiles=False)


def test_properties_of_parameters():
    follows(lambda m: m.requires_grad_(False))
    captured = Captured(model := Model())
    captured(x)
    model.double()
    assert torch.allclose(captured(x.double()), model(x.double()))


def test_configuration_objects_and_lists():
    follows(lambda m: setattr(m.config, "scale", 5.0))
    follows(lambda m: setattr(m.config, "kind", "none"))
    follows(lambda m: m.config.sizes.__setitem__(0, 7))
    follows(lambda m: setattr(m, "config", Config()), recompiles=True)
    follows(lambda m: m.extra.__setitem__(0, 9.0))


def test_hooks_registered_later():
    follows(lambda m: m.layers[0].register_forward_hook(lambda module, args, out: out * 2))
    follows(lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] + 1,)))


def test_methods_put_on_an_instance_or_the_class():
    follows(lambda m: setattr(m, "forward", types.MethodType(lambda self, x: x * 100, m)))
    follows(lambda m: setattr(m.layers[0], "forward", lambda x: x * 100))


def test_training_and_evaluation_take_turns():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    captured = Captured(model)
    for mode in (True, False, True, False, False):
        model.train(mode)
        found = captured(x)
        if not mode:
            assert torch.allclose(found, model(x), atol=1e-5)
    assert len(captured.graphs) == 2


def test_an_attribute_that_changes_all_the_time_is_left_alone():
    model = Model()
    captured = Captured(model)
    for n in range(8):
        model.last_loss = n
        assert torch.allclose(captured(x), model(x))
    assert len(captured.graphs) <= 3


def test_modules_built_alike_share_a_version():
    models = [Model() for _ in range(6)]

    def fn(model, x):
        return model(x) + 1

    captured = Captured(fn)
    for model in models:
        assert torch.allclose(captured(model, x), fn(model, x))
    assert len(captured.graphs) == 2


def test_a_parameter_given_as_an_argument_too():
    linear = nn.Linear(4, 4)

    def fn(x, w, module):
        return x @ w + module(x)

    captured = Captured(fn)
    assert torch.allclose(captured(x, linear.weight, linear), fn(x, linear.weight, linear))
    other = torch.randn(4, 4)
    assert torch.allclose(captured(x, other, linear), fn(x, other, linear))
    assert torch.allclose(captured(x, linear.weight, linear), fn(x, linear.weight, linear))


def test_globals_of_other_files(monkeypatch):
    helper = types.ModuleType("helper_of_consolidate")
    exec("factor = 2\ndef scaled(x):\n    return x * factor\ndef other(x):\n    return x * 100\n", helper.__dict__)

    def fn(x):
        return helper.scaled(x) + math.pi

    captured = Captured(fn)
    assert torch.allclose(captured(x), fn(x))
    helper.factor = 3
    assert torch.allclose(captured(x), fn(x))
    helper.unrelated = 4
    captured(x)
    assert len(captured.graphs) == 2
    helper.scaled = helper.other
    assert torch.allclose(captured(x), fn(x))


def test_a_module_dies_with_what_was_compiled_for_it():
    import gc
    import weakref

    def fn(model, x):
        return model(x)

    captured = Captured(fn)
    model = Model()
    captured(model, x)
    alive = weakref.ref(model)
    captured.graphs.clear()
    captured.events.clear()
    del model
    gc.collect()
    assert alive() is None
