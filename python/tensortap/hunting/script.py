"""A suspect as a small program: plain PyTorch, and the tensors of its calls in a file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tensortap.hunting.call_again import CallAgain
from tensortap.hunting.verdicts import JudgedPair
from tensortap.replaying.blame.found import BlamedCall
from tensortap.replaying.blame.judged import LINE
from tensortap.replaying.call_text import CallArguments, UseAt, parse_arguments
from tensortap.replaying.calling import first_line
from tensortap.replaying.double_kernels import kernel_in_double

_PROGRAM = '''"""{title}

{sentence}

Written by TensorTap. It needs PyTorch, safetensors, and the file of its name beside it. Exit code 1: a recorded result
is farther from the exact one than rounding explains, or the results of A and B are from one another.
"""

import sys

import torch
from safetensors.torch import load_file

t = load_file(__file__.removesuffix("py") + "safetensors")
{layouts}

def wide(value):
    return value.double() if value.is_floating_point() else value.to(torch.cdouble) if value.is_complex() else value


t64 = {{name: wide(value) for name, value in t.items()}}


{functions}


def judgeable(made, exact):
    """What has no finite exact value is not judged."""
    return made.where(exact.isfinite(), exact)


def show(what, one, other, allowed):
    same = (one == other) | (one.isnan() & other.isnan())
    apart = (one - other).abs().where(~same, 0.0) / allowed
    worst = apart.nan_to_num(nan=float("inf"), posinf=float("inf")).max().item()
    print(f"{{what:32}} {{worst:.4g}} times what rounding explains")
    return worst > {line}


{shows}
sys.exit(1 if wrong else 0)
'''
_FUNCTION = """def {name}(t):{comment}
    made = {call}
    return {result}"""


class NoScript(ValueError):
    """A suspect that no small program can show; the message says why."""


def write_script(pair: JudgedPair, path: Path) -> None:
    """Write a program, and a `.safetensors` of its name. Raises NoScript."""
    try:
        from safetensors.torch import save_file  # optional
    except ImportError as error:
        raise NoScript("the package safetensors is not installed") from error
    found = pair.found
    sides = [_Side(name, call, again, found.path)
             for name, call, again in (("a", found.suspect.a.call, pair.a), ("b", found.suspect.b.call, pair.b))
             if call is not None and again is not None]  # fmt: skip
    if not sides:
        raise NoScript(found.suspect.b.reason or found.suspect.a.reason)
    tensors: dict[str, torch.Tensor] = {}
    for side in sides:
        tensors |= side.tensors
    shows = [line for side in sides for line in side.shows()]
    if len(sides) == 2 and sides[0].compared.bound_beside(sides[1].compared) is not None:
        bounds = [side.bound for side in sides if side.compared.bound is not None]
        values = [f't64["{side.compared_as}"]' for side in sides]
        shows.append(_show("A and B as recorded", *values, f"{bounds[0]} + {bounds[-1]}"))
    text = _PROGRAM.format(
        title=_inside_quotes(f"{found.key}: what A and B recorded, beside the exact results of their own arguments."),
        sentence=_inside_quotes(found.sentence[0].upper() + found.sentence[1:] + "."),
        layouts="".join(_layout(name, value) for name, value in tensors.items()),
        functions="\n\n\n".join(text for side in sides for text in side.functions()),
        line=LINE,
        shows="\n".join(["wrong = False", *shows]),
    )
    try:
        save_file({name: _packed(value) for name, value in tensors.items()}, path.with_suffix(".safetensors"))
        path.write_text(text, encoding="utf-8")
    except Exception as error:  # a dtype that safetensors has not got is a KeyError, a full disk one of its own
        raise NoScript(f"its tensors cannot be written: {first_line(error)}") from error


class _Side:
    """One of the calls, as text and tensors."""

    def __init__(self, name: str, blamed: BlamedCall, again: CallAgain, path: str) -> None:
        if kernel_in_double(again.double.call.name) is not None:
            raise NoScript(f"PyTorch has no {blamed.op} in float64")
        result, compared = again.result(path), again.compared(path)
        if result is None or compared is None:
            raise NoScript("the recorded result has no bytes")
        self._name, self._line, self._call = name, blamed.line, again.double
        self._number = result.number
        self.compared, self.compared_as = compared, f"{name}.recorded" if compared.bound is not None else f"{name}.view"
        self.bound = f't["{name}.bound"]'
        self._factor = _factor_of(blamed, path)
        given = {f"{name}.{number}": value for number, value in self._call.call.tensors.items()}
        self.tensors = given | {f"{name}.recorded": result.recorded, f"{name}.bound": result.bound}
        self.tensors[self.compared_as] = compared.values

    def functions(self) -> Iterator[str]:
        """The call as it was recorded, and in float64."""
        call, comment = self._call.call, f"  # {self._line}" if self._line else ""
        as_recorded, exact = self._text(call.arguments), self._text(self._call.arguments)
        yield _FUNCTION.format(name=self._name, comment=comment, call=as_recorded, result=self._result())
        yield _FUNCTION.format(name=f"{self._name}_in_float64", comment="", call=exact, result=self._result())

    def shows(self) -> Iterator[str]:
        """Lines that print how far the recorded result is from the exact one, and this PyTorch's."""
        name, who = self._name, self._name.upper()
        yield f"exact = wide({name}_in_float64(t64))"
        yield f'recorded = judgeable(t64["{name}.recorded"], exact)'
        yield _show(f"{who} as recorded", "recorded", "exact", self.bound)
        if self._factor is not None:
            yield "finite = recorded.isfinite() & exact.isfinite()"
            yield "factor = (recorded * exact)[finite].sum() / (exact * exact)[finite].sum()"
            yield _show(f"{who} as recorded, as a whole", "factor", "torch.ones_like(factor)", repr(self._factor))
        yield f"again = judgeable(wide({name}(t)), exact)"
        yield _show(f"{who} with this PyTorch", "again", "exact", self.bound, judged=False)

    def _text(self, arguments: CallArguments) -> str:
        call = self._call.call
        words = [_literal(value, self._name) for value in arguments.args]
        words += [f"{name}={_literal(value, self._name)}" for name, value in arguments.kwargs.items()]
        overload = call.name.overload or "default"
        return f"torch.ops.{call.name.library}.{call.name.name}.{overload}({', '.join(words)})"

    def _result(self) -> str:
        event = self._call.call.event
        for value, text in _places(parse_arguments(event.results).args, "made"):
            if value == UseAt(self._number):
                return text
        path = event.uses[self._number].path  # the call wrote to an argument
        written = next(n for n, use in enumerate(event.uses) if use.role == "in" and use.path == path)
        return f't["{self._name}.{written}"]'


def _factor_of(call: BlamedCall, path: str) -> float | None:
    """How much too large rounding may make all values of the result together; None where they are not."""
    error = call.error
    if error.path != path or error.kind != "error" or not error.factor:
        return None
    return abs(error.factor) / error.bounds


def _show(what: str, one: str, other: str, allowed: str, judged: bool = True) -> str:
    text = f'show("{what}", {one}, {other}, {allowed})'
    return f"wrong |= {text}" if judged else text


def _places(results: list[Any], made: str) -> Iterator[tuple[Any, str]]:
    """Each result, and how it is had from what the call returned."""
    for number, value in enumerate(results):
        text = made if len(results) == 1 else f"{made}[{number}]"
        if isinstance(value, list | tuple):
            yield from ((item, f"{text}[{i}]") for i, item in enumerate(value))
        yield value, text


def _literal(value: Any, side: str) -> str:
    if isinstance(value, UseAt):
        return f't["{side}.{value.number}"]'
    if isinstance(value, list):
        return f"[{', '.join(_literal(each, side) for each in value)}]"
    if isinstance(value, tuple):
        return f"({''.join(_literal(each, side) + ', ' for each in value)})"
    if isinstance(value, torch.device):
        return '"cpu"' if value.type != "meta" else '"meta"'
    if isinstance(value, float):
        return repr(value) if value - value == 0 else f'float("{value}")'
    return repr(value)


def _layout(name: str, value: torch.Tensor) -> str:
    """A line that gives a tensor the strides that it had: a .safetensors has none. Repeated values stay as they are."""
    if value.is_contiguous() or 0 in value.stride():
        return ""
    shape, strides = tuple(value.shape), tuple(value.stride())
    return f't["{name}"] = torch.empty_strided({shape}, {strides}, dtype={value.dtype}).copy_(t["{name}"])\n'


def _packed(value: torch.Tensor) -> torch.Tensor:
    return value.detach().cpu().resolve_conj().resolve_neg().contiguous().clone()


def _inside_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")
