"""Every leaf output of real models, held against plain forward hooks that clone."""

import dataclasses

import models
import pytest
import tensortap as tap
import torch


def flatten(value, path=""):
    """An independent idea of paths: keys and positions, joined by slashes."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    if hasattr(value, "items"):
        pairs = list(value.items())
    elif hasattr(value, "_fields"):
        pairs = list(zip(value._fields, value, strict=True))
    elif isinstance(value, (tuple, list)):
        pairs = list(enumerate(value))
    elif dataclasses.is_dataclass(value):
        pairs = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    else:
        pairs = []
    return {key: tensor for name, item in pairs for key, tensor in flatten(item, f"{path}/{name}").items()}


class CloningHooks:
    """What everybody writes: a hook on every leaf that clones what it sees."""

    def __init__(self, model):
        self.seen = {}
        self.calls = {}
        names = {}
        for name, module in model.named_modules(remove_duplicate=False):
            if not list(module.children()):
                names.setdefault(module, []).append(name)
        self.handles = [
            module.register_forward_hook(lambda m, a, out, names=names[module]: self.see(names, out))
            for module in names
        ]

    def see(self, names, output):
        for name in names:
            self.calls[name] = call = self.calls.get(name, 0) + 1
            suffix = f"::call{call}" if call > 1 else ""
            for path, tensor in flatten(output).items():
                self.seen[f"{name}{suffix}{path}"] = tensor.clone()

    def remove(self):
        for handle in self.handles:
            handle.remove()


def same_bits(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    )


@pytest.mark.parametrize("name", models.ALL)
def test_every_leaf_output_is_recorded_bit_for_bit(name, tmp_path):
    model, inputs = models.ALL[name]()
    hooks = CloningHooks(model)
    with torch.no_grad():
        with tap.record(model, tmp_path, report=False) as recording:
            model(**inputs)
        hooks.remove()

    (rank,) = tap.open(tmp_path).ranks
    recorded = rank.passes[0]
    assert recorded.ending == "complete"
    said = {key for key in recorded if key.startswith("batch@in/")}  # which tokens a language model was given
    assert said == ({"batch@in/token_ids"} if name in ("llama", "moe") else set())
    # A function that an engine has as a module (test_attention_calls.py).
    layers = range(len(getattr(model, "model", model).layers)) if said else ()
    attention = {f"model.layers.{layer}.self_attn.attn" for layer in layers}
    assert set(recorded) - said - attention == set(hooks.seen)
    assert len(recorded) > 15
    for key, expected in hooks.seen.items():
        assert same_bits(recorded[key], expected), key
    assert recording.coverage["unsupported"] == []


def test_generation_is_one_pass_a_token(tmp_path):
    model, inputs = models.llama()
    with tap.record(model, tmp_path, report=False, filter=[r"lm_head$"]):
        model.generate(**inputs, max_new_tokens=4, do_sample=False)
    passes = tap.open(tmp_path).ranks[0].passes
    assert list(passes) == [0, 1, 2, 3]
    for recorded in passes.values():
        assert [key for key in recorded if not key.startswith("batch@in/")] == ["lm_head"]
        assert "batch@in/token_ids" in recorded
