"""A config as a dict, from wherever it comes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensortap.quant.dump.config_entry import ConfigError


def read_config(config: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    """A dict as it is; the path of a YAML file, or YAML itself, as what it says.

    Text of one line is a path, unless it begins with a brace.
    """
    if isinstance(config, Mapping):
        return config
    if not isinstance(config, (str, os.PathLike)):
        raise TypeError(f"the config is a {type(config).__name__}: it is a dict, YAML, or the path of a YAML file")
    where, text = "the config", os.fspath(config)
    if isinstance(config, os.PathLike) or not ("\n" in text or text.lstrip().startswith("{")):
        path = Path(text).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"there is no config {path}: give a YAML file, YAML of several lines, or a dict")
        where, text = str(path), path.read_text()
    read = _parsed(text, where)
    if not isinstance(read, Mapping):
        raise ConfigError(f"{where} holds {read!r}: it must be a mapping of sections")
    return read


def _parsed(text: str, where: str) -> Any:
    try:
        import yaml  # optional
    except ImportError:
        return _parsed_json(text, where)

    class Loader(yaml.SafeLoader):
        """Two sections of one name are a mistake: PyYAML would drop the first."""

    def mapping(loader: Loader, node: yaml.MappingNode) -> dict[Any, Any]:
        names = [loader.construct_object(key, deep=True) for key, _ in node.value]
        for index, name in enumerate(names):
            if name in names[:index]:
                line = node.value[index][0].start_mark.line + 1
                raise ConfigError(f"{where}, line {line}: {name!r} is there twice")
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML: {error}") from None


def _parsed_json(text: str, where: str) -> Any:
    """JSON is YAML, and needs no package."""
    try:
        return json.loads(text)
    except ValueError:
        raise ModuleNotFoundError(f"to read {where} PyYAML is needed: `pip install pyyaml`, or pass a dict") from None
