"""Quantized tensors: what a payload and its scales mean together, and which tensors of a program are such groups.

    groups = tap.quant.groups_of(model.fc.weight)      # of torchao, TransformerEngine, bitsandbytes; else None
    groups[""].decoded()                               # the values, as the library dequantizes them
    groups[""].parts()                                 # payload, scale, … as plain tensors

    with tap.quant.record(model, "dump/", "dump.yaml") as dump:      # chosen layers, tensors and steps
        for batch in batches:
            train(model, batch)
            dump.step()

Libraries are told by the structure of their tensors: none of them is imported.
"""

from tensortap.quant.config_entry import ConfigError
from tensortap.quant.dumping import Dump, record
from tensortap.quant.group import Group
from tensortap.quant.recognise import groups_of, groups_of_module

__all__ = ["ConfigError", "Dump", "Group", "groups_of", "groups_of_module", "record"]
