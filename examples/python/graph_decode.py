"""A decode loop under a CUDA graph, with every replay recorded: a Llama that writes one token after the other.

    python graph_decode.py [DIRECTORY]

The step is captured once and replayed for each token. Fingerprints of every operator's output are taken inside the
graph, and the same steps run eagerly: the comparison says whether the graph computes what the model does. Without a GPU
there are no CUDA graphs: the loop then runs eagerly on the CPU, and is recorded all the same.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import cast

import tensortap as tap
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

TOKENS = 8


def small_llama(device: str) -> nn.Module:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
        vocab_size=256, use_cache=False,
    )  # fmt: skip
    model = cast("nn.Module", LlamaForCausalLM(config))  # the `to` of Transformers has lost its types
    return model.to(device).eval()


class Step:
    """One step of the loop: the window of the last tokens in, the next token out, both in fixed memory."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self._model = model
        self._window = torch.zeros(1, TOKENS, dtype=torch.long, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None

    def _run(self) -> None:
        token = self._model(self._window).logits[0, -1].argmax()
        self._window.copy_(torch.cat([self._window[:, 1:], token.view(1, 1)], 1))

    def capture(self) -> None:
        with torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._run()  # warm: libraries choose their kernels
            torch.cuda.current_stream().wait_stream(side)
            self._window.zero_()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._run()
            self._window.zero_()

    def __call__(self) -> int:
        if self._graph is not None:
            self._graph.replay()
        else:
            with torch.no_grad():
                self._run()
        return int(self._window[0, -1])


def decode(directory: Path, *, graphs: bool, device: str) -> list[int]:
    model = small_llama(device)
    step = Step(model, device)
    with tap.record(model, directory, ops=True, level="fingerprint", report=False):
        if graphs:
            step.capture()
        return [step() for _ in range(TOKENS)]


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="graph-decode-"))
    eager = decode(directory / "eager", graphs=False, device=device)
    print(f"eager on {device}: {eager}")
    if device == "cpu":
        print("no GPU: no graph was captured")
        return
    replayed = decode(directory / "graph", graphs=True, device=device)
    passes = tap.open(directory / "graph").ranks[0].passes
    print(f"replayed: {replayed}, in {len(passes)} passes: the warm-up, the capture, and a replay for each token")
    result = tap.diff(directory / "eager", directory / "graph", passes="0:2")
    print(f"the first step, eager against replayed: {'the same' if result.same else result}")


if __name__ == "__main__":
    main()
