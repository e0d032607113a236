"""What is known about the program and its models, kept in the run."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from tensortap.torch_glue.module_names import NamedModule, unwrapped

_LONGEST_SETTING = 80  # characters


def _distributed() -> Any:
    """torch.distributed, when the program has initialised it."""
    module = sys.modules.get("torch.distributed")
    if module is not None and module.is_available() and module.is_initialized():
        return module
    return None


def rank() -> int:
    """This process's rank: what torch.distributed says, else what the launcher has put into the environment."""
    distributed = _distributed()
    if distributed is not None:
        return distributed.get_rank()
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def world_size() -> int:
    """How many processes there are, as rank() says which one this is."""
    distributed = _distributed()
    if distributed is not None:
        return distributed.get_world_size()
    for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"):
        if os.environ.get(name, "").isdigit():
            return max(int(os.environ[name]), 1)
    return 1


def of_program(options: dict[str, object]) -> dict[str, Any]:
    """Versions, world and options, for rank.json and every pass."""
    distributed = _distributed()
    world = {"size": distributed.get_world_size(), "backend": distributed.get_backend()} if distributed else None
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("numpy", "transformers", "triton"):
        module = sys.modules.get(name)
        if module is not None and isinstance(getattr(module, "__version__", None), str):
            versions[name] = module.__version__
    return {
        "source": "module",
        "argv": sys.argv,
        "executable": sys.executable,
        "platform": _platform(),
        "versions": versions,
        "cuda": torch.version.cuda,
        "devices": [torch.cuda.get_device_name(i) for i in range(_used_devices())],
        "threads": torch.get_num_threads(),
        "fp32_precision": _fp32_precision(),
        "world": world,
        "options": options,
    }


def _platform() -> str:
    # As platform.platform() says it, which starts a process with a lock held: a child forked meanwhile would hang.
    system = os.uname()
    return f"{system.sysname}-{system.release}-{system.machine}-with-{''.join(platform.libc_ver())}"


def _used_devices() -> int:
    # Asking for a device would initialise CUDA in a program that does not use it.
    return torch.cuda.device_count() if torch.cuda.is_initialized() else 0


def _fp32_precision() -> dict[str, dict[str, str]]:
    """Where PyTorch may multiply f32 with fewer bits than it has: {"cuda": {"conv": "tf32"}} by default."""
    backends = torch.backends
    settings = {"cpu": (backends.mkldnn, backends.mkldnn)}
    if torch.version.cuda is not None:
        settings["cuda"] = (backends.cuda, backends.cudnn)
    found: dict[str, dict[str, str]] = {}
    for device, (of_matmul, of_conv) in settings.items():
        for kind, owner in (("matmul", of_matmul), ("conv", of_conv)):
            precision = getattr(getattr(owner, kind, None), "fp32_precision", "none")
            if precision not in ("none", "ieee"):
                found.setdefault(device, {})[kind] = precision
    return found


# Asked of every module of a model, with the model: what is to be said of it besides.
Describer = Callable[[nn.Module, str, nn.Module], dict[str, Any]]
describers: list[Describer] = []


def _described(root: nn.Module, name: str, module: nn.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for describe in describers:
        with contextlib.suppress(Exception):  # another version of an engine
            found |= describe(root, name, module)
    return found


def of_model(root: nn.Module, name: str, modules: Sequence[NamedModule], selected: set[int]) -> dict[str, Any]:
    """A model's structure and configuration, for model.json."""
    inner = unwrapped(root)
    described: dict[str, Any] = {"name": name, "type": _type_name(inner), "training": inner.training}
    wrappers = []
    while root is not inner:
        wrappers.append(_type_name(root))
        root = next(iter(root._modules.values()))  # type: ignore[assignment]
    if wrappers:
        described["wrappers"] = wrappers
    with contextlib.suppress(Exception):  # any object may call itself `config`
        described["config"] = _plain(inner.config.to_dict())
    described["modules"] = [
        {
            "name": entry.names[0],
            "type": _type_name(entry.module),
            **({"detail": detail} if (detail := _extra(entry.module)) else {}),
            **({"settings": settings} if (settings := _settings(entry.module)) else {}),
            **({"aliases": entry.names[1:]} if len(entry.names) > 1 else {}),
            "selected": id(entry.module) in selected,
            **_described(inner, entry.names[0], entry.module),
        }
        for entry in modules
        if not entry.wrapper
    ]
    return described


def of_optimizer(optimizer: Optimizer, names: Mapping[int, str]) -> dict[str, Any]:
    """An optimizer's settings by group, for model.json; `names` are those of parameters, by id."""
    return {
        "type": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}",
        "groups": [
            {
                "settings": {
                    name: text
                    for name, value in group.items()
                    if name != "param_names" and (text := _setting_text(value)) is not None
                },
                "parameters": [names[id(parameter)] for parameter in group["params"] if id(parameter) in names],
            }
            for group in optimizer.param_groups
        ],
    }


def _setting_text(value: Any) -> bool | int | float | str | None:
    """A number, a word or a switch as it is, several of them as Python writes them; None: it is something else."""
    if isinstance(value, (list, tuple)):
        known = value and all(isinstance(item, (bool, int, float, str)) for item in value)
        return _setting_text(str(tuple(value))) if known else None
    if not isinstance(value, (bool, int, float, str)) or len(str(value)) > _LONGEST_SETTING:
        return None
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _extra(module: nn.Module) -> str:
    with contextlib.suppress(Exception):
        return module.extra_repr()
    return ""


def _settings(module: nn.Module) -> dict[str, Any]:
    """The module's own numbers, words and switches, as they are when the recording begins."""
    with contextlib.suppress(Exception):
        return {
            name: text
            for name, value in vars(module).items()
            if not name.startswith("_")
            and name != "training"
            and not isinstance(value, (list, tuple))
            and (text := _setting_text(value)) is not None
        }
    return {}


def _type_name(module: nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _plain(value: Any) -> Any:
    """As JSON can hold it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return str(value)
