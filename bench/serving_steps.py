"""How much a recording holds a serving engine up: a step of prefill and a step of decode of vLLM on the CPU.

As a program it runs in the engine's own environment (scripts/setup_engine.sh) and prints seconds as JSON; measure()
starts it. The model is a Llama of 8 layers × 512 with random weights: 8 requests of 64 tokens, then 16 steps of a token
each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / ".engines/vllm/bin/python"
REQUESTS, TOKENS, STEPS, ROUNDS = 8, 64, 16, 7
WAYS: dict[str, dict[str, object] | None] = {
    "none": None,
    "full": {},
    "fingerprint": {"level": "fingerprint"},
    "ops": {"ops": True},
}


def measure(scratch: Path) -> dict[str, dict[str, float]] | None:
    """For each way the seconds of a prefill and of a decode step; None where the engine is not installed."""
    if not ENGINE.exists():
        return None
    cache = ROOT / ".engines/cache"
    settings = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "XDG_CACHE_HOME": str(cache),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT / "python"),
    }
    done = subprocess.run(
        [ENGINE, __file__, scratch / "serving"],
        env=os.environ | settings,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def save_model(directory: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=256,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(directory)


def run(scratch: Path) -> dict[str, dict[str, float]]:
    import shutil

    import tensortap as tap
    from tensortap.engines import vllm as adapter
    from vllm import LLM, SamplingParams

    adapter.register()
    save_model(scratch / "model")
    engine = LLM(
        model=str(scratch / "model"),
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=128,
        max_num_seqs=REQUESTS,
        kv_cache_memory_bytes=256 << 20,
    )
    prompts = [{"prompt_token_ids": [(37 * i + 11 * k) % 8000 for k in range(TOKENS)]} for i in range(REQUESTS)]

    def seconds(tokens: int) -> float:
        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        engine.generate(prompts, sampling, use_tqdm=False)
        return time.perf_counter() - start

    seconds(2)
    taken: dict[str, dict[str, list[float]]] = {name: {"prefill": [], "decode": []} for name in WAYS}
    for _ in range(ROUNDS):
        for name, options in WAYS.items():
            directory = scratch / name
            shutil.rmtree(directory, ignore_errors=True)
            with nullcontext() if options is None else tap.record(None, directory, report=False, **options):
                prefill = seconds(1)
                taken[name]["prefill"].append(prefill)
                taken[name]["decode"].append((seconds(1 + STEPS) - prefill) / STEPS)
    return {name: {step: statistics.median(times) for step, times in of_way.items()} for name, of_way in taken.items()}


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
