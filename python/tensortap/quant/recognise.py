"""Which tensors and modules are quantized groups: told by class name and structure, without importing any library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensortap.op_extension import unheard

if TYPE_CHECKING:
    import torch
    from torch import nn

    from tensortap.quant.group import Group


def groups_of(tensor: torch.Tensor) -> dict[str, Group] | None:
    """The quantized groups that a tensor consists of; None for one that is not known as quantized.

    Only attributes are read: no operator runs on the tensor itself, and no mode or subclass is asked.

    Returns
    -------
    dict or None
        The group by which the tensor is known under `""`. A second one, quantized along the columns, under
        `"columnwise"`. A group without a format is one whose library is known, and which cannot be decoded; its note
        says why.
    """
    import torch

    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return None
    from tensortap.quant import bitsandbytes_tensors, torchao_tensors, transformer_engine_tensors
    from tensortap.snapshot import no_modes

    with torch._C.DisableTorchFunction(), no_modes(), unheard(), torch.no_grad():
        for library in (torchao_tensors, transformer_engine_tensors, bitsandbytes_tensors):
            found = library.groups_of(tensor)
            if found is not None:
                return found
    return None


def groups_of_module(module: nn.Module) -> dict[str, Group]:
    """The groups that the parameters and buffers of a module form together, by the name of the whole: `weight`.

    Of compressed-tensors and the like, which keep payload and scales side by side. Parameters that are quantized
    tensors by themselves are not among them: see groups_of(). None of a module that only looks like one of these.
    """
    import torch

    from tensortap.quant import bitsandbytes_tensors, compressed_modules
    from tensortap.snapshot import no_modes

    with torch._C.DisableTorchFunction(), no_modes(), unheard(), torch.no_grad():
        try:
            return compressed_modules.groups_of_module(module) or bitsandbytes_tensors.groups_of_module(module)
        except Exception:  # its parameters have these names and are something else
            return {}
