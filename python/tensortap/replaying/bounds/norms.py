"""Norms, softmax, and their backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tensortap.replaying.bounds.double_call import DoubleCall
from tensortap.replaying.bounds.terms import Terms, most, rounded_sums

_STEPS_PER_MEAN = 8.0  # Terms.steps, of which the mean has one


def terms_of_norm(call: DoubleCall, number: int, path: str) -> Terms | None:
    """None for an operator that is none of these."""
    found = _NORMS.get(call.name)
    return found(call, number, path) if found is not None else None


def _by_path(call: DoubleCall, path: str) -> torch.Tensor | None:
    return next((value for n, value in call.exact.items() if call.call.event.uses[n].path == path), None)


def _shaped(tensor: torch.Tensor | None, like: torch.Tensor, axis: int) -> torch.Tensor:
    """A value for each channel, beside `like`; 1 where there is none."""
    if tensor is None:
        return torch.ones((), dtype=torch.float64, device=like.device)
    return tensor.abs().reshape([-1 if i == axis else 1 for i in range(like.dim())])


def _normalized(
    x: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor, weight: torch.Tensor, axes: Sequence[int]
) -> torch.Tensor:
    """The terms of (x - mean) · spread · weight; the spread itself is taken from x - mean.

    The mean is off by a step of what it is the mean of, which counts where x is small beside the others.
    """
    of_mean = x.abs().mean(tuple(axes), keepdim=True) / _STEPS_PER_MEAN
    beside_mean = (x.abs() + mean.abs() + of_mean) * spread * weight
    return beside_mean + (x - mean).abs() * spread * weight * (1 + mean.abs() * spread)


def _layer_norm(call: DoubleCall, number: int, path: str) -> Terms | None:
    x, weight, bias = (call.argument(name) for name in ("input", "weight", "bias"))
    mean, spread = _by_path(call, "/1"), _by_path(call, "/2")
    if mean is None or spread is None:
        return None
    sizes = _of_statistics(path, x, mean, spread)
    if sizes is None:
        axes = range(x.dim() - len(call.argument("normalized_shape")), x.dim())
        sizes = _normalized(x, mean, spread, _magnitude(weight), axes) + (0 if bias is None else bias.abs())
    return Terms(sizes)


def _of_statistics(path: str, x: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor | None:
    if path == "/1":
        axes = [i for i in range(x.dim()) if mean.shape[i : i + 1] != x.shape[i : i + 1]]
        return x.abs().mean(axes, keepdim=True).reshape(mean.shape) if mean.dim() == x.dim() else mean.abs() + 1
    if path == "/2":
        return spread * (1 + mean.abs() * spread)
    return None


def _magnitude(weight: torch.Tensor | None) -> torch.Tensor:
    return torch.ones((), dtype=torch.float64) if weight is None else weight.abs()


def _batch_norm(call: DoubleCall, number: int, path: str) -> Terms | None:
    x, weight, bias = (call.argument(name) for name in ("input", "weight", "bias"))
    axes = [i for i in range(x.dim()) if i != 1]
    mean, variance = call.argument("running_mean"), call.argument("running_var")
    if call.argument("training") or mean is None:
        mean, variance = x.mean(axes), x.var(axes, unbiased=False)
    if path != "/0" and path != "":
        sizes = _of_batch_statistics(path, x, axes, mean, variance, call.argument("eps"))
        return None if sizes is None else Terms(sizes, most(x.numel() / x.shape[1]))
    spread = (variance + call.argument("eps")).rsqrt()
    sizes = _normalized(x, _shaped_signed(mean, x), _shaped(spread, x, 1), _shaped(weight, x, 1), axes)
    return Terms(sizes + (0 if bias is None else _shaped(bias, x, 1)))


def _shaped_signed(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return tensor.reshape([-1 if i == 1 else 1 for i in range(like.dim())])


def _of_batch_statistics(
    path: str, x: torch.Tensor, axes: list[int], mean: torch.Tensor, variance: torch.Tensor, eps: float
) -> torch.Tensor | None:
    if path == "/1":
        return x.abs().mean(axes)
    if path == "/2":
        spread = (variance + eps).rsqrt()
        return spread * (1 + mean.abs() * spread)
    return None


def _rms_norm(call: DoubleCall, number: int, path: str) -> Terms:
    return Terms(call.exact[number].abs())


def _norm_backward(
    gradient: torch.Tensor, xhat: torch.Tensor, spread: torch.Tensor, weight: torch.Tensor, axes: Sequence[int]
) -> torch.Tensor:
    """The terms of the gradient of a norm's input: the gradient without its mean and its part along the input."""
    given = gradient.abs() * weight
    along = (given * xhat).mean(tuple(axes), keepdim=True)
    return spread * (given + given.mean(tuple(axes), keepdim=True) + xhat * along)


def _layer_norm_backward(call: DoubleCall, number: int, path: str) -> Terms | None:
    gradient, x, mean, spread, weight = (
        call.argument(name) for name in ("grad_out", "input", "mean", "rstd", "weight")
    )
    axes = range(x.dim() - len(call.argument("normalized_shape")), x.dim())
    xhat = (x.abs() + mean.abs()) * spread * (1 + mean.abs() * spread)
    if path == "/0":
        return Terms(_norm_backward(gradient, xhat, spread, _magnitude(weight), axes))
    rows = tuple(range(x.dim() - len(axes)))
    terms = gradient.abs() * (xhat if path == "/1" else 1)
    return _summed_by_rows(terms.sum(rows) if rows else terms, x.numel() / max(call.exact[number].numel(), 1))


def _summed_by_rows(sizes: torch.Tensor, count: float) -> Terms:
    """On a CPU, PyTorch adds up the gradients of weight and bias row by row in their own dtype."""
    return Terms(sizes, most(count), own=rounded_sums(sizes, count))


def _batch_norm_backward(call: DoubleCall, number: int, path: str) -> Terms | None:
    gradient, x, weight = (call.argument(name) for name in ("grad_out", "input", "weight"))
    axes = [i for i in range(x.dim()) if i != 1]
    if call.argument("train"):
        mean, spread = call.argument("save_mean"), call.argument("save_invstd")
    else:
        mean, spread = call.argument("running_mean"), (call.argument("running_var") + call.argument("eps")).rsqrt()
    if mean is None or spread is None or not mean.numel():
        return None
    mean, spread = _shaped(mean, x, 1), _shaped(spread, x, 1)
    xhat = (x.abs() + mean) * spread * (1 + mean * spread)
    if path == "/0":
        return Terms(_norm_backward(gradient, xhat, spread, _shaped(weight, x, 1), axes))
    sizes = (gradient.abs() * (xhat if path == "/1" else 1)).sum(axes)
    return Terms(sizes, most(x.numel() / x.shape[1]))


def _rms_norm_backward(call: DoubleCall, number: int, path: str) -> Terms | None:
    gradient, x, spread, weight = (call.argument(name) for name in ("grad_out", "input", "rstd", "weight"))
    axes = range(x.dim() - len(call.argument("normalized_shape")), x.dim())
    xhat = x.abs() * spread
    if path == "/0":
        return Terms(_norm_backward(gradient, xhat, spread, _magnitude(weight), axes))
    rows = tuple(range(x.dim() - len(axes)))
    terms = gradient.abs() * xhat
    return _summed_by_rows(terms.sum(rows) if rows else terms, x.numel() / max(call.exact[number].numel(), 1))


def _softmax(call: DoubleCall, number: int, path: str) -> Terms:
    x, made, axis = call.argument("self"), call.exact[number], call.argument("dim")
    if x.dim() == 0:
        return Terms(torch.ones_like(made))
    below = (x.amax(axis, keepdim=True) - x).nan_to_num(posinf=0.0)
    if call.name == "_softmax":
        return Terms(made * (1 + below + (made * below).nan_to_num().sum(axis, keepdim=True)))
    highest = x.amax(axis, keepdim=True).abs()
    sizes = made.abs().nan_to_num(posinf=0.0) + below + highest + 1
    return Terms(sizes, own=sizes)  # a CPU rounds the logarithm of the sum to the dtype of the result


def _softmax_backward(call: DoubleCall, number: int, path: str) -> Terms:
    gradient, output, axis = (call.argument(name) for name in ("grad_output", "output", "dim"))
    if call.name == "_softmax_backward_data":
        terms = (gradient.abs() * output).sum(axis, keepdim=True)
        return Terms(output * (gradient.abs() + terms))
    return Terms(gradient.abs() + output.exp() * gradient.abs().sum(axis, keepdim=True) * (1 + output.abs()))


def _spread_of_values(call: DoubleCall, number: int, path: str) -> Terms:
    """var, std, var_mean: what is left of x when its mean is taken from it."""
    x, made = call.argument("self"), call.exact[number]
    largest = x.abs().max() if x.numel() else torch.zeros((), dtype=torch.float64)
    return Terms(made.abs() + made.abs().sqrt() * largest if "mean" not in call.name else made.abs() + largest)


_NORMS: dict[str, Callable[[DoubleCall, int, str], Terms | None]] = {
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
         "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "cudnn_batch_norm"), _batch_norm),
    "native_batch_norm_backward": _batch_norm_backward,
    "_fused_rms_norm": _rms_norm,
    "_fused_rms_norm_backward": _rms_norm_backward,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _softmax_backward,
    **dict.fromkeys(("var", "std", "var_mean"), _spread_of_values),
}  # fmt: skip
