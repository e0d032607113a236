"""What a module computes in float64, also where it casts to a narrower dtype by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from tensortap.replaying.call_text import CallArguments
from tensortap.replaying.double import arguments_in_double
from tensortap.replaying.double_kernels import kernel_in_double
from tensortap.replaying.operators import OpName


class CastsAreExact(TorchDispatchMode):
    """Every floating-point dtype that an operator is asked for is float64, as in the replay of a single operator."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = CallArguments(list(args), dict(kwargs or {}))
        if not isinstance(func, OpOverload):
            return func(*given.args, **given.kwargs)
        name = OpName.of(func.name())
        changed = arguments_in_double(name, func, given, {})
        return (kernel_in_double(name) or func)(*changed.args, **changed.kwargs)
