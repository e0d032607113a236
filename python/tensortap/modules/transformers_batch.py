"""The rows of a call of a Transformers model: what a serving engine passes to tap.batch(), read from its arguments."""

from __future__ import annotations

import itertools
import sys
import weakref
from typing import Any

import torch
from torch import nn

from tensortap.modules.token_batch import Batch


class TransformersBatches:
    """Knows which calls of language models go on with the same texts: those that are given the same cache."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._of_cache: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._newest: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()

    def of_call(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Batch | None:
        """None unless the module is a language model of Transformers that is given tokens."""
        library = sys.modules.get("transformers")
        if library is None or not isinstance(module, library.PreTrainedModel) or not module.can_generate():
            return None
        if module.config.is_encoder_decoder:  # its tensors have rows of two texts
            return None
        tokens = kwargs.get("input_ids", args[0] if args else None)
        if not isinstance(tokens, torch.Tensor) or tokens.dim() != 2:
            return None
        cache = kwargs.get("past_key_values")
        length = cache.get_seq_length() if hasattr(cache, "get_seq_length") else 0
        tensors = {"token_ids": tokens}
        notes: dict[str, Any] = {}
        for name, path in (("position_ids", "positions"), ("attention_mask", "attention_mask")):
            if isinstance(value := kwargs.get(name), torch.Tensor) and value.dim() == 2:
                tensors[path] = value
        if isinstance(length, torch.Tensor):
            tensors["cache_length"] = length
        elif length:
            notes["cache_length"] = int(length)
        texts = self._texts_of(module, cache, not isinstance(length, torch.Tensor) and length == 0)
        return Batch([f"{texts}.{row}" for row in range(tokens.shape[0])], tensors, notes)

    def _texts_of(self, module: nn.Module, cache: Any, is_empty: bool) -> int:
        """A number for the texts of a call: that of its cache, or a new one."""
        known = self._of_cache.get(cache) if cache is not None else None
        if known is None or is_empty:
            # A cache that the model made in a call without one holds that call's texts.
            goes_on = cache is not None and not is_empty and module in self._newest
            known = self._newest[module] if goes_on else next(self._numbers)
        if cache is not None:
            self._of_cache[cache] = known
        self._newest[module] = known
        return known
