"""A mismatch as a program that runs by itself: plain PyTorch, without TensorTap and without the model."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx

from tensortap.graph.check.bisect import Reduced
from tensortap.graph.check.difference import Difference
from tensortap.graph.check.inner import Backend, backend_name
from tensortap.graph.check.script_parts import PROGRAM
from tensortap.graph.fx.identity import function_name
from tensortap.graph.fx.text import call_text, literal, source_of

# Tensors of at most so many elements stand in the program; larger ones in a file beside it.
_INLINE = 64
_INLINE_DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64,
)  # fmt: skip


def write_script(reduced: Reduced, directory: Path, graph_id: str, inner: str | Backend) -> Path:
    """Write `graph_{id}_mismatch.py`, and `graph_{id}_mismatch.pt` for what is large.

    Run, it computes the part of the graph with PyTorch and with the backend, prints both results and exits with 1
    where they differ. A backend that is code of the program's is imported from where it was; where it has no name
    the script says what to fill in.

    Parameters
    ----------
    reduced
        The part, and what differs.
    directory
        Where to; it is made where it is not there.
    graph_id
        Of the whole graph.
    inner
        The backend.

    Returns
    -------
    Path
        The script.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / f"graph_{graph_id}_mismatch.py"
    names = [node.name for node in reduced.part.module.graph.nodes if node.op == "placeholder"]
    large = {name: value for name, value in zip(names, reduced.part.inputs, strict=True) if not _is_small(value)}
    if large:
        torch.save({name: _plain(value) for name, value in large.items()}, script.with_suffix(".pt"))
    text = script_text(reduced, graph_id, inner, names, set(large))
    temporary = script.with_name(f".{script.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(script)
    return script


def script_text(reduced: Reduced, graph_id: str, inner: str | Backend, names: Sequence[str], large: set[str]) -> str:
    """The text of the script."""
    module = reduced.part.module
    given = {
        name: f"saved[{name!r}]" if name in large else _tensor_text(value)
        for name, value in zip(names, reduced.part.inputs, strict=True)
    }
    decompositions = own_decompositions(module)
    imported = [*decompositions.values()] if isinstance(inner, str) else [inner, *decompositions.values()]
    places = [place_of(function) for function in imported]
    backend = inner if isinstance(inner, str) else place_of(inner)[0]
    values = {
        "GRAPH_ID": graph_id,
        "BACKEND_NAME": backend_name(inner),
        "WHAT_DIFFERED": _comment("\n".join(str(difference) for difference in reduced.differences)),
        "VERSION": torch.__version__,
        "IMPORTS": "\n".join(_imports(module)),
        "GRAPH": "\n".join(_graph_lines(module, names)),
        "INPUTS": "\n".join(f"        {text}," for text in given.values()),
        "SAVED": "\n    saved = torch.load(Path(__file__).with_suffix('.pt'), weights_only=True)" if large else "",
        "BACKEND": repr(backend),
        "PATHS": repr(sorted({path for _, path in places if path})),
        "DECOMPOSITIONS": repr({str(op): place_of(function)[0] for op, function in decompositions.items()}),
        "LIMITS": repr(_limits(reduced.differences, len(reduced.part.outputs))),
    }
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], PROGRAM)


def place_of(function: Any) -> tuple[str | None, str]:
    """Where a function can be had again: `package.module:name` or `/file.py:name`, and what Python must search for it.

    None for one without a name, such as a lambda or a function within another.
    """
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    name = getattr(function, "__qualname__", None)
    if module is None or name is None or not _is_there(module, name, function):
        module, name = _holder_of(function, module)
    if module is None or name is None:
        return None, ""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or getattr(module, "__spec__", None) is None:
        return (f"{Path(file).resolve()}:{name}", "") if file else (None, "")
    if file is None:
        return f"{module.__name__}:{name}", ""
    above = Path(file).resolve().parents[module.__name__.count(".") + (Path(file).name == "__init__.py")]
    return f"{module.__name__}:{name}", str(above)


def own_decompositions(module: torch.fx.GraphModule) -> dict[Any, Any]:
    """Decompositions that somebody else than PyTorch put into Inductor's table, of operators that the graph may need.

    Those are PyTorch's, and what it calls of others; a library that is merely there is not needed to run the graph.
    """
    needed = {"aten", "prims"} | {getattr(node.target, "namespace", "") for node in _all_nodes(module)}
    decomposition = sys.modules.get("torch._inductor.decomposition")
    if decomposition is None:
        return {}
    table = decomposition.decompositions.items()
    ours = [(op, made) for op, made in table if isinstance(op, torch._ops.OpOverload) and op.namespace in needed]
    return {op: made for op, made in ours if not _is_of_torch(made)}


def _all_nodes(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Of the graph, and of those that its higher-order operators hold."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from part.graph.nodes


def _is_of_torch(function: Any) -> bool:
    function = getattr(function, "func", function)  # of a partial
    return (getattr(function, "__module__", None) or "torch").partition(".")[0] in ("torch", "functorch")


def _is_there(module: Any, name: str, function: Any) -> bool:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _holder_of(function: Any, module: Any) -> tuple[Any, str | None]:
    """A module that has it under some name: the one it says it is of, or the program."""
    for place in (module, sys.modules.get("__main__")):
        for name, value in list(vars(place).items()) if place is not None else []:
            if value is function and name.isidentifier():
                return place, name
    return None, None


def _imports(module: torch.fx.GraphModule) -> Iterator[str]:
    """Modules other than torch whose functions the graph calls."""
    found = set()
    for node in module.graph.nodes:
        if node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload | str):
            name = function_name(node.target).partition(".")[0]
            if name not in ("torch", "higher_order", "builtins", "operator", "math", "getattr"):
                found.add(getattr(node.target, "__module__", None) or name)
        elif isinstance(node.target, torch._ops.OpOverload) and node.target.namespace not in ("aten", "prims"):
            owner = node.target.namespace
            yield f"# The operators torch.ops.{owner} must be there: import here what registers them."
    for name in sorted(found):
        yield f"import {name}"


def _graph_lines(module: torch.fx.GraphModule, names: Sequence[str], function: str = "graph") -> Iterator[str]:
    inner = {}
    for node in module.graph.nodes:
        value = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(value, torch.fx.GraphModule):
            inner[node] = f"{function}_{node.name}"
            below = [one.name for one in value.graph.nodes if one.op == "placeholder"]
            yield from _graph_lines(value, below, inner[node])
            yield ""
            yield ""
    yield f"def {function}({', '.join(names)}):"
    said = ""
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        source = source_of(node)
        if source and source != said:
            yield f"    # {source}"
            said = source
        if node.op == "output":
            yield f"    return {call_text(node)}"
        elif node in inner:
            yield f"    {node.name} = {inner[node]}"
        else:
            yield f"    {node.name} = {call_text(node)}"


def _is_small(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return plain and tensor.numel() <= _INLINE and tensor.dtype in _INLINE_DTYPES and tensor.is_contiguous()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return tensor.detach().clone(memory_format=torch.preserve_format)


def _tensor_text(tensor: torch.Tensor) -> str:
    values = tensor.detach().cpu().tolist()
    device = "" if tensor.is_cpu else f", device={str(tensor.device)!r}"
    text = f"torch.tensor({literal(values)}, dtype={tensor.dtype}{device})"
    return text if 0 not in tensor.shape else f"{text}.reshape({list(tensor.shape)})"


def _limits(differences: Sequence[Difference], count: int) -> list[dict[str, Any]]:
    """What each output was judged by; those that did not differ by what the first was."""
    known: dict[int, dict[str, Any]] = {}
    for difference in differences:
        word, _, number = difference.place.partition("/")[0].partition(" ")
        if word == "output" and difference.limits:
            known[int(number)] = {key: difference.limits[key] for key in ("rtol", "atol", "relative")}
    other = next(iter(known.values()), {"rtol": 0.0, "atol": 0.0, "relative": None})
    return [known.get(i, other) for i in range(count)]


def _comment(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.replace('"""', "'''").replace("\\", "/").splitlines())
