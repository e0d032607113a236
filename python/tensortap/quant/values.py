"""What is said of a group's values when it is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensortap.snapshot import is_plain

if TYPE_CHECKING:
    import torch

    from tensortap.quant.group import Group


def values_of(group: Group) -> tuple[torch.Tensor | None, str, str]:
    """The values, if they can be decoded here and are the tensor's; the group's description; and else, why not.

    Nothing is decoded on a GPU, and nothing is copied from one: the program would have to wait.
    """
    if group.note:
        return None, group.description, group.note
    if group.format is not None and group.format.rotated:
        return None, group.description, "rotated before it was quantized"
    if not all(is_plain(part) for part in group.parts().values()):
        return None, group.description, "its parts are not in the host's memory, where they are decoded"
    try:
        return group.decoded(), group.description, ""
    except ValueError as error:  # what the tensor says of itself is not so
        return None, "", str(error).partition("\n")[0]
