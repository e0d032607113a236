"""The arguments of a recorded call: from their text to real ones.

The text has literals as Python writes them, `%N` for the N-th use of a tensor, and PyTorch's own words:
`torch.float32`, `cuda:0`, `torch.channels_last`, `ReduceOp.SUM`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

_WORD = re.compile(r"[A-Za-z_][\w.]*(?::\d+)?")
_NUMBER = re.compile(r"-?(?:inf|nan)\b|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_NAME = re.compile(r"([A-Za-z_]\w*)=")
_COMPLEX = re.compile(r"\((-?(?:inf|nan|[\d.]+(?:e[+-]?\d+)?))([+-](?:inf|nan|[\d.]+(?:e[+-]?\d+)?))j\)")
_DEVICES = ("cpu", "cuda", "meta", "mps", "xpu", "hpu", "privateuseone")
_CUT = "…"  # ends what the recorder shortened
_GENERATOR = "<generator>"


class UnreadableText(ValueError):
    """Arguments that cannot be made again from their text; the message says which.

    Attributes
    ----------
    argument
        The position or name of the one that cannot.
    """

    argument = ""


@dataclass(frozen=True)
class UseAt:
    """A tensor among the arguments: the number of the use that says which."""

    number: int


@dataclass(frozen=True)
class GeneratorArgument:
    """A random generator among the arguments: its state is a record of the call."""


@dataclass(frozen=True)
class ReduceOpWord:
    """How a collective reduces: `SUM` of `ReduceOp.SUM`."""

    name: str


@dataclass(frozen=True)
class NoText:
    """An object among the arguments, of which only the kind is known: a process group."""

    kind: str


@dataclass
class CallArguments:
    """Positional arguments and those by name; tensors are `UseAt`."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def map(self, change: Callable[[Any], Any]) -> CallArguments:
        """With every argument that is no list, tuple or dict put through `change`, also those inside of one."""
        return CallArguments(
            [_mapped(value, change) for value in self.args],
            {name: _mapped(value, change) for name, value in self.kwargs.items()},
        )


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each, change) for each in value)
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return change(value)


def parse_arguments(text: str, *, objects: bool = False) -> CallArguments:
    """What `EventRecord.arguments` says. Raises UnreadableText for what was shortened.

    Objects have no text: with `objects` they are `NoText`, else that raises too.
    """
    return _Parser(text, objects=objects).arguments()


class _Parser:
    def __init__(self, text: str, *, objects: bool) -> None:
        self._text = text
        self._at = 0
        self._objects = objects

    def arguments(self) -> CallArguments:
        found = CallArguments()
        while self._at < len(self._text):
            name = _NAME.match(self._text, self._at)
            try:
                if name is None:
                    found.args.append(self._value())
                else:
                    self._at = name.end()
                    found.kwargs[name[1]] = self._value()
            except UnreadableText as error:
                error.argument = str(len(found.args)) if name is None else name[1]
                raise
            if self._at < len(self._text):
                self._expect(", ")
        return found

    def _value(self) -> Any:
        rest = self._text[self._at : self._at + 1]
        if rest == "%":
            return self._use()
        if rest == "[":
            return self._items("[", "]")
        if rest == "{":
            return self._entries()
        if rest == "'":
            return self._quoted()
        if rest == _CUT:
            self._fail("an argument is behind those that had place in the text")
        if self._text.startswith(_GENERATOR, self._at):
            self._at += len(_GENERATOR)
            return GeneratorArgument()
        if rest == "<":
            return self._object()
        if (found := _COMPLEX.match(self._text, self._at)) is not None:
            self._at = found.end()
            return complex(float(found[1]), float(found[2]))
        if rest == "(":
            return tuple(self._items("(", ")"))
        if (found := _NUMBER.match(self._text, self._at)) is not None:
            self._at = found.end()
            return int(found[0]) if re.fullmatch(r"-?\d+", found[0]) else float(found[0])
        return self._word()

    def _object(self) -> NoText:
        end = self._text.find(">", self._at) + 1
        if not self._objects or not end:
            self._fail(f"an argument is {self._text[self._at : end] or 'an object'}, which has no text")
        kind, self._at = self._text[self._at + 1 : end - 1], end
        return NoText(kind)

    def _use(self) -> UseAt:
        found = re.compile(r"%(\d+)").match(self._text, self._at)
        if found is None:
            self._fail("an argument is a symbol of torch.compile's")
        self._at = found.end()
        return UseAt(int(found[1]))

    def _items(self, opened: str, closed: str) -> list[Any]:
        self._expect(opened)
        items: list[Any] = []
        while not self._text.startswith(closed, self._at):
            if self._text.startswith(_CUT, self._at):
                self._fail("an argument is a list that was too long for its text")
            items.append(self._value())
            if self._text.startswith((", ", ",)"), self._at):
                self._at += 2 if self._text[self._at + 1] == " " else 1
        self._expect(closed)
        return items

    def _entries(self) -> dict[Any, Any]:
        """A dict, which only modules are given."""
        self._expect("{")
        entries: dict[Any, Any] = {}
        while not self._text.startswith("}", self._at):
            if self._text.startswith(_CUT, self._at):
                self._fail("an argument is a dict that was too long for its text")
            key = self._value()
            if not isinstance(key, str | int):
                self._fail("an argument is a dict with other keys than texts and numbers")
            self._expect(": ")
            entries[key] = self._value()
            if self._text.startswith(", ", self._at):
                self._at += 2
        self._expect("}")
        return entries

    def _quoted(self) -> str:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "'":
            end += 2 if self._text[end] == "\\" else 1
        whole = self._text[self._at : end + 1]
        self._at = end + 1
        if whole.endswith(f"{_CUT}'"):
            self._fail("an argument is a string that was too long for its text")
        try:
            return str(ast.literal_eval(whole)).replace("%%", "%")
        except (ValueError, SyntaxError):
            self._fail(f"an argument is the string {whole}, which is not as Python writes it")

    def _word(self) -> Any:
        found = _WORD.match(self._text, self._at)
        if found is None:
            self._fail(f"an argument is not understood: {self._text[self._at : self._at + 40]}")
        self._at = found.end()
        word = found[0]
        if word in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[word]
        if word.startswith("torch.") and isinstance(
            known := getattr(torch, word[6:], None), torch.dtype | torch.layout | torch.memory_format
        ):
            return known
        if word.startswith("ReduceOp."):
            return ReduceOpWord(word.removeprefix("ReduceOp."))
        if word.partition(":")[0] in _DEVICES:
            return torch.device(word)
        self._fail(f"an argument is {word}, which cannot be made again")

    def _expect(self, text: str) -> None:
        if not self._text.startswith(text, self._at):
            self._fail(f"an argument is not understood: {self._text[self._at : self._at + 40]}")
        self._at += len(text)

    def _fail(self, why: str) -> NoReturn:
        raise UnreadableText(why)
