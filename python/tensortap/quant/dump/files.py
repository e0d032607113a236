"""A dump as files: `rank_{r}/iter_{i:06d}/{layer}_{tensor}_microbatch{m}.pt`, one for each tensor, as plain tensors."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from tensortap.quant.dump.layer_tap import LayerCall, LayerTap
from tensortap.quant.dump.quantized import Groups, internals
from tensortap.quant.group import Group
from tensortap.session import metadata
from tensortap.session.session import Session
from tensortap.tensors.snapshot import Unrecordable, is_plain, parts_of, stream_of
from tensortap.torch_glue.dispatch_modes import no_modes

_LONGEST = 150  # of a layer's name as part of a file's


class FileSink:
    """Nothing is ever overwritten: a directory that holds this or a later step already is refused."""

    def __init__(self, session: Session, first_step: int, guarded: Callable[..., None]) -> None:
        assert session.directory is not None
        self._session = session
        self._guarded = guarded
        self.directory = session.directory / f"rank_{metadata.rank()}"
        self.files = self.bytes = 0
        self.steps: set[int] = set()
        there = sorted(step for step in _steps_in(self.directory) if step >= first_step)
        if there:
            raise FileExistsError(
                f"{self.directory} holds a dump of step {there[0]} already: choose another directory, or pass "
                f"first_step={max(there) + 1} to go on"
            )
        self.directory.mkdir(parents=True, exist_ok=True)

    def add_model(self, described: dict[str, Any], taps: list[LayerTap]) -> None:
        pass

    def begin(self, call: LayerCall) -> None:
        pass

    def end(self, call: LayerCall) -> None:
        pass

    def end_step(self, step: int, *, aborted: bool) -> None:
        pass

    def write(
        self, call: LayerCall, name: str, high_precision: torch.Tensor | None, groups: Groups, inside: bool
    ) -> None:
        content: dict[str, Any] = {
            "layer": call.tap.names[0],
            "tensor": name,
            "step": call.step,
            "microbatch": call.microbatch,
            "call": call.within,
        }
        with no_modes(), torch.no_grad():
            if high_precision is not None:
                content["high_precision"] = _plain(high_precision)
            for orientation, group in groups.items():
                quantized = content.setdefault("quantized", {})
                where = quantized.setdefault(orientation, {}) if orientation else quantized
                self._guarded(_add_group, where, group, inside)  # what fails here keeps the rest
        if high_precision is not None or groups:
            self._save(call, name, content)

    def _save(self, call: LayerCall, name: str, content: dict[str, Any]) -> None:
        folder = self.directory / f"iter_{call.step:06d}"
        path = folder / file_name(call.tap.names[0], name, call.microbatch, call.within)
        if path.exists():  # by another process of the same rank
            raise FileExistsError(f"{path} is there already, and stays as it is")
        folder.mkdir(exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        torch.save(content, partial)
        self.bytes += partial.stat().st_size
        partial.replace(path)
        self.files += 1
        self.steps.add(call.step)

    def close(self) -> None:
        """What was not seen stands beside the files."""
        text = json.dumps({"source": self._session.coverage}, indent=1)
        try:
            (self.directory / "coverage.json").write_text(text + "\n")
        except OSError as error:  # the directory is gone, or the disk is full
            self._session._warn(f"coverage.json could not be written: {error}")


def _steps_in(directory: Path) -> Iterator[int]:
    for name in os.listdir(directory) if directory.is_dir() else ():
        match = re.fullmatch(r"iter_(\d+)", name)
        if match is not None:
            yield int(match[1])


def file_name(layer: str, tensor: str, microbatch: int, call: int) -> str:
    """Never the same for two tensors of a step.

    What stands in no file name is written as %XX. A name that is too long is cut and ends in `~` and a hash of it.
    """
    escaped = "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "._-") else f"%{byte:02X}"
        for byte in layer.encode("utf-8", "surrogatepass")
    )
    if len(escaped) > _LONGEST:
        digest = hashlib.sha256(layer.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        escaped = f"{escaped[: _LONGEST - 33]}~{digest}"
    again = f"_call{call}" if call > 1 else ""
    return f"{escaped}_{tensor}_microbatch{microbatch}{again}.pt"


def _plain(tensor: torch.Tensor) -> Any:
    """A tensor with memory of its own, or for one that consists of others a dict of these."""
    if is_plain(tensor) or stream_of(tensor) is not None:
        return _copied(tensor)
    parts = list(parts_of(tensor))
    if not all(part.has_bytes for part in parts):
        raise Unrecordable("a tensor without bytes")
    if len(parts) == 1:
        return _copied(parts[0].tensor)
    return {".".join(part.steps): _copied(part.tensor) for part in parts}


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    # Not a Parameter, and nothing of the storage it may be a view of.
    return tensor.detach().cpu().as_subclass(torch.Tensor).clone(memory_format=torch.contiguous_format)


def _add_group(content: dict[str, Any], group: Group, inside: bool) -> None:
    """Its parts first: they are there also when it cannot be decoded."""
    content.update((name, _copied(part)) for name, part in group.parts().items())
    if group.format is None:
        content["note"] = group.note
        return
    content["format"] = group.format.to_json()
    if not group.format.rotated:  # else it would decode to something else
        content["decoded"] = _copied(group.decoded())
    if inside:
        content.update(internals(group))
