"""SGLang, all prompts at once: `sglang_engine.py MODEL DTYPE PROMPTS STEPS [OPTIONS as JSON]`. Prints the tokens."""

import json
import sys

import sglang
from prompts import prompts


def generate(directory, dtype, count, steps, **options):
    engine = sglang.Engine(
        model_path=directory,
        skip_tokenizer_init=True,
        dtype=dtype,
        device="cpu",
        attention_backend="torch_native",
        disable_cuda_graph=True,
        context_length=128,
        max_total_tokens=4096,
        max_running_requests=8,
        mem_fraction_static=0.2,
        log_level="error",
        **{"disable_radix_cache": True} | options,
    )
    sampling = {"temperature": 0, "max_new_tokens": steps, "ignore_eos": True}
    answers = engine.generate(input_ids=prompts(count), sampling_params=sampling)
    engine.shutdown()
    return [answer["output_ids"] for answer in answers]


if __name__ == "__main__":  # its processes import this file
    chosen = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    print(json.dumps(generate(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), **chosen)))
