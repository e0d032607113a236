"""Mistakes people really make, planted deep inside small real models; each knows the module that must be blamed.

A fault is planted inside the module's forward, so what the tap records of its inputs is what the module was given.
Where it sits in functional code, the innermost module around that code is the one to blame.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

import models
import tensortap as tap
import torch
from torch import nn

# ---- the models ----


def minilm():
    from transformers import AutoModel

    _, arguments = models.minilm()
    model = AutoModel.from_pretrained(models.minilm_folder(), attn_implementation="eager").eval()
    return model, [arguments]


def llama(inner=96, tokens=8):
    """Reads a prompt, then decodes one token from the cache: two passes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=97, hidden_size=64, intermediate_size=inner, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.1, attn_implementation="eager",
    )  # fmt: skip
    ids = torch.randint(1, 97, (2, tokens), generator=torch.Generator().manual_seed(1))
    return _seeded(LlamaForCausalLM, config), [{"input_ids": ids[:, :-1]}, {"input_ids": ids[:, -1:]}]


def llama_of_long_sums():
    """Sums so long that threads share them, and so add in another order."""
    return llama(inner=2048, tokens=32)


def vit():
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, image_size=16, patch_size=4,
        initializer_range=0.1, attn_implementation="eager",
    )  # fmt: skip
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    return _seeded(ViTModel, config), [{"pixel_values": images}]


def _seeded(make, config):
    torch.manual_seed(0)
    return make(config).eval()


ARCHITECTURES = {"minilm": minilm, "llama": llama, "vit": vit}
_made = cache(lambda architecture: ARCHITECTURES[architecture]())


def make(architecture):
    """A model of its own, and the arguments of its passes."""
    model, passes = _made(architecture)
    return copy.deepcopy(model), passes


def record(model, passes, folder, level="full"):
    with torch.no_grad(), tap.record(model, folder, roles=("in", "out"), modules="all", level=level, report=False):
        cache_of = {}
        for arguments in passes:
            output = model(**arguments, **cache_of)
            cache_of = {"past_key_values": output.past_key_values} if len(passes) > 1 else {}
    return folder


# ---- ways to get into a module ----


def instead(module, forward):
    """Calls forward(original, ...) where the module's forward was called."""
    original = module.forward
    module.forward = lambda *args, **kwargs: forward(original, *args, **kwargs)


def while_it_runs(module, owner, name, change):
    """Replaces owner.name by change(original) while the module runs, and at no other time."""

    def forward(original, *args, **kwargs):
        with patch.object(owner, name, change(getattr(owner, name))):
            return original(*args, **kwargs)

    instead(module, forward)


def file_of(module):
    return sys.modules[type(module).__module__]


# ---- the faults: each is given the module that it makes wrong ----


def wrong_epsilon(norm):
    if hasattr(norm, "eps"):
        norm.eps = 1e-3
    else:
        norm.variance_epsilon = 1e-2


def swapped_heads(attention):
    """The first two heads change places, before they are put together."""

    def change(attend):
        def swapped(*args, **kwargs):
            output, weights = attend(*args, **kwargs)  # of [batch, position, head, channel]
            order = [1, 0, *range(2, output.shape[2])]
            return output[:, :, order].contiguous(), weights

        return swapped

    while_it_runs(attention, file_of(attention), "eager_attention_forward", change)


def transposed_weight(linear):
    assert linear.in_features == linear.out_features
    linear.weight = nn.Parameter(linear.weight.detach().T.contiguous())


def query_one_position_ahead(attention):
    """The queries are rotated as if each stood one token later; were the keys so too, nothing would change."""

    channels = attention.head_dim
    theta = attention.config.rope_parameters["rope_theta"]
    step = (theta ** -(torch.arange(0, channels, 2) / channels)).repeat(2)

    def change(rotate):
        def rotated(query, key, cos, sin):
            ahead = cos * step.cos() - sin * step.sin(), sin * step.cos() + cos * step.sin()  # of position + 1
            return rotate(query, key, *ahead)[0], rotate(query, key, cos, sin)[1]

        return rotated

    while_it_runs(attention, file_of(attention), "apply_rotary_pos_emb", change)


def rope_one_position_ahead(rotary):
    instead(rotary, lambda original, x, position_ids: original(x, position_ids + 1))


def positions_from_one(embeddings):
    """The offset of two that RoBERTa has, got half right."""
    embeddings.position_ids = embeddings.position_ids + 1


def positions_moved_by_one(embeddings):
    embeddings.position_embeddings = nn.Parameter(embeddings.position_embeddings.detach().roll(1, dims=1))


def flipped_bit(linear):
    """The highest bit of the mantissa of one weight: it changes by a half or a third."""
    with torch.no_grad():
        weight = linear.weight[5]
        place = weight.abs().argmax()
        weight.view(torch.int32)[place] ^= 1 << 22


def dropout_left_on(module):
    if isinstance(module, nn.Dropout):
        module.p = 0.1
    else:
        module.attention_dropout = 0.1  # functional, inside the attention
    module.training = True
    instead(module, _seeded_forward)


def _seeded_forward(original, *args, **kwargs):
    torch.manual_seed(3)
    return original(*args, **kwargs)


def computes_in_bf16(module):
    """Takes and gives float32 and computes in bfloat16."""
    module.to(torch.bfloat16)

    def cast(value, dtype):
        if isinstance(value, torch.Tensor):
            return value.to(dtype) if value.is_floating_point() else value
        return type(value)(cast(each, dtype) for each in value) if isinstance(value, tuple) else value

    def forward(original, *args, **kwargs):
        kwargs = {key: cast(value, torch.bfloat16) for key, value in kwargs.items()}
        return cast(original(*cast(args, torch.bfloat16), **kwargs), torch.float32)

    instead(module, forward)


def one_nan(module):
    def forward(original, *args, **kwargs):
        output = original(*args, **kwargs).clone()
        output[1, -1, 7] = float("nan")
        return output

    instead(module, forward)


def softmax_over_wrong_axis(attention):
    def change(softmax):
        return lambda x, dim, **kwargs: softmax(x, dim=-2, **kwargs)

    while_it_runs(attention, nn.functional, "softmax", change)


def stale_row(attention):
    """While decoding, the new token's keys and values do not reach the cache, whose row holds the last one's."""

    def forward(original, *args, **kwargs):
        cached = kwargs["past_key_values"]
        update = cached.update

        def stale_update(key, value, *more):
            if key.shape[-2] > 1:  # the prompt
                return update(key, value, *more)
            layer = cached.layers[attention.layer_idx]
            return update(layer.keys[..., -1:, :], layer.values[..., -1:, :], *more)

        with patch.object(cached, "update", stale_update):
            return original(*args, **kwargs)

    instead(attention, forward)


# ---- no fault ----


def sum_all_in_two_halves(model):
    """Every product of a Linear, as another kernel or thread count might."""

    def halved(linear):
        half = linear.in_features // 2

        def forward(original, x):
            second = nn.functional.linear(x[..., half:], linear.weight[:, half:], linear.bias)
            return nn.functional.linear(x[..., :half], linear.weight[:, :half]) + second

        return forward

    for module in model.modules():
        # One that has a fault in its forward keeps it.
        if isinstance(module, nn.Linear) and "forward" not in vars(module):
            instead(module, halved(module))


# ---- which, where ----


@dataclass(frozen=True)
class Fault:
    architecture: str
    plant: Callable[[nn.Module], None]
    module: str
    in_pass: int = 0
    call: str = ""  # of a function that the module calls and that is wrong: attention of a language model

    @property
    def blamed(self):
        return self.module + self.call

    def __str__(self):
        return f"{self.architecture}-{self.plant.__name__}"

    def planted(self):
        model, passes = make(self.architecture)
        self.plant(model.get_submodule(self.module))
        return model, passes


FAULTS = [
    Fault("minilm", wrong_epsilon, "encoder.layer.3.output.LayerNorm"),
    Fault("minilm", swapped_heads, "encoder.layer.3.attention.self"),
    Fault("minilm", transposed_weight, "encoder.layer.2.attention.self.value"),
    Fault("minilm", positions_from_one, "embeddings"),
    Fault("minilm", flipped_bit, "encoder.layer.4.intermediate.dense"),
    Fault("minilm", dropout_left_on, "encoder.layer.3.attention.output.dropout"),
    Fault("minilm", computes_in_bf16, "encoder.layer.2.output.dense"),
    Fault("minilm", one_nan, "encoder.layer.3.intermediate.intermediate_act_fn"),
    Fault("minilm", softmax_over_wrong_axis, "encoder.layer.4.attention.self"),
    Fault("llama", wrong_epsilon, "model.layers.2.post_attention_layernorm"),
    Fault("llama", swapped_heads, "model.layers.2.self_attn", call=".attn"),
    Fault("llama", transposed_weight, "model.layers.1.self_attn.o_proj"),
    Fault("llama", query_one_position_ahead, "model.layers.2.self_attn"),
    Fault("llama", rope_one_position_ahead, "model.rotary_emb"),
    Fault("llama", flipped_bit, "model.layers.1.mlp.up_proj"),
    Fault("llama", dropout_left_on, "model.layers.2.self_attn", call=".attn"),
    Fault("llama", computes_in_bf16, "model.layers.2.mlp"),
    Fault("llama", one_nan, "model.layers.2.mlp.act_fn"),
    Fault("llama", softmax_over_wrong_axis, "model.layers.1.self_attn", call=".attn"),
    Fault("llama", stale_row, "model.layers.2.self_attn", in_pass=1),
    Fault("vit", wrong_epsilon, "layers.2.layernorm_after"),
    Fault("vit", swapped_heads, "layers.2.attention"),
    Fault("vit", transposed_weight, "layers.1.attention.k_proj"),
    Fault("vit", positions_moved_by_one, "embeddings"),
    Fault("vit", flipped_bit, "layers.2.mlp.fc1"),
    Fault("vit", dropout_left_on, "layers.1.dropout"),
    Fault("vit", computes_in_bf16, "layers.2"),
    Fault("vit", one_nan, "layers.2.mlp.fc2"),
    Fault("vit", softmax_over_wrong_axis, "layers.1.attention"),
]
