"""The text of a program that shows a mismatch, with @NAMES@ where the graph and its inputs go."""

PROGRAM = '''"""A part of graph @GRAPH_ID@ that the backend @BACKEND_NAME@ computes otherwise than PyTorch.

@WHAT_DIFFERED@

    python graph_@GRAPH_ID@_mismatch.py                                 exits with 1 if the two differ
    python graph_@GRAPH_ID@_mismatch.py --backend package.module:name   the same with another backend

Written by TensorTap with PyTorch @VERSION@. It needs PyTorch only, and the backend.
"""

import argparse
import ast
import importlib
import math
import operator
import sys
import traceback
from pathlib import Path

import torch
import torch._functorch.config
@IMPORTS@

# The name of a backend of torch.compile, "package.module:name" or "/path/to/file.py:name". None: it had no name of its
# own; write it here as a function (module, inputs) -> callable, or give --backend.
BACKEND = @BACKEND@
PATHS = @PATHS@
# Decompositions that were not PyTorch's, by operator.
DECOMPOSITIONS = @DECOMPOSITIONS@
LIMITS = @LIMITS@


@GRAPH@


def inputs():@SAVED@
    return [
@INPUTS@
    ]


def named(place):
    """What "module:name" or "file.py:name" stands for."""
    where, _, name = place.rpartition(":")
    if where.endswith(".py"):
        return part_of_file(Path(where), name)
    found = importlib.import_module(where)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def part_of_file(path, name):
    """A function of a program, without running the program: its imports, functions, classes and constants only."""
    definitions = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)

    def is_kept(statement):
        if isinstance(statement, ast.Assign):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            return name in names or not any(isinstance(part, ast.Call) for part in ast.walk(statement.value))
        return isinstance(statement, definitions)

    def is_wanted(statement):
        return isinstance(statement, ast.FunctionDef) and statement.name == name

    sys.path.insert(0, str(path.parent))
    names = {"__name__": "part_of_" + path.stem, "__file__": str(path)}
    program = ast.parse(path.read_text())
    kept = [statement for statement in program.body if is_kept(statement)]
    if not any(map(is_wanted, kept)):  # it stands below an if, or in a try
        kept += filter(is_wanted, ast.walk(program))
    for statement in kept:
        try:
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
        except Exception as error:
            print(f"{path}:{statement.lineno} was left out: {type(error).__name__}: {error}", file=sys.stderr)
    return names[name]


def cannot_run(why):
    print(why, file=sys.stderr)
    sys.exit(2)


def decomposition_of(op, place):
    """What is at the place; where it cannot be had, a function that says so when the part needs it."""
    why = "had no name to import it by"
    try:
        if place is not None:
            return named(place)
    except Exception as error:
        why = f"cannot be had from {place}: {type(error).__name__}: {error}"
    return lambda *args, **kwargs: cannot_run(f"the decomposition of {op} {why}: fill in DECOMPOSITIONS")


def chosen_backend(given):
    sys.path[:0] = PATHS
    for op, place in DECOMPOSITIONS.items():
        from torch._inductor import decomposition

        namespace, name, overload = op.split(".")
        packet = getattr(getattr(torch.ops, namespace), name, None)  # none: of a library that the part does not need
        if overload in (packet.overloads() if packet else ()):
            op = getattr(packet, overload)
            decomposition.decompositions[op] = decomposition_of(op, place)
    if given is None:
        cannot_run("the backend had no name to import it by: give --backend package.module:name, or fill in BACKEND")
    return named(given) if isinstance(given, str) and ":" in given else given


def is_close(expected, actual, rtol, atol, relative):
    """Element by element, in double precision; integers are equal or not. And the error as a whole, if `relative`."""
    if not isinstance(expected, torch.Tensor) or expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    if not expected.is_floating_point() and not expected.is_complex():
        return torch.equal(expected, actual)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    expected, actual = expected.to(wide), actual.to(wide)
    if not torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True).all():
        return False
    both = expected.isfinite() & actual.isfinite()
    error, size = (actual - expected)[both].norm().item(), expected[both].norm().item()
    return relative is None or error <= relative * size or error == 0


def tensors(value):
    """Those of an output, which may be several; what is None, or a number, is passed over."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in tensors(part)] if isinstance(value, (tuple, list)) else []


def main():
    parser = argparse.ArgumentParser(description="Compute a part of a graph with PyTorch and with a backend.")
    parser.add_argument("--backend", default=BACKEND, help="another one than the script was written for")
    backend = chosen_backend(parser.parse_args().backend)
    torch.set_printoptions(threshold=20, edgeitems=2)
    torch._functorch.config.enable_autograd_cache = False  # it does not notice another decomposition
    ours, theirs = inputs(), inputs()
    with torch.no_grad():
        torch.manual_seed(0)
        expected = graph(*ours)
        torch.manual_seed(0)
        actual = torch.compile(graph, backend=backend, fullgraph=True, dynamic=False)(*theirs)
    differ = False
    limits = LIMITS + [LIMITS[0]] * len(ours)
    places = [f"output {i}" for i in range(len(expected))] + [f"input {i}, afterwards" for i in range(len(ours))]
    rows = zip(places, [*expected, *ours], [*actual, *theirs], limits)
    for place, right, seen, limit in rows:
        for a, b in zip(tensors(right), tensors(seen)):
            close = is_close(a, b, **limit)
            differ = differ or not close
            if place.startswith("output") or not close:
                print(f"{place}: {'the same' if close else 'DIFFERENT'}")
                print(f"  PyTorch: {a}")
                print(f"  backend: {b}")
                if not close and a.shape == b.shape and a.dtype.is_floating_point:
                    apart = (a.double() - b.double()).abs()
                    print(f"  largest difference: {max(apart[~apart.isnan()].tolist(), default=math.nan):.6g}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(2)  # neither the same nor different
'''
