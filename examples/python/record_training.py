"""Records a training loop with its gradients, and asks whether they vanish on their way back.

Statistics are enough for that, so only one layer is kept in full.

    pip install transformers
    python record_training.py [DIRECTORY]
"""

import math
import sys
import tempfile
from pathlib import Path

import tensortap as tap
import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS = 4
STEPS = 6


def main(directory: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=4
    )
    model = LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, 64, (4, 12))

    recording = tap.record(
        model,
        directory,
        roles=("out", "grad_out", "grad_in"),
        level={r"layers\.3\.mlp": "full", ".*": "fingerprint"},  # the first pattern found in a name counts
        step="manual",
        steps="0,5-",  # the others cost next to nothing
    )
    with recording:
        for _ in range(STEPS):
            with recording.step():  # forward and backward in one pass
                loss = model(input_ids=tokens, labels=tokens).loss
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    (rank,) = tap.open(directory).ranks
    for number, recorded in rank.passes.items():
        print(f"step {number}: root mean square of the gradients of each layer's output")
        sizes = [rms(recorded.record(f"model.layers.{i}.mlp.down_proj@grad_out")) for i in range(LAYERS)]
        print("  " + "  ".join(f"{size:.2e}" for size in sizes))
        print(f"  they {'vanish' if min(sizes) < 1e-3 * max(sizes) else 'do not vanish'}")

    last = rank.passes[-1]
    kept = {record.name for record in last.records if record.has_bytes}
    print("kept in full:", ", ".join(sorted(kept)))
    passed_back = last["model.layers.3.mlp.down_proj@grad_in/0"]
    print(f"what down_proj passes back to its input: {list(passed_back.shape)}")


def rms(record: tap.TensorRecord) -> float:
    """From the statistics, which every level but `meta` has."""
    assert record.stats is not None
    return record.stats["l2"] / math.sqrt(record.stats["count"])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ttap-")))
