"""How the ranks of an engine share their tensors, as model.json says it (`shards` of a module).

vLLM and SGLang have their layers from one source: classes and attributes have the same names in both.
"""

from __future__ import annotations

from typing import Any

from torch import nn

# Of a tensor: {"concat": dimension, "sizes": of its parts, "copies": of each, "size": without padding}, or "sum".
Shard = dict[str, Any] | str
_COLUMNS: Shard = {"concat": -1}


def described_shards(model: nn.Module, name: str, module: nn.Module) -> dict[str, Any]:
    """How the tensors of a module are made of those of the ranks, where several share the model; for model.json."""
    shards = shards_of(model, name, module)
    return {"shards": shards} if shards else {}


def shards_of(model: nn.Module, name: str, module: nn.Module) -> dict[str, Shard]:
    """By role, or role and path, how each tensor of a module is made of those of the ranks."""
    kinds = {kind.__name__ for kind in type(module).__mro__}
    if "ColumnParallelLinear" in kinds:
        return _of_columns(module)
    if "RowParallelLinear" in kinds:
        return _of_rows(module)
    if "VocabParallelEmbedding" in kinds:
        # One rank, too, may have rows that are padding.
        whole = _ranks(module) == 1 and module.num_embeddings_padded == module.org_vocab_size
        return {} if whole else {"param": {"concat": 0, "size": module.org_vocab_size}}
    siblings = dict(model.get_submodule(name.rpartition(".")[0]).named_children())
    # What is between a projection by columns and one by rows has a part of the columns.
    columns = next((found for each in siblings.values() if (found := _of_columns(each)) and "out" in found), None)
    if columns is None:
        return {}
    if any(kind.endswith("AndMul") for kind in kinds):
        return {"in": columns["out"], "out": _COLUMNS}
    if type(module).__module__.endswith(".layers.activation"):
        return {"in": _COLUMNS, "out": _COLUMNS}
    query, key, value = _heads(columns["out"])
    if kinds & {"Attention", "RadixAttention"}:
        cache: dict[str, Any] = {"concat": -2}
        if "copies" in key:
            heads = getattr(module, "num_kv_heads", None) or module.tp_k_head_num
            cache |= {"sizes": [heads], "copies": key["copies"]}
        return {"in/0": query, "in/1": key, "in/2": value, "cache": cache, "out": _COLUMNS}
    of_norm = {"q_norm": query, "k_norm": key}.get(name.rpartition(".")[2])
    if of_norm is not None and _is_by_head(module, siblings):
        by_head = of_norm | {"concat": -2}
        return {"in": by_head, "out": by_head}
    return {}


def _ranks(module: nn.Module) -> int:
    group = getattr(module, "tp_group", None)  # SGLang's linear layers have no more than this
    return getattr(module, "tp_size", getattr(group, "world_size", 1))


def _of_columns(module: nn.Module) -> dict[str, Shard]:
    """Of a projection that gives each rank some of its columns: those of several fused ones, each by itself."""
    if _ranks(module) == 1 or not hasattr(module, "gather_output"):
        return {}
    part: dict[str, Any] = {}
    if hasattr(module, "output_sizes"):
        part["sizes"] = [size // _ranks(module) for size in module.output_sizes]
    if (copies := getattr(module, "num_kv_head_replicas", 1)) > 1:
        part["copies"] = [1, copies, copies]
    shards: dict[str, Shard] = {"param/weight": part | {"concat": 0}, "param/bias": part | {"concat": 0}}
    return shards if module.gather_output else shards | {"out": part | {"concat": -1}}


def _of_rows(module: nn.Module) -> dict[str, Shard]:
    if _ranks(module) == 1:
        return {}
    shards: dict[str, Shard] = {"param/weight": {"concat": 1}}
    if module.input_is_parallel:
        shards["in"] = _COLUMNS
    return shards if module.reduce_results else shards | {"out": "sum"}


def _heads(fused: Shard) -> list[dict[str, Any]]:
    """Queries, keys and values by themselves."""
    copies = fused.get("copies", [1, 1, 1]) if isinstance(fused, dict) else [1, 1, 1]
    sizes = fused.get("sizes", []) if isinstance(fused, dict) else []
    if len(sizes) != 3:
        return [{"concat": -1}] * 3
    return [
        {"concat": -1} | ({"sizes": [size], "copies": [many]} if many > 1 else {})
        for size, many in zip(sizes, copies, strict=True)
    ]


def _is_by_head(module: nn.Module, siblings: dict[str, nn.Module]) -> bool:
    """Whether a norm is given each head by itself, [rows, heads, size]: its weight is as long as a head."""
    sizes = {getattr(each, name, None) for each in siblings.values() for name in ("head_size", "head_dim")}
    return getattr(module, "hidden_size", 0) in sizes
