"""A graph in double precision, to tell how far from the exact values single precision is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from tensortap.graph.check.inner import random_nodes
from tensortap.graph.check.random import RandomState

_DOUBLE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex32: torch.complex128, torch.complex64: torch.complex128,
}  # fmt: skip
_METHODS = {"float": "double", "half": "double", "bfloat16": "double"}


def exact_outputs(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The outputs of a graph whose floating-point inputs and constants are doubles, as `output 0`, `output 1`, ...

    Empty where the graph cannot run so: it holds an operator without doubles, say; and where it draws random numbers,
    which would be others.
    """
    if random_nodes(module):
        return {}
    random = RandomState.of(inputs)
    try:
        with torch.no_grad():
            result = _InDouble(module).run(*(_double(value) for value in inputs))
    except Exception:
        return {}
    finally:
        random.restore()
    found: dict[str, torch.Tensor] = {}
    for i, value in enumerate(result if isinstance(result, list | tuple) else [result]):
        leaves = pytree.tree_leaves(value)
        for j, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                found[f"output {i}/{j}" if len(leaves) > 1 else f"output {i}"] = leaf
    return found


class _InDouble(torch.fx.Interpreter):
    def fetch_args_kwargs_from_env(self, n: torch.fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = super().fetch_args_kwargs_from_env(n)
        return pytree.tree_map_only(torch.dtype, lambda dtype: _DOUBLE.get(dtype, dtype), given)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _double(super().get_attr(target, args, kwargs))

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_method(_METHODS.get(target, target), args, kwargs)


def _double(value: Any) -> Any:
    """A copy in double precision; of other dtypes a copy, which the graph may write to."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(_DOUBLE.get(value.dtype, value.dtype), copy=True)
