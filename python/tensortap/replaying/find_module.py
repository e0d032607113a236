"""The module of a recorded call in a model that is here."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from tensortap.reading import Rank
from tensortap.replaying.calling import Refused, first_line
from tensortap.session.filters import nearest_names
from tensortap.session.loading import load_function, look_beside
from tensortap.torch_glue.module_names import NamedModule, named_modules

Models = nn.Module | Mapping[str, nn.Module]


def modules_of(model: Models) -> list[NamedModule]:
    """Every module under the names that a recording of the model gives it; several models have names of their own."""
    models = model if isinstance(model, Mapping) else {"": model}
    return [entry for prefix, root in models.items() for entry in named_modules(root, prefix) if not entry.wrapper]


def find_module(entries: list[NamedModule], name: str) -> nn.Module:
    """The module of this name. Raises Refused where there is none."""
    found = next((entry for entry in entries if name in entry.names), None)
    if found is None:
        near = nearest_names(name, [each for entry in entries for each in entry.names])
        raise Refused(f"the model has no module {name}" + (f"; near it: {', '.join(near)}" if near else ""))
    return found.module


def refuse_other_class(module: nn.Module, name: str, rank: Rank) -> None:
    """Raises Refused for a module of another class than was recorded."""
    here, there = type(module).__name__, _recorded_class(name, rank)
    if there is not None and there != here:
        raise Refused(f"{name} is a {there} in the recording and a {here} in the model: it is another model")


def _recorded_class(name: str, rank: Rank) -> str | None:
    """Without its module: a program that is run and a file that is imported call theirs by different names."""
    for model in rank.model.get("models", []):
        for module in model.get("modules", []):
            if name == module.get("name") or name in module.get("aliases", ()):
                return str(module.get("type", "")).rpartition(".")[2] or None
    return None


def load_model(spec: str) -> Models:
    """What the function gives that `FILE.py:make` or `package.module:make` names. Raises ValueError with the reason.

    Modules beside the file, or in the current folder, can be imported, as by a program that runs there.
    """
    look_beside(spec.rpartition(":")[0])
    try:
        made = load_function(spec)()
    except Exception as error:  # a function of the program may raise anything
        raise ValueError(f"--model {spec}: {type(error).__name__}: {first_line(error)}") from error
    if isinstance(made, nn.Module):
        return made
    if isinstance(made, Mapping) and made and all(isinstance(each, nn.Module) for each in made.values()):
        return made
    raise ValueError(f"--model {spec} gives a {type(made).__name__}: it must give an nn.Module, or a dict of them")
