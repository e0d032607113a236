"""Kernels of PyTorch's with a mistake each, as a backend may have them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

Right = Callable[..., Any]
Wrong = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """A wrong kernel: what is the matter, which operator it is of, and what it computes instead.

    `wrong` is called with the right kernel and the arguments. `dtypes` are those in which the mistake is one.
    """

    name: str
    op: str
    wrong: Wrong
    dtypes: tuple[str, ...] = ("f32", "bf16")
    shown: str = ""  # the operator that calls the kernel, where a recording has that

    @property
    def recorded(self) -> str:
        return f"aten::{self.shown or self.op}"


@dataclass
class Planted:
    """Which call was wrong: the how-manieth of its operator."""

    calls: int = 0
    changed: bool = False
    outputs: list[torch.Tensor] = field(default_factory=list)


@contextlib.contextmanager
def planted(fault: Fault | None, at: int | None) -> Iterator[Planted]:
    """The kernel of the CPU is wrong in its call number `at`; with None it only counts."""
    seen = Planted()
    if fault is None:
        yield seen
        return
    right = torch.library.get_kernel(f"aten::{fault.op}", "CPU")

    is_binary = fault.op.endswith(".Tensor")

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            # A kernel takes no number for a tensor, as an operator does.
            given = tuple(torch.tensor(each) if isinstance(each, int | float) and is_binary else each for each in given)
            return right.call_boxed(keyset, *given, **named)

        seen.calls += 1
        sound = call(*args, **kwargs)
        if seen.calls - 1 != at:
            return sound
        made = fault.wrong(call, *args, **kwargs)
        seen.changed = not _same(sound, made)
        return made

    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl(fault.op, kernel, "CPU", with_keyset=True, allow_override=True)
        yield seen
    finally:
        library._destroy()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list):
        return all(_same(x, y) for x, y in zip(a, b, strict=True))
    return not isinstance(a, torch.Tensor) or torch.equal(a, b)


# ---- how values are spoilt ----


def cut_off(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    """float32 without its last bits: TF32 has 13 fewer, bf16 16 fewer."""
    return (tensor.float().view(torch.int32) & -(1 << bits)).view(torch.float32)


def towards_zero(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounded to bf16 by cutting off; to other dtypes as it should be."""
    return cut_off(exact, 16).to(dtype) if dtype == torch.bfloat16 else exact.to(dtype)


def with_last_rows(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A copy of which the last tenth of the last axis is another."""
    made = tensor.clone()
    width = max(1, tensor.shape[-1] // 10)
    made[..., -width:] = change(made[..., -width:])
    return made


def _first(change: Callable[[torch.Tensor], torch.Tensor]) -> Wrong:
    """The first result, spoilt."""

    def wrong(right: Right, *args: Any, **kwargs: Any) -> Any:
        made = right(*args, **kwargs)
        return (change(made[0]), *made[1:]) if isinstance(made, tuple | list) else change(made)

    return wrong


# ---- products ----


def _factors(right: Right, args: tuple[Any, ...], change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return right(*(change(each) if isinstance(each, torch.Tensor) else each for each in args))


def tf32(right: Right, *args: Any, **kwargs: Any) -> Any:
    return _factors(right, args, lambda each: cut_off(each, 13))


def _in_narrow_sums(right: Right, first: torch.Tensor, second: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    total = None
    for begin in range(0, first.shape[-1], 4):
        part = first[..., begin : begin + 4].float() @ second[..., begin : begin + 4, :].float()
        total = part.to(dtype) if total is None else (total.float() + part).to(dtype)
    assert total is not None
    return total.to(first.dtype)


def narrow_product(right: Right, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Sums in the dtype of the values: bf16, or f16 for f32."""
    return _in_narrow_sums(right, first, second, torch.float16 if first.dtype == torch.float32 else first.dtype)


def narrow_addmm(right: Right, bias: torch.Tensor, first: torch.Tensor, second: torch.Tensor, **kwargs: Any) -> Any:
    return bias + narrow_product(right, first, second)


def last_terms_missing(right: Right, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The last block of the sum is left out, in the last columns."""
    made = right(first, second).clone()
    width, block = max(1, made.shape[-1] // 10), max(1, first.shape[-1] // 8)
    made[..., -width:] = right(first[..., :-block].contiguous(), second[..., :-block, -width:].contiguous())
    return made


# ---- norms, softmax, attention ----


def other_epsilon(right: Right, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return right(x, shape, weight, bias, 100 * eps + 1e-3)


def unbiased_variance(right: Right, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    made, mean, spread = right(x, shape, weight, bias, eps)
    factor = ((shape[-1] - 1) / shape[-1]) ** 0.5
    shift = 0 if bias is None else bias
    return ((made - shift) * factor + shift).to(made.dtype), mean, spread


def without_maximum(right: Right, x: torch.Tensor, dim: int, half: bool) -> torch.Tensor:
    raised = x.half().exp() if x.dtype != torch.float32 else (x * 8).exp()
    return (raised / raised.sum(dim, keepdim=True)).to(x.dtype)


def last_term_missing(right: Right, x: torch.Tensor, dim: int, half: bool) -> torch.Tensor:
    raised = (x - x.amax(dim, keepdim=True)).float().exp()
    return (raised / raised.narrow(dim, 0, x.shape[dim] - 1).sum(dim, keepdim=True)).to(x.dtype)


def other_scale(right: Right, query: torch.Tensor, *args: Any, scale: float | None = None, **kwargs: Any) -> Any:
    return right(query, *args, scale=(query.shape[-1] ** -0.5 if scale is None else scale) * 1.05, **kwargs)


def broken_mask(right: Right, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
                ) -> Any:  # fmt: skip
    """The last token is not seen."""
    return right(query, key[:, :, :-1].contiguous(), value[:, :, :-1].contiguous(), *args, **_cut_mask(kwargs))


def _cut_mask(kwargs: dict[str, Any]) -> dict[str, Any]:
    mask = kwargs.get("attn_mask")
    return kwargs if mask is None else {**kwargs, "attn_mask": mask[..., :-1].contiguous()}


# ---- gradients ----


def gradient_of_another(right: Right, gradient: torch.Tensor, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return right(gradient, x, approximate="tanh") * 1.01


def no_mean(right: Right, gradient: Any, x: Any, shape: Any, mean: Any, spread: Any, weight: Any, *rest: Any) -> Any:
    made = right(gradient, x, shape, mean, spread, weight, *rest)
    return ((gradient * (1 if weight is None else weight) * spread).to(x.dtype), *made[1:])


def no_sum(right: Right, gradient: torch.Tensor, output: torch.Tensor, *rest: Any) -> torch.Tensor:
    return gradient * output


def last_wins(right: Right, gradient: torch.Tensor, indices: torch.Tensor, count: int, *rest: Any) -> torch.Tensor:
    """Tokens that stand in several places count once."""
    made = gradient.new_zeros(count, gradient.shape[-1])
    made[indices.reshape(-1)] = gradient.reshape(-1, gradient.shape[-1])
    return made


def narrow_sum(right: Right, x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    axes = sorted(axis % x.dim() for axis in dim)
    made = x.float()
    for axis in reversed(axes):
        total = torch.zeros_like(made.select(axis, 0), dtype=torch.bfloat16)
        for part in made.unbind(axis):
            total = (total.float() + part).bfloat16()
        made = total.float()
    made = made.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdim else made
    return made.to(x.dtype)


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) else value


FAULTS = [
    Fault("TF32 in mm", "mm", tf32, ("f32",)),
    Fault("TF32 in addmm", "addmm", tf32, ("f32",)),
    Fault("TF32 in bmm", "bmm", tf32, ("f32",)),
    Fault("TF32 in convolution", "mkldnn_convolution", tf32, ("f32",), shown="convolution"),
    Fault("narrow sums in mm", "mm", narrow_product),
    Fault("narrow sums in addmm", "addmm", narrow_addmm),
    Fault("narrow sums in bmm", "bmm", narrow_product),
    Fault("last block of mm off", "mm", last_terms_missing),
    Fault("last block of bmm off", "bmm", last_terms_missing),
    Fault("last columns of addmm off", "addmm", _first(lambda y: with_last_rows(y, lambda z: z * 1.05))),
    Fault("mm too large", "mm", _first(lambda y: y * 1.02)),
    Fault("other epsilon", "native_layer_norm", other_epsilon),
    Fault("unbiased variance", "native_layer_norm", unbiased_variance),
    Fault("softmax without maximum", "_softmax", without_maximum),
    Fault("softmax, last term missing", "_softmax", last_term_missing),
    Fault("attention, other scale", "_scaled_dot_product_flash_attention_for_cpu", other_scale),
    Fault("attention, last token unseen", "_scaled_dot_product_flash_attention_for_cpu", broken_mask),
    Fault("attention, last features off", "_scaled_dot_product_flash_attention_for_cpu",
          _first(lambda y: with_last_rows(y, lambda z: z * 1.1))),
    Fault("gelu of tanh", "gelu", lambda right, x, **_: right(x, approximate="tanh"), ("f32",)),
    Fault("silu in 8 bits", "silu", _first(lambda y: cut_off(y, 17).to(y.dtype))),
    Fault("mul cuts off", "mul.Tensor",
          lambda right, a, b: towards_zero(_wide(a) * _wide(b), right(a, b).dtype), ("bf16",)),
    Fault("add cuts off", "add.Tensor",
          lambda right, a, b, alpha=1: towards_zero(_wide(a) + alpha * _wide(b), right(a, b, alpha=alpha).dtype),
          ("bf16",)),
    Fault("rsqrt of 12 bits", "rsqrt", _first(lambda y: cut_off(y, 12).to(y.dtype)), ("f32",)),
    Fault("cosine of 16 bits", "cos", _first(lambda y: y.bfloat16().to(y.dtype)), ("f32",)),
    Fault("tanh of 12 bits", "tanh", _first(lambda y: cut_off(y, 12).to(y.dtype)), ("f32",)),
    Fault("embedding, last features off", "embedding", _first(lambda y: with_last_rows(y, lambda z: z.roll(1, 0)))),
    Fault("cat, last features swapped", "cat", _first(lambda y: with_last_rows(y, lambda z: z.flip(0)))),
    Fault("sum in bf16", "sum.dim_IntList", narrow_sum),
    Fault("backward: gelu, another one", "gelu_backward", gradient_of_another),
    Fault("backward: layer norm without mean", "native_layer_norm_backward", no_mean),
    Fault("backward: softmax without sum", "_softmax_backward_data", no_sum),
    Fault("backward: embedding, last wins", "embedding_dense_backward", last_wins),
    Fault("backward: attention, other scale", "_scaled_dot_product_flash_attention_for_cpu_backward", other_scale),
]  # fmt: skip
