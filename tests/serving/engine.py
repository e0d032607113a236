"""vLLM, all prompts at once: `engine.py MODEL DTYPE PROMPTS STEPS [OPTIONS as JSON]`. Prints the tokens as JSON."""

import json
import sys

from prompts import prompts
from vllm import LLM, SamplingParams


def make_engine(directory, dtype, epsilon=None, **options):
    """`epsilon`: other ones of norms, by name; of an engine in this process."""
    made = LLM(
        model=directory,
        skip_tokenizer_init=True,
        dtype=dtype,
        max_model_len=128,
        max_num_seqs=8,
        kv_cache_memory_bytes=64 << 20,
        **{"enforce_eager": True, "enable_prefix_caching": False} | options,
    )
    for name, value in (epsilon or {}).items():
        runner = made.llm_engine.model_executor.driver_worker.worker.model_runner
        runner.model.get_submodule(name).variance_epsilon = value
    return made


def generate(engine, count, steps, shared=0):
    """The answers. Where prompts share their beginning the first comes alone, and the others find it in the cache."""
    sampling = SamplingParams(temperature=0, max_tokens=steps, ignore_eos=True, detokenize=False, logprobs=3)
    asked = [{"prompt_token_ids": prompt} for prompt in prompts(count, shared)]
    batches = [asked[:1], asked[1:]] if shared else [asked]
    return [answer.outputs[0] for batch in batches for answer in engine.generate(batch, sampling, use_tqdm=False)]


if __name__ == "__main__":
    options = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    shared = options.pop("shared", 0)
    answers = generate(make_engine(sys.argv[1], sys.argv[2], **options), int(sys.argv[3]), int(sys.argv[4]), shared)
    print(json.dumps([list(answer.token_ids) for answer in answers]))
