"""Records a small serving engine: two models, steps of its own, a worker thread, and a request that fails.

The models have random weights; what is recorded is what matters here.

    pip install transformers
    python record_serving.py [DIRECTORY]
"""

import sys
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tensortap as tap
import torch
from torch import nn
from transformers import BertConfig, BertModel


class Engine:
    """Classifies requests, one in each step. The encoder runs on a worker thread, the head on the caller's."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
        )
        self.encoder = BertModel(config, add_pooling_layer=False).eval()
        self.head = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
        self.requests: deque[list[int]] = deque()
        self._worker = ThreadPoolExecutor(max_workers=1)

    def step(self) -> int:
        """Answers the next request."""
        tokens = self.requests.popleft()
        hidden = self._worker.submit(self._encode, tokens).result()
        if tokens[-1] != 1:
            raise ValueError(f"the request {tokens} does not end in 1")
        with torch.no_grad():
            return int(self.head(hidden[:, 0]).argmax())

    @torch.no_grad()
    def _encode(self, tokens: list[int]) -> torch.Tensor:
        hidden: torch.Tensor = self.encoder(input_ids=torch.tensor([tokens])).last_hidden_state
        return hidden


def main(directory: Path) -> None:
    engine = Engine()
    engine.requests += [[2, 7, 9, 1], [2, 8, 8], [2, 5, 1]]
    recording = tap.record(
        {"encoder": engine.encoder, "head": engine.head},  # these names come first in the keys
        directory,
        step="manual",  # a pass is what happens between entering and leaving recording.step(), on any thread
        filter=[r"^head\.", r"output\.dense$"],
    )
    with recording:
        number: int | None = None
        while engine.requests:
            try:
                with recording.step() as number:
                    answer: object = engine.step()
            except ValueError as error:
                answer = error
            print(f"step {number}: {answer}")

    (rank,) = tap.open(directory).ranks
    for number, recorded in rank.passes.items():
        threads = {event.thread for event in recorded.events}
        print(f"pass {number}: {recorded.ending}, tensors: {len(recorded)}, threads: {len(threads)}")
    print("\n".join(rank.passes[-1]))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ttap-")))
