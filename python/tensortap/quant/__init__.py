"""Quantized tensors: what a payload and its scales mean together, and which tensors of a program are such groups.

    groups = tap.quant.groups_of(model.fc.weight)      # of torchao, TransformerEngine, bitsandbytes; else None
    groups[""].decoded()                               # the values, as the library dequantizes them
    groups[""].parts()                                 # payload, scale, … as plain tensors

    with tap.quant.record(model, "dump/", "dump.yaml") as dump:      # chosen layers, tensors and steps
        for batch in batches:
            train(model, batch)
            dump.step()

Libraries are recognised by the structure of their tensors: none of them is imported.
"""

from typing import TYPE_CHECKING

from tensortap.lazy_import import importer

if TYPE_CHECKING:
    from tensortap.quant.dump.config_entry import ConfigError
    from tensortap.quant.dump.dumping import Dump, record
    from tensortap.quant.group import Group
    from tensortap.quant.libraries.recognise import groups_of, groups_of_module
else:
    __getattr__ = importer(
        "tensortap.quant",
        {
            "tensortap.quant.dump.config_entry": ("ConfigError",),
            "tensortap.quant.dump.dumping": ("Dump", "record"),
            "tensortap.quant.group": ("Group",),
            "tensortap.quant.libraries.recognise": ("groups_of", "groups_of_module"),
        },
    )

__all__ = ["ConfigError", "Dump", "Group", "groups_of", "groups_of_module", "record"]


def __dir__() -> list[str]:
    return __all__  # also what was not asked for yet
