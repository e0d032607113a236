"""Faults that are planted into a model, one at a time, and the module that is to be named for each.

A fault lives in one module: in what it returns, in its parameters, in its settings, or in the code between the modules
that it calls. The module is to be named, and no other.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Change = Callable[[torch.Tensor, random.Random], torch.Tensor]


@dataclass(frozen=True)
class Fault:
    """`suits` says for which modules it can be planted; `plant` plants it.

    `function`: what a tool may call the function of the module that the fault is in; to name it is as exact.
    """

    name: str
    suits: Callable[[str, nn.Module], bool]
    plant: Callable[[nn.Module, random.Random], None]
    function: str = ""


@dataclass(frozen=True)
class Planted:
    """A model with a fault, and the module that is to be named."""

    model: nn.Module
    fault: str
    module: str


def plant(fault: Fault, model: nn.Module, candidates: list[str], rng: random.Random) -> Planted | None:
    """A copy of the model with the fault in one of the candidates; None where none of them suits."""
    modules = dict(model.named_modules())
    suiting = [name for name in candidates if fault.suits(name, modules[name])]
    if not suiting:
        return None
    name = rng.choice(suiting)
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        fault.plant(wrong.get_submodule(name), rng)
    return Planted(wrong, fault.name, name)


# ---- what a module returns ----


def _map_first(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The first tensor of floats in what a module returned, changed."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.is_floating_point() else value
    if isinstance(value, tuple | list):
        for index, part in enumerate(value):
            changed = _map_first(part, change)
            if changed is not part:
                return type(value)([*value[:index], changed, *value[index + 1 :]])
    elif isinstance(value, dict):
        for key, part in value.items():
            changed = _map_first(part, change)
            if changed is not part:
                made = copy.copy(value)
                made[key] = changed
                return made
    return value


def _returns(name: str, change: Change) -> Fault:
    def plant_it(module: nn.Module, rng: random.Random) -> None:
        forward, seed = module.forward, rng.random()

        def wrong(*args: Any, **kwargs: Any) -> Any:
            return _map_first(forward(*args, **kwargs), lambda tensor: change(tensor, random.Random(seed)))

        module.forward = wrong  # type: ignore[method-assign]

    return Fault(name, lambda _, __: True, plant_it)


def _channels(tensor: torch.Tensor) -> int:
    """The axis of the channels: the last, or the second of an image."""
    return 1 if tensor.ndim == 4 else tensor.ndim - 1


def _row(tensor: torch.Tensor, rng: random.Random) -> tuple[Any, ...]:
    """The index of one row: one sample, and one token of it where it has some."""
    return tuple(rng.randrange(size) for size in tensor.shape[: max(1, min(tensor.ndim - 1, 2))])


def _two(count: int, rng: random.Random) -> list[int]:
    return rng.sample(range(count), 2) if count > 1 else [0, 0]


def _factor(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    return tensor * 1.02


def _row_off(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    made = tensor.clone()
    made[_row(tensor, rng)] += 0.05 * tensor.float().std().to(tensor.dtype)
    return made


def _channels_swapped(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    axis = _channels(tensor)
    one, other = _two(tensor.shape[axis], rng)
    order = list(range(tensor.shape[axis]))
    order[one], order[other] = order[other], order[one]
    return tensor.index_select(axis, torch.tensor(order, device=tensor.device))


def _channel_zeroed(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    made, axis = tensor.clone(), _channels(tensor)
    made.select(axis, rng.randrange(tensor.shape[axis])).zero_()
    return made


def _channel_negated(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    made, axis = tensor.clone(), _channels(tensor)
    made.select(axis, rng.randrange(tensor.shape[axis])).neg_()
    return made


def _shifted(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    return tensor.roll(1, dims=tensor.ndim - 2 if tensor.ndim > 1 else 0)


def _through_fp8(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    return tensor.to(torch.float8_e4m3fn).to(tensor.dtype)


def _rows_swapped(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    axis = tensor.ndim - 2 if tensor.ndim > 1 else 0
    one, other = _two(tensor.shape[axis], rng)
    order = list(range(tensor.shape[axis]))
    order[one], order[other] = order[other], order[one]
    return tensor.index_select(axis, torch.tensor(order, device=tensor.device))


def _one_element(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    made = tensor.contiguous().clone()
    made.view(-1)[rng.randrange(tensor.numel())] += 2 * tensor.float().std().to(tensor.dtype)
    return made


def _heads_mixed(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    """Channels read as [16, heads] where they are [heads, 16]."""
    axis = _channels(tensor)
    size = tensor.shape[axis]
    parts = 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1
    order = torch.arange(size, device=tensor.device).view(parts, -1).t().flatten()
    return tensor.index_select(axis, order)


def _clamped(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    limit = 1.5 * tensor.float().std().item()
    return tensor.clamp(-limit, limit)


def _constant_added(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    return tensor + 0.02 * tensor.float().square().mean().sqrt().to(tensor.dtype)


def _nan(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    made = tensor.contiguous().clone()
    made.view(-1)[rng.randrange(tensor.numel())] = math.nan
    return made


def _sample_copied(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    made = tensor.clone()
    made[-1] = tensor[0]
    return made


def _block_scaled(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    made, axis = tensor.clone(), _channels(tensor)
    made.narrow(axis, 0, max(1, tensor.shape[axis] // 4)).mul_(1.05)
    return made


def _through_int8(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    scale = tensor.float().abs().max() / 127
    return ((tensor.float() / scale).round() * scale).to(tensor.dtype)


def _last_token_dropped(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    made = tensor.clone()
    made.select(tensor.ndim - 2 if tensor.ndim > 1 else 0, -1).zero_()
    return made


def _truncated(tensor: torch.Tensor, _: random.Random) -> torch.Tensor:
    """Half of the bits of the mantissa cut off."""
    if tensor.dtype == torch.float32:
        return (tensor.contiguous().view(torch.int32) & -4096).view(torch.float32)
    mask = -8 if tensor.dtype == torch.bfloat16 else -32
    return (tensor.contiguous().view(torch.int16) & mask).view(tensor.dtype)


# ---- parameters ----


def _has_matrix(_: str, module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.ndim >= 2 and not isinstance(module, nn.Embedding)


def _in_weight(name: str, change: Change, suits: Callable[[str, nn.Module], bool] = _has_matrix) -> Fault:
    def plant_it(module: nn.Module, rng: random.Random) -> None:
        module.weight = nn.Parameter(change(module.weight.detach().clone(), rng), requires_grad=False)

    return Fault(name, suits, plant_it)


def _weight_row_scaled(weight: torch.Tensor, rng: random.Random) -> torch.Tensor:
    weight[rng.randrange(weight.shape[0])] *= 1.1
    return weight


def _weight_rows_swapped(weight: torch.Tensor, rng: random.Random) -> torch.Tensor:
    one, other = _two(weight.shape[0], rng)
    weight[[one, other]] = weight[[other, one]]
    return weight


def _is_square(name: str, module: nn.Module) -> bool:
    return _has_matrix(name, module) and module.weight.ndim == 2 and module.weight.shape[0] == module.weight.shape[1]


def _has_bias(_: str, module: nn.Module) -> bool:
    return isinstance(getattr(module, "bias", None), torch.Tensor)


def _drop_bias(module: nn.Module, _: random.Random) -> None:
    module.bias.zero_()


def _is_norm(name: str, module: nn.Module) -> bool:
    return "Norm" in type(module).__name__ and isinstance(getattr(module, "weight", None), torch.Tensor)


def _is_embedding(_: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding)


# ---- settings, and code between modules ----


def _set_eps(module: nn.Module, _: random.Random) -> None:
    for name in ("eps", "variance_epsilon"):
        if hasattr(module, name):
            setattr(module, name, max(1e-2, 1000 * getattr(module, name)))


def _has_eps(name: str, module: nn.Module) -> bool:
    return _is_norm(name, module) and (hasattr(module, "eps") or hasattr(module, "variance_epsilon"))


def _has_scaling(_: str, module: nn.Module) -> bool:
    return isinstance(getattr(module, "scaling", None), float) and "Attention" in type(module).__name__


def _scale_attention(module: nn.Module, _: random.Random) -> None:
    module.scaling *= 1.3


def _is_rotary(_: str, module: nn.Module) -> bool:
    return isinstance(getattr(module, "inv_freq", None), torch.Tensor)


def _turn_faster(module: nn.Module, _: random.Random) -> None:
    module.inv_freq = module.inv_freq**1.1


def _is_activation(_: str, module: nn.Module) -> bool:
    return any(word in type(module).__name__ for word in ("GELU", "SiLU", "Silu", "ReLU")) and not list(
        module.parameters()
    )


def _other_activation(module: nn.Module, _: random.Random) -> None:
    kind = type(module).__name__
    wrong = nn.functional.silu if "GELU" in kind else nn.functional.leaky_relu if "ReLU" in kind else nn.functional.gelu
    module.forward = lambda x: wrong(x)  # type: ignore[method-assign]


def _is_dropout(_: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Dropout)


def _dropout_on(module: nn.Module, _: random.Random) -> None:
    module.forward = lambda x: nn.functional.dropout(x, 0.1, training=True)  # type: ignore[method-assign]


def _is_layer(name: str, module: nn.Module) -> bool:
    return name.rpartition(".")[2].isdigit() and any(module.children())


def _residual_added(module: nn.Module, _: random.Random) -> None:
    forward = module.forward

    def wrong(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return _map_first(
            forward(x, *args, **kwargs), lambda made: made + 0.05 * x if made.shape == x.shape else made * 1.05
        )

    module.forward = wrong  # type: ignore[method-assign]


FAULTS = [
    _returns("factor 1.02", _factor),
    _returns("row off by 5 % of the spread", _row_off),
    _returns("two channels swapped", _channels_swapped),
    _returns("channel zeroed", _channel_zeroed),
    _returns("channel negated", _channel_negated),
    _returns("shifted by one token", _shifted),
    _returns("through fp8", _through_fp8),
    _returns("two rows swapped", _rows_swapped),
    _returns("one element off", _one_element),
    _returns("heads mixed", _heads_mixed),
    _returns("clamped", _clamped),
    _returns("constant added", _constant_added),
    _returns("one NaN", _nan),
    _returns("sample copied over another", _sample_copied),
    _returns("block scaled by 1.05", _block_scaled),
    _returns("through int8", _through_int8),
    _returns("last token zeroed", _last_token_dropped),
    _returns("mantissa cut off", _truncated),
    _in_weight("weight: row scaled by 1.1", _weight_row_scaled),
    _in_weight("weight: two rows swapped", _weight_rows_swapped),
    _in_weight("weight: transposed", lambda weight, _: weight.t().contiguous(), _is_square),
    _in_weight("weight: through fp8", _through_fp8),
    _in_weight("weight: through int8", _through_int8),
    _in_weight("weight: reordered", lambda weight, _: weight.roll(1, 0)),
    Fault("bias missing", _has_bias, _drop_bias),
    _in_weight("norm: weight missing", lambda weight, _: torch.ones_like(weight), _is_norm),
    Fault("norm: eps", _has_eps, _set_eps),
    _in_weight("embedding: rows shifted", lambda weight, _: weight.roll(1, 0), _is_embedding),
    Fault("attention: scale", _has_scaling, _scale_attention, function="attn"),
    Fault("rotary: base", _is_rotary, _turn_faster),
    Fault("other activation", _is_activation, _other_activation),
    Fault("dropout on", _is_dropout, _dropout_on),
    Fault("layer: residual scaled", _is_layer, _residual_added),
]
