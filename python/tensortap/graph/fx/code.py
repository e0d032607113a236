"""A graph as something to read: Python code with names, shapes and the lines it comes from, and as a picture."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.fx

from tensortap.graph.fx.identity import target_name
from tensortap.graph.fx.text import call_text, inputs_of, module_of, source_of, type_text, value_of

# A picture of more nodes is not drawn: Graphviz would take minutes, and nobody could read it.
_MOST_DRAWN = 2000
_DRAWING_SECONDS = 60
_COLOURS = {
    "placeholder": "#dbe9f6", "get_attr": "#e5e0f0", "call_function": "#ffffff", "call_method": "#f7f7e8",
    "call_module": "#e3f2e1", "output": "#f6e1db",
}  # fmt: skip


def write_graph(
    module: torch.fx.GraphModule, directory: Path, graph_id: str, *, stage: str, part: str, picture: bool = True
) -> list[Path]:
    """Write a graph as `graph_{id}.py` and `graph_{id}.dot`, and as `graph_{id}.svg` where Graphviz is installed.

    Parameters
    ----------
    module
        The graph.
    directory
        Where to; it is made where it is not there. What is there under the same name is the same graph, and stays.
    graph_id, stage, part
        What `graph_identity` says, for the names and the first lines.
    picture
        Whether to have Graphviz draw it. It is given a minute; that it fails is no error.

    Returns
    -------
    list of Path
        What there is now.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    code = directory / f"graph_{graph_id}.py"
    _write_beside(code, graph_code(module, graph_id, stage=stage, part=part))
    dot = directory / f"graph_{graph_id}.dot"
    _write_beside(dot, graph_dot(module, graph_id))
    drawn = _drawn(dot, len(module.graph.nodes)) if picture else None
    return [code, dot, *([drawn] if drawn else [])]


def graph_code(module: torch.fx.GraphModule, graph_id: str, *, stage: str, part: str) -> str:
    """The graph as Python code: a function that takes the graph's inputs, one line per node."""
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    head = [
        f"# graph {graph_id}, {stage}, {part}: {len(nodes)} nodes, {len(inputs)} inputs",
        f"# PyTorch {torch.__version__}",
        "import math",
        "import operator",
        "",
        "import torch",
    ]
    symbols = _symbols(inputs)
    if symbols:
        head.insert(2, f"# sizes that may change: {', '.join(symbols)}")
    return "\n".join([*head, "", "", *_function_lines(module, "forward"), ""])


def _function_lines(module: torch.fx.GraphModule, name: str) -> Iterator[str]:
    """A graph as the lines of a function; graphs that its nodes run stand before it."""
    for node in module.graph.nodes:
        inner = _attribute(module, str(node.target)) if node.op == "get_attr" else None
        if isinstance(inner, torch.fx.GraphModule):
            yield f"# %{node.name} of {name}"
            yield from _function_lines(inner, f"{name}_{re.sub(r'[^0-9A-Za-z_]', '_', str(node.target))}")
            yield ""
            yield ""
    yield f"def {name}("
    yield "    self,"
    for node in module.graph.nodes:
        if node.op == "placeholder":
            default = f" = {node.args[0]!r}" if node.args else ""
            note = "  # " + source_of(node) if source_of(node) else ""
            yield f'    {node.name}: "{type_text(value_of(node)) or "?"}"{default},{note}'
    yield "):"
    said = ("", "")
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        place = (module_of(node), source_of(node))
        if place != said and any(place):
            yield ""
            if place[0] != said[0] and place[0]:
                yield f"    # {place[0]}"
            if place[1]:
                yield f"    # {place[1]}"
        said = place if any(place) else said
        yield from _node_lines(node)


def _node_lines(node: torch.fx.Node) -> Iterator[str]:
    if node.op == "output":
        yield f"    return {call_text(node)}"
        return
    known = type_text(value_of(node))
    line = f'    {node.name}: "{known}" = {call_text(node)}' if known else f"    {node.name} = {call_text(node)}"
    used = [f"{name} {kind}" for name, kind in inputs_of(node) if kind]
    yield line + (f"  # {', '.join(used)}" if used else "")


def graph_dot(module: torch.fx.GraphModule, graph_id: str) -> str:
    """The graph for Graphviz."""
    lines = [f'digraph "graph_{graph_id}" {{', '  node [shape=box style=filled fontname="monospace" fontsize=10];']
    for node in module.graph.nodes:
        label = [f"%{node.name}"]
        if node.op not in ("placeholder", "output"):
            label.append(target_name(node))
        label += [text for text in (type_text(value_of(node)), module_of(node)) if text]
        tip = json.dumps(source_of(node) or node.op, ensure_ascii=False)
        text = json.dumps("\n".join(label), ensure_ascii=False)
        lines.append(f'  "{node.name}" [label={text} fillcolor="{_COLOURS[node.op]}" tooltip={tip}];')
    for node in module.graph.nodes:
        lines += [f'  "{used.name}" -> "{node.name}";' for used in node.all_input_nodes]
    return "\n".join([*lines, "}", ""])


def _symbols(inputs: list[torch.fx.Node]) -> list[str]:
    """Sizes of the inputs that have a symbol, with the size at which the graph was compiled."""
    found: dict[str, str] = {}
    for node in inputs:
        value = value_of(node)
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for size in sizes:
            if isinstance(size, torch.SymInt) and str(size).isidentifier():
                found.setdefault(str(size), f"{size} (was {size.node.hint})" if size.node.has_hint() else str(size))
    return list(found.values())


def _attribute(module: torch.nn.Module, name: str) -> object:
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _write_beside(path: Path, text: str) -> None:
    """Write it whole or not at all: ranks and threads may write the same graph."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _drawn(dot: Path, nodes: int) -> Path | None:
    program = shutil.which("dot")
    if program is None or nodes > _MOST_DRAWN:
        return None
    picture = dot.with_suffix(".svg")
    temporary = dot.with_name(f".{picture.name}.{os.getpid()}")
    command = [program, "-Tsvg", "-o", str(temporary), str(dot)]
    try:
        subprocess.run(command, check=True, timeout=_DRAWING_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)
        temporary.replace(picture)
    except (OSError, subprocess.SubprocessError):
        temporary.unlink(missing_ok=True)
        return None
    return picture
