"""TensorTap records what every operator of a model really produced.

    import tensortap as tap

    with tap.record(model, "dump/"):                # every outermost forward is one pass
        model(x)

    run = tap.open("dump/")
    run.ranks[0].passes[0]["encoder.layer.0.output"]
    print(tap.diff("good/", "bad/"))                # which operator went wrong first

Importing the package does not import PyTorch; recording and loading do.
"""

from typing import TYPE_CHECKING

from tensortap import literals, quant
from tensortap.checking import (
    Check,
    Collective,
    Contribution,
    FirstNonfinite,
    NonfiniteTensor,
    Spread,
    Unjudged,
    check,
)
from tensortap.comparing import Diff, TensorDiff, diff
from tensortap.converting import ExportedPass, RecoveredPass, export, recover
from tensortap.lazy_import import importer
from tensortap.reading import FormatError, Pass, Passes, Rank, Run, load_pass, open, runs
from tensortap.records import EventRecord, TensorRecord, Use
from tensortap.scoring import RolloutMismatch, ScoredToken, mismatch

if TYPE_CHECKING:
    from tensortap.grafting.grafting import Graft, graft
    from tensortap.grafting.removed import removed_error
    from tensortap.grafting.report import GraftedKey
    from tensortap.graph.backend import GraphBackend, graph_backend
    from tensortap.graph.check.difference import SearchLimits, Tolerance
    from tensortap.graph.check.mismatch import GraphMismatch, Mismatch
    from tensortap.graph.graph_session import GraphSeen
    from tensortap.hunting.hunt import hunt
    from tensortap.hunting.result import Hunt
    from tensortap.hunting.suspects import CallPlace
    from tensortap.hunting.verdicts import HuntedSuspect
    from tensortap.modules.quant_pieces import capture_quantized
    from tensortap.modules.token_batch import batch, logprobs
    from tensortap.probe.actions import Compare, Print, RecordAction
    from tensortap.probe.probe import Probe, drain_records
    from tensortap.probe.snapshot import CompareFailed, Snapshot
    from tensortap.recording import Recording, record
    from tensortap.repeating.comparing import same_bits
    from tensortap.repeating.found import UnequalCall
    from tensortap.repeating.report import SameBits
    from tensortap.replaying.batches.batch_invariance import batch_invariance
    from tensortap.replaying.batches.report import BatchDependentCall, BatchInvariance
    from tensortap.replaying.blame.blaming import blame
    from tensortap.replaying.blame.found import BlamedCall, RefusedCall
    from tensortap.replaying.blame.judged import TensorError
    from tensortap.replaying.blame.report import Blame
    from tensortap.replaying.replay import replay
    from tensortap.replaying.results import NotReplayable, Replayed, ReplayedTensor
    from tensortap.replaying.right.report import ReplayedSide, Suspect, WhoIsRight
    from tensortap.replaying.right.who_is_right import who_is_right
    from tensortap.replaying.sensitivity.report import CallShare, Sensitivity
    from tensortap.replaying.sensitivity.shares import sensitivity
    from tensortap.tracing import Trace, trace
else:
    __getattr__ = importer(
        "tensortap",
        {
            "tensortap.grafting.grafting": ("Graft", "graft"),
            "tensortap.grafting.removed": ("removed_error",),
            "tensortap.grafting.report": ("GraftedKey",),
            "tensortap.graph.backend": ("GraphBackend", "graph_backend"),
            "tensortap.graph.check.difference": ("SearchLimits", "Tolerance"),
            "tensortap.graph.check.mismatch": ("GraphMismatch", "Mismatch"),
            "tensortap.graph.graph_session": ("GraphSeen",),
            "tensortap.hunting.hunt": ("hunt",),
            "tensortap.hunting.result": ("Hunt",),
            "tensortap.hunting.suspects": ("CallPlace",),
            "tensortap.hunting.verdicts": ("HuntedSuspect",),
            "tensortap.modules.quant_pieces": ("capture_quantized",),
            "tensortap.modules.token_batch": ("batch", "logprobs"),
            "tensortap.probe.actions": ("Compare", "Print", "RecordAction"),
            "tensortap.probe.probe": ("Probe", "drain_records"),
            "tensortap.probe.snapshot": ("CompareFailed", "Snapshot"),
            "tensortap.recording": ("Recording", "record"),
            "tensortap.repeating.comparing": ("same_bits",),
            "tensortap.repeating.found": ("UnequalCall",),
            "tensortap.repeating.report": ("SameBits",),
            "tensortap.replaying.batches.batch_invariance": ("batch_invariance",),
            "tensortap.replaying.batches.report": ("BatchDependentCall", "BatchInvariance"),
            "tensortap.replaying.blame.blaming": ("blame",),
            "tensortap.replaying.blame.found": ("BlamedCall", "RefusedCall"),
            "tensortap.replaying.blame.judged": ("TensorError",),
            "tensortap.replaying.blame.report": ("Blame",),
            "tensortap.replaying.replay": ("replay",),
            "tensortap.replaying.results": ("NotReplayable", "Replayed", "ReplayedTensor"),
            "tensortap.replaying.right.report": ("ReplayedSide", "Suspect", "WhoIsRight"),
            "tensortap.replaying.right.who_is_right": ("who_is_right",),
            "tensortap.replaying.sensitivity.report": ("CallShare", "Sensitivity"),
            "tensortap.replaying.sensitivity.shares": ("sensitivity",),
            "tensortap.tracing": ("Trace", "trace"),
        },
    )

__version__ = "0.1.0"

__all__ = [
    "BatchDependentCall",
    "BatchInvariance",
    "Blame",
    "BlamedCall",
    "CallPlace",
    "CallShare",
    "Check",
    "Collective",
    "Compare",
    "CompareFailed",
    "Contribution",
    "Diff",
    "EventRecord",
    "ExportedPass",
    "FirstNonfinite",
    "FormatError",
    "Graft",
    "GraftedKey",
    "GraphBackend",
    "GraphMismatch",
    "GraphSeen",
    "Hunt",
    "HuntedSuspect",
    "Mismatch",
    "NonfiniteTensor",
    "NotReplayable",
    "Pass",
    "Passes",
    "Print",
    "Probe",
    "Rank",
    "RecordAction",
    "Recording",
    "RecoveredPass",
    "RefusedCall",
    "Replayed",
    "ReplayedSide",
    "ReplayedTensor",
    "RolloutMismatch",
    "Run",
    "SameBits",
    "ScoredToken",
    "SearchLimits",
    "Sensitivity",
    "Snapshot",
    "Spread",
    "Suspect",
    "TensorDiff",
    "TensorError",
    "TensorRecord",
    "Tolerance",
    "Trace",
    "UnequalCall",
    "Unjudged",
    "Use",
    "WhoIsRight",
    "__version__",
    "batch",
    "batch_invariance",
    "blame",
    "capture_quantized",
    "check",
    "diff",
    "drain_records",
    "export",
    "graft",
    "graph_backend",
    "hunt",
    "literals",
    "load_pass",
    "logprobs",
    "mismatch",
    "open",
    "quant",
    "record",
    "recover",
    "removed_error",
    "replay",
    "runs",
    "same_bits",
    "sensitivity",
    "trace",
    "who_is_right",
]


def __dir__() -> list[str]:
    return __all__  # also what was not asked for yet
