"""Which tensors and modules are quantized groups, by class name and structure, without importing any library."""

from __future__ import annotations

import torch
from torch import nn

from tensortap.quant.group import Group
from tensortap.quant.libraries import bitsandbytes, compressed_tensors, torchao, transformer_engine
from tensortap.torch_glue.dispatch_modes import no_modes
from tensortap.torch_glue.op_extension import recording_suppressed
from tensortap.torch_glue.program_errors import raise_if_of_program


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
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return None
    with torch._C.DisableTorchFunction(), no_modes(), recording_suppressed(), torch.no_grad():
        for library in (torchao, transformer_engine, bitsandbytes):
            found = library.groups_of(tensor)
            if found is not None:
                return found
    return None


def groups_of_module(module: nn.Module) -> dict[str, Group]:
    """The groups that the parameters and buffers of a module form together, by the name of the whole: `weight`.

    Of compressed-tensors and the like, which keep payload and scales side by side. Parameters that are quantized
    tensors by themselves are not among them: see groups_of(). None of a module that only looks like one of these.
    """
    with torch._C.DisableTorchFunction(), no_modes(), recording_suppressed(), torch.no_grad():
        try:
            return compressed_tensors.groups_of_module(module) or bitsandbytes.groups_of_module(module)
        except Exception as error:  # its parameters have these names and are something else
            raise_if_of_program(error)
            return {}
