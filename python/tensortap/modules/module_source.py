"""The module source: which modules of a model are recorded, under which names, and what was not seen of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from tensortap import _core
from tensortap.modules.attention_calls import AttentionCalls
from tensortap.modules.hooks import Changes, HookSet
from tensortap.modules.taps import Place, Root, Tap
from tensortap.modules.token_batch import Batch, record_batch
from tensortap.modules.transformers_batch import TransformersBatches
from tensortap.modules.unseen import ModuleDescription, explain_unseen, model_name
from tensortap.ops.op_tap import OpTap
from tensortap.session.coverage import Coverage
from tensortap.session.metadata import of_model, of_optimizer
from tensortap.session.options import LEVELS
from tensortap.session.session import Session
from tensortap.session.tensor_capture import TensorCapture
from tensortap.torch_glue import compiled_calls, cuda_graphs
from tensortap.torch_glue.call_stack import keywords_of_call, outermost_call
from tensortap.torch_glue.module_map import ModuleMap
from tensortap.torch_glue.module_names import (
    NamedModule,
    is_leaf,
    named_modules,
    named_parameters,
    names_by_caller,
    parents_of,
)
from tensortap.torch_glue.optimizer_watch import OptimizerWatch

# What adapters of engines say: modules that give a part of their result, and keep the rest where no hook sees it. It
# would be compared with a whole one.
gives_a_part: list[Callable[[nn.Module], bool]] = []


class ModuleSource:
    """Taps on the modules of any number of roots, feeding one recording."""

    def __init__(
        self,
        session: Session,
        ops: OpTap | None,
        *,
        explicit: bool,  # the program named its models
        model_attached: Callable[
            [dict[str, Any]], None
        ],  # is given what is known of a new model, or of new parts of one
        optimizer_stepped: Callable[[dict[str, Any]], None],  # is given the settings of a new optimizer
        capture: TensorCapture | None = None,  # takes the tensors; None: they go to the session's recorder
        changes: Changes | None = None,  # what hooks return
    ) -> None:
        options = session.options
        self._session = session
        self._explicit = explicit
        self._model_attached = model_attached
        self._optimizer_stepped = optimizer_stepped
        self.tracker = session.tracker
        assert session._coverage is not None
        self.coverage: Coverage = session._coverage
        self.roles = options.roles
        self.wants_gradients = bool(options.roles & {"grad_out", "grad_in"})
        self.ops = ops
        self.uses_before = options.modules == "all" or options.ops or bool(options.roles & {"in", "grad_in", "param"})
        keeps_bytes = options.directory is not None and options.levels.has(LEVELS["full"])
        # Other formats have no place for it, and would leave the segment beside them.
        self.keeps_calls = "in" in options.roles and keeps_bytes and options.core.format == "ttap"
        self.options = options
        self.capture = capture if capture is not None else TensorCapture(session)
        self.guarded = session.guarded
        self._hooks = HookSet(session.guarded, changes)
        watched = options.ops or "param" in options.roles
        self._optimizers = OptimizerWatch(session.guarded, self._describe_optimizer) if watched else None
        self._roots: list[Root] = []
        self._attached: ModuleMap[Root] = ModuleMap()  # the roots' modules
        self._scoped: ModuleMap[Root] = ModuleMap()  # modules whose outermost call is a pass
        self._taps: ModuleMap[Tap] = ModuleMap()
        self._known: ModuleMap[str] = ModuleMap()  # every module of every root, and its first name
        self._transformers = TransformersBatches()
        self._reported: dict[str, weakref.ref[nn.Module]] = {}  # by the names under which compiled code reports them
        self._holders: ModuleMap[bool] = ModuleMap()  # modules that call shared ones
        if options.compiled:
            compiled_calls.receive(self._of_compiled_call)
        # Operators show what is between modules by themselves.
        self._attention = AttentionCalls(self) if not options.ops else None

    @property
    def core(self) -> _core.Recorder:
        return self._session._writer_now().core

    def is_root(self, module: nn.Module) -> bool:
        return module in self._attached

    def name_of(self, module: nn.Module) -> str | None:
        """The name under which calls of the module are recorded; None: they are not."""
        tap = self._taps.get(module)
        return tap.name_here() if tap is not None else None

    def knows(self, module: nn.Module) -> bool:
        return module in self._known

    def root_being_called(self) -> Root | None:
        scopes = self.tracker.thread.scopes
        return self._scoped.get(scopes[0].module) if scopes else None

    # ---- putting taps on ----

    def attach(self, module: nn.Module, prefix: str = "") -> int:
        """Records a model from now on; how many modules were not known before.

        Attaching it again finds modules that were added since.
        """
        self._forget_dead()
        entries = named_modules(module, prefix)
        self._hooks.serve_globally(entry.module for entry in entries)
        root = self._attached.get(module)
        if root is None:
            root = self._attached[module] = Root(weakref.ref(module), model_name(module, prefix), prefix)
            self._roots.append(root)
        root.names = [name for entry in entries if not entry.wrapper for name in entry.names]
        parents = parents_of(entries)
        shared = {id(entry.module): names for entry in entries if (names := names_by_caller(entry, entries))}
        new = [entry for entry in entries if self._is_tapped(entry) and not self._adopt(entry, root, parents)]
        root.scripted = [
            ModuleDescription.of(entry, parents)
            for entry in entries
            if isinstance(entry.module, torch.jit.ScriptModule) and is_leaf(entry.module)
        ]
        for entry in entries:
            if (tap := self._taps.get(entry.module)) is not None:
                tap.names_by_caller |= shared.get(id(entry.module), {})
        if self.options.compiled:
            self._hook_holders(entries, shared)
        if self._attention is not None:
            selects, level_of = self.options.filter.selects, self.options.levels.of_name
            self._attention.attach(root, entries, parents, self._hooks, shared, selects=selects, level_of=level_of)
        new_modules = [entry for entry in entries if entry.module not in self._known]
        for entry in new_modules:
            self._known[entry.module] = entry.names[0]
        scopes = [entry.module for entry in entries if entry.names[0] == entries[0].names[0]]
        if new or root.taps or root.attention:
            self._hook_all(root, new, scopes if self.options.step == "auto" else [])
        if new_modules:
            self._model_attached(self._describe(root, module, entries))
        return len(new_modules)

    def _is_tapped(self, entry: NamedModule) -> bool:
        """Whether its calls are events; around operators all are, also modules whose tensors are not kept."""
        if entry.wrapper or isinstance(entry.module, torch.jit.ScriptModule):
            return False
        return self.options.ops or self._is_selected(entry)

    def _is_selected(self, entry: NamedModule) -> bool:
        if self.options.modules == "leaf" and not is_leaf(entry.module):
            return False
        if any(is_so(entry.module) for is_so in gives_a_part):
            return False
        return self.options.filter.selects(entry.names, entry.module)

    def _adopt(self, entry: NamedModule, root: Root, parents: dict[int, list[nn.Module]]) -> bool:
        """Gives the module its place below this root; False when it has no hooks yet."""
        tap = self._taps.get(entry.module)
        hooked = tap is not None
        if tap is None:
            tap = self._taps[entry.module] = Tap(
                self, entry.module, ModuleDescription.of(entry, parents), keeps_tensors=self._is_selected(entry)
            )
        if not any(place.root is root for place in tap.places):
            tap.places.append(Place(root, entry.names[0], self.options.levels.of_name(entry.names[0])))
            root.taps.append(tap)
        tap.names += [name for name in entry.names if name not in tap.names]
        return hooked

    def _hook_all(self, root: Root, entries: list[NamedModule], scopes: list[nn.Module]) -> None:
        new_scopes = [module for module in scopes if module not in self._scoped]
        for module in new_scopes:
            self._scoped[module] = root
            # A part of a model may be called by itself later: its pass begins before it is recorded in it.
            self._hooks.before(module, self._entering(module), first=True, compiled=self._report("enters", module))
        for entry in entries:
            tap = self._taps.get(entry.module)
            assert tap is not None
            if self.uses_before:
                self._hooks.before(entry.module, tap.before, compiled=self._report("begins", entry.module))
            report = self._report("ends", entry.module)
            self._hooks.after(entry.module, tap.after, always=self.uses_before, compiled=report)
        for module in new_scopes:  # last, so that the root's own output is in its pass
            self._hooks.after(module, self._leaving(module), always=True, compiled=self._report("leaves", module))

    def _entering(self, module: nn.Module) -> Callable[..., None]:
        reference = weakref.ref(module)
        return lambda args, kwargs: self.enter(reference(), args, kwargs)

    def _leaving(self, module: nn.Module) -> Callable[..., None]:
        reference = weakref.ref(module)
        return lambda output: self.tracker.leave(reference())

    def _forget_dead(self) -> None:
        """Models that a program makes for one call and drops leave nothing behind but what was not seen of them."""
        dead = [root for root in self._roots if root.module() is None]
        if len(dead) < 16:
            return
        for root in dead:
            self._cover(root)
            for tap in (*root.taps, *root.attention):
                tap.places = [place for place in tap.places if place.root is not root] or tap.places[:1]
        self._roots = [root for root in self._roots if root.module() is not None]
        self._hooks.forget_dead()

    def enter(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """A root is about to be called."""
        owns_pass = self.tracker.enter(module)
        root = self._scoped.get(module)
        if root is None:
            return
        number, is_outermost = self.tracker.thread.number, len(self.tracker.thread.scopes) == 1
        if owns_pass or (is_outermost and number not in (None, root.last_pass)):  # once in each step of the program
            root.passes, root.last_pass = root.passes + 1, number
        if owns_pass:
            batch = self.tracker.thread.batch or self._transformers.of_call(module, args, kwargs)
            if batch is not None:
                root.says_tokens = True
                record_batch(self, batch)

    def attach_late(self, module: nn.Module, args: tuple) -> None:
        """Records a model from the call on that has begun: the hooks that are put on are not asked before its end."""
        was_tapped = module in self._taps
        self.attach(module, self._known.get(module) or "")  # a part of another model keeps its name
        keywords = keywords_of_call(module)
        if module in self._scoped:
            self.enter(module, args, keywords)
        tap = self._taps.get(module)
        if tap is None or was_tapped or not self.uses_before:
            return
        if self.ops is not None:
            self.ops.enter_early(module)
        tap.before(args, keywords)

    def record_weights(self, model: nn.Module, number: int) -> None:
        """The parameters of all selected modules of the model, into this pass."""
        self.attach(model)
        record_batch(self, Batch([], {}, {"weights": True}))
        root = self._attached.get(model)
        for tap in root.kept() if root is not None else []:
            tap.record_weights(number)

    def _report(self, stage: compiled_calls.Stage, module: nn.Module) -> tuple[compiled_calls.Stage, str] | None:
        """What a hook of the module reports inside compiled code; None: nothing."""
        name = self._known.get(module)
        if not self.options.compiled or name is None:
            return None
        self._reported[name] = weakref.ref(module)  # a wrapper comes before what it wraps, which has the same name
        return stage, name

    def _hook_holders(self, entries: list[NamedModule], shared: dict[int, dict[int, str]]) -> None:
        """A call of a shared module is named after its caller, which in compiled code is on no call stack."""
        holders = {holder for names in shared.values() for holder in names}
        for entry in entries:
            if id(entry.module) in holders and entry.module not in self._holders:
                self._holders[entry.module] = True
                self._reported[entry.names[0]] = weakref.ref(entry.module)
                self._hooks.around_compiled(entry.module, "holder begins", "holder ends", entry.names[0])

    def _of_compiled_call(
        self, stage: compiled_calls.Stage, name: str, tensors: list[tuple[str, torch.Tensor]]
    ) -> None:
        known = self._reported.get(name)
        module = known() if known is not None else None
        if module is None:
            return
        if stage == "enters":
            self.guarded(self.enter, module, (), {})
        elif stage == "leaves":
            self.guarded(self.tracker.leave, module)
        elif stage == "holder begins":
            self.tracker.thread.compiled_holders.append(module)
        elif stage == "holder ends":
            del self.tracker.thread.compiled_holders[-1:]
        elif stage == "adds":
            self.guarded(self.add_results, module, tensors)
        elif (tap := self._taps.get(module)) is not None:
            self.guarded(tap.before_compiled if stage == "begins" else tap.after_compiled, tensors)

    def add_results(self, module: nn.Module, tensors: list[tuple[str, torch.Tensor]]) -> None:
        """What an engine computes outside of a module of the results that it has just returned."""
        if (tap := self._taps.get(module)) is not None:
            tap.add_results(tensors)

    def outermost(self, module: nn.Module) -> nn.Module | None:
        """The outermost of our modules that is being called, which from now on is a root of passes."""
        found = outermost_call(self.knows)
        root = next((place.root for place in self._taps.get(module).places), None)  # type: ignore[union-attr]
        if root is not None:
            root.passes += 1
            if found is not None and found is not module and found not in self._scoped:
                self._hook_all(root, [], [found])
        return found

    def detach(self) -> None:
        """Takes every hook off."""
        compiled_calls.forget(self._of_compiled_call)
        self._hooks.remove()
        if self._attention is not None:
            self._attention.remove()
        if self._optimizers is not None:
            self._optimizers.remove()

    # ---- recording ----

    def optimizer_steps(self) -> int:
        """How many there were since this began; they are counted with operators and for the role `param` only."""
        return self._optimizers.count if self._optimizers is not None else 0

    def graph_now(self) -> int:
        """The recorder's taps in the CUDA graph that is captured on the current stream; 0 when none is."""
        return cuda_graphs.graph_now(self.core)

    # ---- what is said of it ----

    def say_what_matches_nothing(self) -> None:
        """When all models are known: patterns that none of their names has, and a filter that selects nothing."""
        of_attention = {name for root in self._roots for tap in root.attention for name in tap.names}
        names = sorted({name for root in self._roots for name in root.names} | of_attention)
        notes = self.options.filter.unmatched(names)
        selects_modules = any(root.kept() or root.attention for root in self._roots)
        if names and not notes and not selects_modules and not self.options.filter.selected_operators:
            notes = [f"the filter selects none of the {len(names)} modules"]
        for note in notes:
            self._session._warn(note)

    def _describe(self, root: Root, module: nn.Module, entries: list[NamedModule]) -> dict[str, Any]:
        return of_model(module, root.name, entries, {id(tap.module()) for tap in root.kept()})

    def _describe_optimizer(self, optimizer: Optimizer) -> None:
        names: dict[int, str] = {}
        for root in self._roots:
            if (module := root.module()) is not None:
                for name, parameter in named_parameters(module, root.prefix):
                    names.setdefault(id(parameter), name)
        self._optimizer_stepped(of_optimizer(optimizer, names))

    def aliases(self) -> list[tuple[str, str]]:
        """Further names of the recorded modules: (the first, another)."""
        pairs = []
        taps = [tap for _, tap in self._taps.items()]
        for tap in [*taps, *(self._attention.taps() if self._attention is not None else [])]:
            if tap.names_by_caller:
                continue  # each call is known by one of them
            first = {place.name for place in tap.places}
            pairs += [(tap.names[0], name) for name in tap.names if name not in first]
        return pairs

    def cover(self) -> None:
        """At the end: what was selected and not seen."""
        for root in self._roots:
            self._cover(root)
            module = root.module()
            if module is not None and self._explicit:
                added = [entry.names[0] for entry in named_modules(module, root.prefix) if not self.knows(entry.module)]
                if added:
                    self.coverage.notes.append(f"put into {root.name} after the recording began: {', '.join(added)}")
        self.coverage.outside_steps = self.tracker.outside

    def _cover(self, root: Root) -> None:
        if root.inherited and root.passes == 0 and not any(tap.called_below for tap in root.taps):
            return
        self.coverage.count_root(root.name, len(root.names), len(root.kept()), root.passes)
        for tap in root.kept():
            if any(known is None or known is root for known in tap.called_below):
                continue
            seen_compiled = self._seen_compiled(root) if self.options.compiled else None
            why = explain_unseen(tap.description, tap.module(), seen_compiled)
            # What another root has called was recorded there, unless this one has it compiled.
            if not tap.called_below or why == "inside a compiled region":
                self.coverage.unseen(tap.description.name, tap.description.type_name, why)
        if self._attention is not None:
            self._attention.cover(root)
        for place in root.scripted:
            self.coverage.unseen(place.name, place.type_name, "scripted")

    def _seen_compiled(self, root: Root) -> bool:
        """Whether compiled code has reported a call below this root."""
        return any(tap.seen_compiled for tap in root.taps)

    def after_fork(self) -> None:
        """In a child: nothing was called yet."""
        for root in self._roots:
            root.passes, root.last_pass, root.inherited = 0, None, True
            for tap in (*root.taps, *root.attention):
                tap.called_below.clear()
                tap.counts.clear()
                tap.parameters.forget()
