"""The module source: hooks on the selected modules of a model, each call an event, each tensor of it a record."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.nn.modules import module as torch_module

from tensortap import _core, gradients
from tensortap.coverage import explain_unseen, model_name
from tensortap.metadata import of_model
from tensortap.names import NamedModule, is_leaf, named_modules
from tensortap.nested import tensors_in
from tensortap.passes import SKIPPED, in_backward, outermost_call
from tensortap.snapshot import Unrecordable, is_plain, parts_of

if TYPE_CHECKING:
    from tensortap.recording import Recording

# The role of a tensor of a call that activation checkpointing does again.
_DONE_AGAIN = {"out": "recompute", "in": "recompute_in"}


@dataclass
class Root:
    """A model that is recorded."""

    module: weakref.ref[nn.Module]
    name: str
    prefix: str
    taps: list[Tap] = field(default_factory=list)
    modules: int = 0
    passes: int = 0


@dataclass
class Place:
    """A module's name below one root, and what of it is kept."""

    name: str
    level: int


@dataclass
class Call:
    """A call that is under way."""

    tap: Tap
    event: _core.Event | None  # None: not recorded
    number: int = SKIPPED
    again: bool = False
    inputs: list[tuple[str, torch.Tensor]] = field(default_factory=list)  # whose gradients are wanted
    mark: int = 0


class Tap:
    """One selected module."""

    def __init__(self, source: ModuleSource, module: nn.Module) -> None:
        self.source = source
        self.module = weakref.ref(module)
        self.names: list[str] = []
        self.places: dict[int, Place] = {}  # by id of the root
        self.called_below: set[int] = set()  # ids of the roots it was called by; 0: by none that is known
        self.last_number: int | None = None  # the pass of its last call

    def place(self) -> Place:
        """Under the root that is being called; a module may be known to several."""
        places = self.places
        if len(places) > 1 and (scopes := self.source.tracker.thread.scopes):
            place = places.get(id(scopes[0].module))
            if place is not None:
                return place
        return next(iter(places.values()))

    def was_called_by(self, roots: set[int]) -> bool:
        return 0 in self.called_below or bool(self.called_below & roots) or not roots

    # ---- what the hooks call; nothing of it reaches the model ----

    def before(self, args: tuple, kwargs: dict[str, Any]) -> None:
        self.source.guarded(self._before, args, kwargs)

    def after(self, output: Any) -> None:
        self.source.guarded(self._after, output)

    def _begin(self) -> Call:
        source, thread = self.source, self.source.tracker.thread
        number = source.tracker.number_of_call(self.module(), source.outermost)  # type: ignore[arg-type]
        if number is None or number == SKIPPED:
            return Call(self, None)
        again = self.last_number == number and in_backward()
        place = self.place()
        parent = next((call.event for call in reversed(thread.parents) if call.event is not None), None)
        event = source.core.begin_event(
            place.name, "recompute" if again else "module", number, place.level, parent, again
        )
        self.last_number = number
        return Call(self, event, number, again)

    def _before(self, args: tuple, kwargs: dict[str, Any]) -> None:
        call = self._begin()
        self.source.tracker.thread.parents.append(call)
        roles = self.source.roles
        if call.event is None or not ("in" in roles or "grad_in" in roles):
            return
        tensors = list(tensors_in({str(position): value for position, value in enumerate(args)} | kwargs))
        if "in" in roles:
            for path, tensor in tensors:
                self.source.record(call, tensor, "in", path)
        if "grad_in" in roles and torch.is_grad_enabled():
            call.inputs = [(path, tensor) for path, tensor in tensors if tensor.requires_grad]
            call.mark = gradients.sequence_mark()

    def _after(self, output: Any) -> None:
        call = self._call_of_before() if self.source.uses_before else self._begin()
        try:
            if call.event is None or (output is None and sys.exc_info()[0] is not None):
                return
            scopes = self.source.tracker.thread.scopes
            self.called_below.add(id(scopes[0].module) if scopes else 0)
            tensors = list(tensors_in(output))
            if not tensors:
                silent = self.source.coverage.without_tensors
                silent[self.names[0]] = silent.get(self.names[0], 0) + 1
            if "out" in self.source.roles:
                for path, tensor in tensors:
                    self.source.record(call, tensor, "out", path)
            if self.source.wants_gradients and torch.is_grad_enabled():
                self._watch_gradients(call, [item for item in tensors if item[1].requires_grad])
        finally:
            self.source.tracker.call_is_over(self.module())  # type: ignore[arg-type]

    def _call_of_before(self) -> Call:
        parents = self.source.tracker.thread.parents
        if not any(call.tap is self for call in parents):
            return self._begin()  # the hooks were put on while it was being called
        while True:  # calls above it were left by an exception that passes by the hooks
            call = parents.pop()
            if call.tap is self:
                return call

    def _watch_gradients(self, call: Call, outputs: list[tuple[str, torch.Tensor]]) -> None:
        source, handles = self.source, []
        if "grad_out" in source.roles:
            for path, tensor in outputs:
                handles.append(gradients.watch_tensor(tensor, self._sink(call, "grad_out", path)))
        if call.inputs and outputs:
            inputs = [(tensor, self._sink(call, "grad_in", path)) for path, tensor in call.inputs]
            handles += gradients.watch_inputs(inputs, [tensor for _, tensor in outputs], call.mark)
            call.inputs = []
        if handles:
            source.keep_handles([handle for handle in handles if handle is not None])
        if outputs:
            source.tracker.await_gradients(call.number)

    def _sink(self, call: Call, role: str, path: str) -> gradients.Sink:
        source, times = self.source, 0

        def record(gradient: torch.Tensor) -> None:
            nonlocal times
            times += 1
            if not source.tracker.is_open(call.number):
                source.coverage.late_gradients += 1
                return
            # A second backward through the same graph is another gradient of the same tensor.
            source.record(call, gradient, role if times == 1 else f"{role}_{times}", path)

        return lambda gradient: source.guarded(record, gradient)


class _Hook:
    """A hook that a copy of the model does not inherit: copies and pickles get one that does nothing."""

    def __init__(self, work: Callable[..., None] | None = None, module: nn.Module | None = None) -> None:
        self._work = work
        self._module = weakref.ref(module) if module is not None else None

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hook:
        return type(self)()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    # Dynamo follows hooks into compiled regions. There is nothing to see for it behind is_compiling(), so a model
    # compiles to the same code as without them.
    def __call__(self, module: nn.Module, *arguments: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._module is not None and self._module() is module:
            self._work(*arguments)  # type: ignore[misc]


class ModuleSource:
    """Hooks on the modules of any number of roots, feeding one recording."""

    def __init__(self, recording: Recording) -> None:
        options = recording.options
        self._recording = recording
        self.tracker = recording.tracker
        self.coverage = recording._coverage
        self.roles = options.roles
        self.wants_gradients = bool(options.roles & {"grad_out", "grad_in"})
        self.uses_before = options.modules == "all" or bool(options.roles & {"in", "grad_in"})
        self._options = options
        self._roots: list[Root] = []
        self._taps: weakref.WeakKeyDictionary[nn.Module, Tap] = weakref.WeakKeyDictionary()
        self._known: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._scoped: weakref.WeakKeyDictionary[nn.Module, Root] = weakref.WeakKeyDictionary()
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self._gradient_handles: list[torch.utils.hooks.RemovableHandle] = []

    @property
    def core(self) -> _core.Recorder:
        return self._recording._writer_now().core

    # ---- putting hooks on ----

    def attach(self, module: nn.Module, prefix: str = "") -> None:
        """Records a model from now on. Attaching it again finds modules that were added since."""
        entries = named_modules(module, prefix)
        root = next((root for root in self._roots if root.module() is module), None)
        if root is None:
            root = Root(weakref.ref(module), model_name(module, prefix), prefix)
            self._roots.append(root)
        root.modules = sum(not entry.wrapper for entry in entries)
        new = [entry for entry in entries if self._is_selected(entry) and not self._adopt(entry, root)]
        self._known.update(entry.module for entry in entries)
        scopes = [entry.module for entry in entries if entry.names[0] == entries[0].names[0]]
        if new or root.taps:
            self._hook_all(root, new, scopes if self._options.step == "auto" else [])
        self._say_what_matches_nothing(root, entries)
        self._recording._model_attached(self.describe(root, entries))

    def _is_selected(self, entry: NamedModule) -> bool:
        if entry.wrapper or isinstance(entry.module, torch.jit.ScriptModule):
            return False
        if self._options.modules == "leaf" and not is_leaf(entry.module):
            return False
        return self._options.filter.selects(entry.names, entry.module)

    def _adopt(self, entry: NamedModule, root: Root) -> bool:
        """Gives the module its place below this root; False when it has no hooks yet."""
        tap = self._taps.get(entry.module)
        hooked = tap is not None
        if tap is None:
            tap = self._taps[entry.module] = Tap(self, entry.module)
        module = root.module()
        if id(module) not in tap.places:
            tap.places[id(module)] = Place(entry.names[0], self._options.levels.of_name(entry.names[0]))
            root.taps.append(tap)
        tap.names += [name for name in entry.names if name not in tap.names]
        return hooked

    def _hook_all(self, root: Root, entries: list[NamedModule], scopes: list[nn.Module]) -> None:
        new_scopes = [module for module in scopes if module not in self._scoped]
        for module in new_scopes:
            self._scoped[module] = root
            self._handles.append(module.register_forward_pre_hook(_Hook(self._entering(module), module)))
        for entry in entries:
            tap, module = self._taps[entry.module], entry.module
            if self.uses_before:
                self._handles.append(module.register_forward_pre_hook(_Hook(tap.before, module), with_kwargs=True))
            work = _only_output(tap.after)
            self._handles.append(module.register_forward_hook(_Hook(work, module), always_call=self.uses_before))
        for module in new_scopes:  # last, so that the root's own output is in its pass
            self._handles.append(module.register_forward_hook(_Hook(self._leaving(module), module), always_call=True))

    def _entering(self, module: nn.Module) -> Callable[..., None]:
        reference = weakref.ref(module)
        return lambda *_: self.guarded(self.enter, reference())

    def _leaving(self, module: nn.Module) -> Callable[..., None]:
        reference = weakref.ref(module)
        return lambda *_: self.guarded(self.tracker.leave, reference())

    def enter(self, module: nn.Module) -> None:
        """A root is about to be called."""
        before = self.tracker.count
        self.tracker.enter(module)
        if self.tracker.count > before:
            self._scoped[module].passes += 1

    def outermost(self, module: nn.Module) -> nn.Module | None:
        """The outermost of our modules that is being called, which from now on is a root of passes."""
        found = outermost_call(lambda candidate: candidate in self._known)
        root = next((root for root in self._roots if any(tap.module() is module for tap in root.taps)), None)
        if root is not None:
            root.passes += 1
            if found is not None and found is not module and found not in self._scoped:
                self._hook_all(root, [], [found])
        return found

    def detach(self) -> None:
        """Takes every hook off."""
        for handle in self._handles + self._gradient_handles:
            handle.remove()
        self._handles.clear()
        self._gradient_handles.clear()

    def keep_handles(self, handles: list[torch.utils.hooks.RemovableHandle]) -> None:
        """Hooks on tensors that live on; taken off with the others."""
        self._gradient_handles += handles

    # ---- recording ----

    def guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Runs our own code: unseen by other tools' modes and by Dynamo, and no exception of it reaches the model."""
        callback = set_eval_frame(None)
        try:
            with torch._C.DisableTorchFunction():
                work(*arguments)
        except Exception as error:
            if self._options.core.strict:
                raise
            self.coverage.failed(f"{type(error).__name__}: {error}")
        finally:
            set_eval_frame(callback)

    def record(self, call: Call, tensor: torch.Tensor, role: str, path: str) -> None:
        """One tensor of a call, whatever kind of tensor it is."""
        if call.again:
            role = _DONE_AGAIN.get(role, role)
        error: str | None
        try:
            if is_plain(tensor):
                error = self.core.capture(call.event, tensor, role, path, "cpu")
                if error is not None:
                    self._not_captured(error)
                return
            for part in parts_of(tensor):
                part_path = path
                for step in part.steps:
                    part_path = _core.append_path(part_path, step)
                capture = self.core.capture if part.has_bytes else self.core.capture_meta
                error = capture(call.event, part.tensor, role, part_path, part.device)
                if error is not None:
                    self._not_captured(error)
        except (Unrecordable, RuntimeError, TypeError, NotImplementedError) as why:
            reason = str(why).partition("\n")[0]
            self.core.count_unsupported(call.tap.names[0], reason, call.number)
            self.coverage.cannot_record(reason, f"{call.tap.names[0]}@{role}{path}")
            if self._options.core.strict:
                raise

    def _not_captured(self, error: str) -> None:
        # The recorder has counted it.
        if self._options.core.strict:
            raise RuntimeError(error)

    # ---- what is said of it ----

    def _say_what_matches_nothing(self, root: Root, entries: list[NamedModule]) -> None:
        names = [name for entry in entries if not entry.wrapper for name in entry.names]
        notes = self._options.filter.unmatched(names)
        if not root.taps and not notes:
            notes = [f"the filter selects none of the {len(names)} modules of {root.name}"]
        for note in notes:
            self._recording._warn(note)

    def describe(self, root: Root, entries: list[NamedModule]) -> dict[str, Any]:
        module = root.module()
        assert module is not None
        selected = {id(tap.module()) for tap in root.taps}
        return of_model(module, root.name, entries, selected)

    def aliases(self) -> list[tuple[str, str]]:
        """Further names of the recorded modules: (the first, another)."""
        pairs = []
        for tap in list(self._taps.values()):
            first = {place.name for place in tap.places.values()}
            pairs += [(tap.names[0], name) for name in tap.names if name not in first]
        return pairs

    def _scope_ids(self, root: Root) -> set[int]:
        return {id(module) for module, scope_root in list(self._scoped.items()) if scope_root is root}

    def cover(self) -> None:
        """At the end: what was selected and not seen."""
        for root in self._roots:
            module = root.module()
            self.coverage.roots.append(
                {"name": root.name, "modules": root.modules, "selected": len(root.taps), "passes": root.passes}
            )
            if module is None:
                continue
            unseen = {id(tap.module()) for tap in root.taps if not tap.was_called_by(self._scope_ids(root))}
            entries = named_modules(module, root.prefix)
            # Scripted modules take no hooks; they were wanted all the same.
            wanted = [
                entry
                for entry in entries
                if id(entry.module) in unseen
                or (isinstance(entry.module, torch.jit.ScriptModule) and is_leaf(entry.module))
            ]
            self.coverage.never_called += explain_unseen(wanted, module)
        self.coverage.outside_steps = self.tracker.outside


def _only_output(work: Callable[[Any], None]) -> Callable[..., None]:
    return lambda args, output: work(output)


class RootFinder:
    """Makes a root of every module that is called outermost: recording a program without touching it."""

    def __init__(self, source: ModuleSource) -> None:
        self._source = source
        self._seen_types: set[type] = set()  # of modules called inside a root that are no part of it
        self._stale: set[int] = set()
        self._handle = torch_module.register_module_forward_pre_hook(self.before)

    def remove(self) -> None:
        self._handle.remove()

    def before(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        source = self._source
        if source.tracker.thread.scopes:
            # A new part of the model? It is looked for when the root is called next, once per type.
            if module not in source._known and type(module) not in self._seen_types:
                self._seen_types.add(type(module))
                self._stale.add(id(source.tracker.thread.scopes[0].module))
                source.coverage.note_stranger(type(module).__name__)
            return
        source.guarded(self._outermost, module)

    def _outermost(self, module: nn.Module) -> None:
        if in_backward():
            return
        source = self._source
        if module in source._scoped:
            if id(module) in self._stale:
                self._stale.discard(id(module))
                source.attach(module)
            return  # its own hook begins the pass
        source.attach(module)
        if module in source._scoped:
            source.enter(module)  # this call has begun: the new hook is not asked any more
