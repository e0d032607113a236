"""Calls of the attention function of Transformers: a function, and so without hooks.

An attention module of Transformers rotates its queries and keys, writes to the cache and calls such a function, all in
one forward. An engine has a module for that call, `self_attn.attn`. Here it is recorded under that name, in passes that
say which tokens they compute: elsewhere there is no engine to compare with, and recordings stay as they were.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from tensortap import _core
from tensortap.modules import gradients
from tensortap.modules.attention_cache import Cache, rows_of_step
from tensortap.modules.hooks import HookSet
from tensortap.modules.parameters import Parameters
from tensortap.modules.taps import Call, Place, Root, Source, Tap
from tensortap.modules.unseen import ModuleDescription, explain_unseen
from tensortap.session.passes import in_backward
from tensortap.torch_glue.call_stack import handled_now, keywords_of_call
from tensortap.torch_glue.module_map import ModuleMap
from tensortap.torch_glue.module_names import NamedModule
from tensortap.torch_glue.patching import Patch

NAME = "attn"  # of the call, below its module
_ARGUMENTS = ("module", "query", "key", "value")
_INTERFACE, _EAGER = "ALL_ATTENTION_FUNCTIONS", "eager_attention_forward"

Function = Callable[..., Any]


class _NoParameters(Parameters):
    """Those of the module are the module's own."""

    def changed(self, module: nn.Module | None, optimizer_steps: int = 0) -> Iterator[tuple[str, Any]]:
        yield from ()


class AttentionTap(Tap):
    """The calls of the attention function in one module."""

    def __init__(self, source: Source, module: nn.Module, description: ModuleDescription) -> None:
        super().__init__(source, module, description)
        self.parameters = _NoParameters()

    def _begin(self) -> Call:
        tracker = self.source.tracker
        if not in_backward():
            number = tracker.number_here()
            opened = tracker.opened(number) if number is not None else None
            if opened is None or not opened.says_tokens:
                return Call(self, None)
        return super()._begin()

    def enter_module(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """The module that calls the function is about to be called."""
        _enter(type(self.module()))

    def leave_module(self, output: Any) -> None:
        """Its call is over."""
        _leave()

    def begin(self, states: tuple[torch.Tensor, ...]) -> None:
        """The function is about to be called with query, key and value, each [requests, heads, tokens, size]."""
        if not self.source.uses_before:
            return
        call = self._begin()
        call.handled = handled_now()
        self.source.tracker.thread.parents.append(call)
        if call.event is None:
            return
        roles = self.source.roles
        if "in" in roles:
            for path, rows in self._of_step(states):
                self._record(call, rows, call.role("in"), path)
        if "grad_in" in roles and torch.is_grad_enabled():
            given = [(f"/{place}", state) for place, state in enumerate(states) if state.requires_grad]
            call.inputs = [(path, gradients.edge_of(state), state) for path, state in given]
            call.mark = gradients.sequence_mark()

    def _cache(self) -> Cache | None:
        module = self.module()
        return Cache.of_call(keywords_of_call(module), module) if module is not None else None

    def _of_step(self, states: tuple[torch.Tensor, ...]) -> Iterator[tuple[str, torch.Tensor]]:
        """The rows of this step's tokens, as [requests, tokens, heads, size]: the layout of the result."""
        cache = self._cache()
        for place, state in enumerate(states):
            rows = rows_of_step(state, states[0].shape[2], cache)
            if rows is not None:
                yield f"/{place}", rows.transpose(1, 2)

    def end(self, query: torch.Tensor, result: Any) -> None:
        """The function has returned."""
        call = self._call_of_before() if self.source.uses_before else self._begin()
        if call.event is None:
            return
        if "cache" in self.source.roles and not call.again and (cache := self._cache()) is not None:
            for path, rows in cache.of_step(query.shape[2]):
                self._record(call, rows, "cache", path)
        results = [("", result)] if isinstance(result, torch.Tensor) else []
        self._record_results(call, results)
        if self.source.wants_gradients and torch.is_grad_enabled():
            self._watch_gradients(call, [item for item in results if item[1].requires_grad])
        if self.source.keeps_calls:
            self._end(call)

    def cached(self) -> Iterable[tuple[str, torch.Tensor]]:
        """That of Transformers is recorded already."""
        return ()

    def leave(self) -> None:
        """The function has raised."""
        if self.source.uses_before:
            self._call_of_before()


class AttentionCalls:
    """Those of one recording."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._taps: ModuleMap[AttentionTap] = ModuleMap()

    def attach(
        self,
        root: Root,
        entries: list[NamedModule],
        parents: dict[int, list[nn.Module]],
        hooks: HookSet,
        by_caller: dict[int, dict[int, str]],
        *,
        selects: Callable[[list[str], nn.Module], bool],
        level_of: Callable[[str], int],
    ) -> None:
        """Finds the attention modules of a model. `by_caller`: names of a module that several others hold."""
        taken = {name for entry in entries for name in entry.names}
        for entry in entries:
            names = [f"{name}.{NAME}" for name in entry.names]
            if entry.wrapper or taken.intersection(names) or not _asks_for_attention(type(entry.module)):
                continue
            tap = self._taps.get(entry.module)
            if new := tap is None:
                if not selects(names, entry.module):
                    continue
                above = ModuleDescription.of(entry, parents)
                where = replace(above, name=names[0], type_name="attention", owners=(type(entry.module), *above.owners))
                tap = self._taps[entry.module] = AttentionTap(self._source, entry.module, where)
            if not any(place.root is root for place in tap.places):
                tap.places.append(Place(root, names[0], level_of(names[0])))
                root.attention.append(tap)
            tap.names += [name for name in names if name not in tap.names]
            tap.names_by_caller |= {
                caller: f"{name}.{NAME}" for caller, name in by_caller.get(id(entry.module), {}).items()
            }
            if new:
                hooks.before(entry.module, tap.enter_module)
                hooks.after(entry.module, tap.leave_module, always=True)
                _watch(self)

    def remove(self) -> None:
        """Is notified of calls no longer."""
        _unwatch(self)

    def began(self, module: Any, states: tuple[torch.Tensor, ...], under_way: list[AttentionTap]) -> None:
        """A call begins, in whatever module; puts its tap into `under_way`."""
        tap = self._taps.get(module) if isinstance(module, nn.Module) else None
        if tap is not None and states and all(isinstance(state, torch.Tensor) and state.dim() == 4 for state in states):
            under_way.append(tap)
            tap.begin(states)

    @property
    def guarded(self) -> _core.Guard:
        """Runs our own code; no exception of it reaches the model."""
        return self._source.guarded

    def taps(self) -> Iterable[AttentionTap]:
        """All of them."""
        return [tap for _, tap in self._taps.items()]

    def cover(self, root: Root) -> None:
        """What was not seen of a root that has said its tokens."""
        for tap in root.attention if root.says_tokens else []:
            if not any(known is None or known is root for known in tap.called_below):
                why = explain_unseen(tap.description, tap.module())
                self._source.coverage.unseen(tap.description.name, tap.description.type_name, why)


@functools.cache
def _asks_for_attention(kind: type) -> bool:
    """Whether the forward of a class asks Transformers for the attention function."""
    forward = inspect.unwrap(getattr(kind, "forward", None) or len)
    return _INTERFACE in getattr(getattr(forward, "__code__", None), "co_names", ())


# ---- watching the calls ----

_lock = threading.RLock()  # a signal handler may call a model, too
_watchers: tuple[AttentionCalls, ...] = ()
_inside: dict[int, int] = {}  # how many attention modules each thread is in, by its id
_patches: list[Patch] = []


def _after_fork() -> None:
    """In a child, where this thread is the only one."""
    global _lock
    _lock = threading.RLock()
    mine = _inside.get(threading.get_ident())
    _inside.clear()
    if mine is not None:
        _inside[threading.get_ident()] = mine


os.register_at_fork(after_in_child=_after_fork)


def _watch(watcher: AttentionCalls) -> None:
    global _watchers
    with _lock:
        if not any(known is watcher for known in _watchers):
            _watchers = (*_watchers, watcher)


def _unwatch(watcher: AttentionCalls) -> None:
    global _watchers
    with _lock:
        _watchers = tuple(known for known in _watchers if known is not watcher)
        if not _watchers:
            _inside.clear()
            _undo()


# What gives the function to a module is patched only while an attention module is being called: compiled code guards
# it, and would be compiled again.


def _enter(kind: type) -> None:
    """A thread enters an attention module of a class."""
    with _lock:
        _inside[threading.get_ident()] = _inside.get(threading.get_ident(), 0) + 1
        interface = getattr(sys.modules.get("transformers.modeling_utils"), "AttentionInterface", None)
        if interface is None:
            return
        if hasattr(interface, "get_interface"):  # since 5.0
            _patch(interface, "get_interface", _lookup_of_watched)
            return
        _patch(interface, "__getitem__", _lookup_of_watched)
        modeling = sys.modules.get(kind.__module__)
        if hasattr(modeling, _EAGER):  # which is not in the interface
            _patch(modeling, _EAGER, _watched)


def _leave() -> None:
    with _lock:
        mine = _inside.pop(threading.get_ident(), 1) - 1
        if mine > 0:
            _inside[threading.get_ident()] = mine
        if not _inside:
            _undo()


def _undo() -> None:
    while _patches:
        _patches.pop().undo()


def _patch(owner: Any, name: str, make: Callable[[Function], Function]) -> None:
    if not any(patch.is_of(owner, name) for patch in _patches):
        _patches.append(Patch(owner, name, make))


def _lookup_of_watched(find: Function) -> Function:
    @functools.wraps(find)
    def lookup(*args: Any, **kwargs: Any) -> Any:
        found = find(*args, **kwargs)
        return found if torch.compiler.is_compiling() or not callable(found) else _watched(found)

    return lookup


def _watched(function: Function) -> Function:
    """The function, whose calls the watchers are notified of. Dynamo follows it, and finds the function as it was."""

    @functools.wraps(function)
    def attention(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not _watchers:
            return function(*args, **kwargs)
        given = [*args[:4], *(kwargs[name] for name in _ARGUMENTS[len(args) :] if name in kwargs)]
        under_way: list[tuple[AttentionCalls, AttentionTap]] = []
        for watcher in _watchers:
            found: list[AttentionTap] = []
            watcher.guarded(watcher.began, given[0] if given else None, tuple(given[1:4]), found)
            under_way += [(watcher, tap) for tap in found]
        try:
            result = function(*args, **kwargs)
        except BaseException:
            for watcher, tap in under_way:
                watcher.guarded(tap.leave)
            raise
        made = result[0] if isinstance(result, tuple) and result else result
        for watcher, tap in under_way:
            watcher.guarded(tap.end, given[1], made)
        return result

    return attention
