"""A training step of Transformers on what an engine answered: `trainer.py MODEL ANSWERS`, those to all prompts."""

import json
import sys
from pathlib import Path

import torch
from prompts import prompts
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
answers = json.loads(Path(sys.argv[2]).read_text())
texts = [prompt + answer for prompt, answer in zip(prompts(len(answers)), answers, strict=True)]
longest = max(map(len, texts))
ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss.backward()
