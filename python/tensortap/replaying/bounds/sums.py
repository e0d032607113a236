"""Sums and products of matrices: their terms, from the same operator on magnitudes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms, most, rounded_sums

Count = Callable[[DoubleCall, str, torch.Tensor], float]


def terms_of_sum(call: DoubleCall, number: int, path: str) -> Terms | None:
    """None for an operator that is no sum of products of its arguments."""
    entry = _SUMS.get(call.name)
    if entry is None or (call.name in _NEED_ACCUMULATE and not call.argument("accumulate")):
        return None
    sizes = call.of_magnitudes[number].abs()
    count = most(entry(call, path, sizes))
    own = _rounded_on_the_way(call, path, sizes, count)
    return Terms(sizes, count, own=own)


def _rounded_on_the_way(call: DoubleCall, path: str, sizes: torch.Tensor, count: float) -> torch.Tensor | None:
    """Some kernels of the CPU add in the dtype of the result, term by term or sample by sample."""
    if call.name in _ADD_IN_OWN_DTYPE:
        return rounded_sums(sizes, count)
    if call.name == "convolution_backward" and path in ("/0", "/1"):
        return sizes
    return None


def _last_axis(position: str) -> Count:
    def count(call: DoubleCall, path: str, sizes: torch.Tensor) -> float:
        factor = call.argument(position)
        return float(factor.shape[-1]) if isinstance(factor, torch.Tensor) and factor.dim() else 1.0

    return count


def _reduced(call: DoubleCall, path: str, sizes: torch.Tensor) -> float:
    given = max(tensor.numel() for tensor in call.tensors.values())
    return given / max(sizes.numel(), 1)


def _all_of_argument(call: DoubleCall, path: str, sizes: torch.Tensor) -> float:
    """Any number of terms may meet in one place."""
    counts = [t.shape[0] for t in call.tensors.values() if t.dim() and not t.is_floating_point()]
    return float(max(counts, default=1))


def _convolved(call: DoubleCall, path: str, sizes: torch.Tensor) -> float:
    weight = call.argument("weight")
    return float(weight[0].numel())


def _convolved_backward(call: DoubleCall, path: str, sizes: torch.Tensor) -> float:
    gradient, weight = call.argument("grad_output"), call.argument("weight")
    if path == "/0":
        return float(weight.numel() / weight.shape[1])
    return float(gradient.numel() / gradient.shape[1])


_SUMS: dict[str, Count] = {
    **dict.fromkeys(("mm", "bmm", "mv", "matmul", "_grouped_mm"), _last_axis("self")),
    "dot": _last_axis("self"),
    "vdot": _last_axis("self"),
    "linear": _last_axis("input"),
    "addmm": _last_axis("mat1"),
    "addmv": _last_axis("mat"),
    "baddbmm": _last_axis("batch1"),
    "addbmm": _last_axis("batch1"),
    **dict.fromkeys(
        ("sum", "nansum", "mean", "cumsum", "trace", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d"),
        _reduced,
    ),
    **dict.fromkeys(("avg_pool2d_backward", "_adaptive_avg_pool2d_backward", "nll_loss_forward"), _reduced),
    **dict.fromkeys(("index_add", "scatter_add", "index_put", "_index_put_impl", "embedding_dense_backward"),
                    _all_of_argument),
    **dict.fromkeys(("convolution", "_convolution", "mkldnn_convolution"), _convolved),
    "max_pool2d_with_indices_backward": _reduced,
    "convolution_backward": _convolved_backward,
}  # fmt: skip
_NEED_ACCUMULATE = ("index_put", "_index_put_impl")
_ADD_IN_OWN_DTYPE = (
    "index_add", "scatter_add", "index_put", "_index_put_impl", "embedding_dense_backward",
    "max_pool2d_with_indices_backward", "nll_loss_forward",
)  # fmt: skip
