"""Transformers, one prompt after the other: `reference.py MODEL DTYPE PROMPTS STEPS [SHARED]`.

Prints the tokens as JSON.
"""

import json
import sys

import torch
from prompts import prompts
from transformers import AutoModelForCausalLM

directory, dtype, count, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
model = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()
texts = []
for prompt in prompts(count, int(sys.argv[5]) if len(sys.argv) > 5 else 0):
    with torch.no_grad():
        text = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=steps,
            min_new_tokens=steps,
            do_sample=False,
            pad_token_id=0,
        )
    texts.append(text[0, len(prompt) :].tolist())
print(json.dumps(texts))
