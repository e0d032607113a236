"""TensorTap records what every operator of a model really produced.

    import tensortap as tap

    with tap.record(model, "dump/"):                # every outermost forward is one pass
        model(x)

    run = tap.open("dump/")
    run.ranks[0].passes[0]["encoder.layer.0.output"]
    print(tap.diff("good/", "bad/"))                # which operator went wrong first

Importing the package does not import PyTorch; recording and loading do.
"""

from tensortap import literals, quant
from tensortap.comparing import Diff, TensorDiff, diff
from tensortap.graph.backend import GraphBackend, GraphSeen, graph_backend
from tensortap.graph.mismatch import GraphMismatch, Mismatch, SearchLimits, Tolerance
from tensortap.probe import Probe, drain_records
from tensortap.probe_actions import Compare, CompareFailed, Print, Record, Snapshot
from tensortap.quant.capturing import capture_quantized
from tensortap.reading import EventRecord, FormatError, Pass, Passes, Rank, Run, TensorRecord, Use, load_pass, open
from tensortap.recording import Recording, record
from tensortap.tracing import Trace, trace

__version__ = "0.1.0"

__all__ = [
    "Compare",
    "CompareFailed",
    "Diff",
    "EventRecord",
    "FormatError",
    "GraphBackend",
    "GraphMismatch",
    "GraphSeen",
    "Mismatch",
    "Pass",
    "Passes",
    "Print",
    "Probe",
    "Rank",
    "Record",
    "Recording",
    "Run",
    "SearchLimits",
    "Snapshot",
    "TensorDiff",
    "TensorRecord",
    "Tolerance",
    "Trace",
    "Use",
    "__version__",
    "capture_quantized",
    "diff",
    "drain_records",
    "graph_backend",
    "literals",
    "load_pass",
    "open",
    "quant",
    "record",
    "trace",
]
