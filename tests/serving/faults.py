"""vLLM with one fault at a time: `faults.py MODEL DTYPE OUT`. Each goes into a recording OUT/NUMBER.

Prints one JSON line for each: the number, the fault, and the module where it is. The first is without a fault, and says
whether recording changed what the engine answers.
"""

import json
import sys
from pathlib import Path

import tensortap as tap
import torch
from engine import generate, make_engine
from prompts import prompts
from safetensors.torch import load_file
from tensortap.engines import vllm as adapter

adapter.register()  # vLLM finds it by itself where the package is installed
PROMPTS, STEPS = 3, 4
QKV, GATE_UP = ["q_proj", "k_proj", "v_proj"], ["gate_proj", "up_proj"]

directory, dtype, out = sys.argv[1], getattr(torch, sys.argv[2]), Path(sys.argv[3])
engine = make_engine(directory, sys.argv[2])
model = engine.llm_engine.model_executor.driver_worker.worker.model_runner.model
layers = model.model.layers
weights = load_file(Path(directory) / "model.safetensors")


def replaced(owner, name, value):
    """Sets an attribute; returns what puts it back."""
    was = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, was)


def linear(name, parts, edit):
    """Other weights behind a linear layer, whose own are packed for a kernel."""
    parent = name.rpartition(".")[0]
    pieces = [weights[f"{parent}.{part}.weight"].clone() for part in parts]
    edit(*pieces)
    weight = torch.cat(pieces).to(dtype)
    return replaced(
        model.get_submodule(name), "cpu_linear", lambda x, _, bias: torch.nn.functional.linear(x, weight, bias)
    )


def parameter(tensor, edit):
    was = tensor.data.clone()
    edit(tensor.data)
    return lambda: tensor.data.copy_(was)


def computes(module, function):
    """What a module computes, beneath its hooks: function(what it computed before, *arguments)."""
    name = "_forward_method" if hasattr(module, "_forward_method") else "forward"
    before = getattr(module, name)
    return replaced(module, name, lambda *args, **kwargs: function(before, *args, **kwargs))


def rope(theta):
    rotary = layers[0].self_attn.rotary_emb
    was = rotary.cos_sin_cache.clone()
    base, rotary.base = rotary.base, theta
    rotary.cos_sin_cache.copy_(rotary._compute_cos_sin_cache())
    rotary.base = base
    return lambda: rotary.cos_sin_cache.copy_(was)


def swap(weight):
    weight[[3, 7]] = weight[[7, 3]].clone()


def epsilon(norms):
    undo = [replaced(norm, "variance_epsilon", 1e-2) for norm in norms]
    return lambda: [each() for each in undo]


def halves(x):
    return x.chunk(2, -1)


attention = layers[1].self_attn.attn.impl
norms = [module for module in model.modules() if type(module).__name__.endswith("RMSNorm")]
FAULTS = [
    ("none", "", lambda: lambda: None),
    ("rows of k_proj swapped", "layers.1.self_attn.k_proj",
     lambda: linear("model.layers.1.self_attn.qkv_proj", QKV, lambda q, k, v: swap(k))),
    ("a row of q_proj scaled", "layers.0.self_attn.q_proj",
     lambda: linear("model.layers.0.self_attn.qkv_proj", QKV, lambda q, k, v: q[5].mul_(1.5))),
    ("a row of v_proj negated", "layers.2.self_attn.v_proj",
     lambda: linear("model.layers.2.self_attn.qkv_proj", QKV, lambda q, k, v: v[1].neg_())),
    ("rows of up_proj swapped", "layers.0.mlp.up_proj",
     lambda: linear("model.layers.0.mlp.gate_up_proj", GATE_UP, lambda gate, up: swap(up))),
    ("gate_proj scaled", "layers.1.mlp.gate_proj",
     lambda: linear("model.layers.1.mlp.gate_up_proj", GATE_UP, lambda gate, up: gate.mul_(1.02))),
    ("a column of o_proj zero", "layers.1.self_attn.o_proj",
     lambda: linear("model.layers.1.self_attn.o_proj", ["o_proj"], lambda o: o[:, 9].zero_())),
    ("down_proj scaled", "layers.2.mlp.down_proj",
     lambda: linear("model.layers.2.mlp.down_proj", ["down_proj"], lambda down: down.mul_(1.02))),
    ("epsilon of all norms", "layers.0.input_layernorm", lambda: epsilon(norms)),
    ("epsilon of one norm", "layers.1.post_attention_layernorm",
     lambda: epsilon([layers[1].post_attention_layernorm])),
    ("weight of a norm", "layers.2.input_layernorm",
     lambda: parameter(layers[2].input_layernorm.weight, lambda weight: weight[4].mul_(1.3))),
    ("weight of the last norm", "model.norm",
     lambda: parameter(model.model.norm.weight, lambda weight: weight.mul_(1.01))),
    ("theta of the rotary embedding", "layers.0.self_attn.o_proj", lambda: rope(5000.0)),
    ("scale of attention", "layers.1.self_attn.o_proj", lambda: replaced(attention, "scale", attention.scale * 1.05)),
    ("a row of the embedding", "embed_tokens",
     lambda: parameter(model.model.embed_tokens.weight, lambda weight: weight[prompts(1)[0][2]].mul_(1.1))),
    ("gelu for silu", "layers.0.mlp.act_fn",
     lambda: computes(layers[0].mlp.act_fn, lambda _, x: torch.nn.functional.gelu(halves(x)[0]) * halves(x)[1])),
    ("halves of the activation swapped", "layers.1.mlp.act_fn",
     lambda: computes(layers[1].mlp.act_fn, lambda was, x: was(torch.cat(halves(x)[::-1], -1)))),
    ("logits scaled", "lm_head",
     lambda: computes(model.logits_processor, lambda was, *args, **kwargs: was(*args, **kwargs) * 1.01)),
    ("a norm rounded to bf16", "layers.0.post_attention_layernorm",
     lambda: computes(layers[0].post_attention_layernorm,
                      lambda was, *args: (lambda y, residual: (y.bfloat16().to(y.dtype), residual))(*was(*args)))),
]  # fmt: skip

for number, (name, module, plant) in enumerate(FAULTS):
    told = {"number": number, "fault": name, "module": module}
    undo = plant()
    if not module:
        plain = [(list(answer.token_ids), str(answer.logprobs)) for answer in generate(engine, PROMPTS, STEPS)]
    with tap.record(None, out / str(number), report=False):
        answers = [(list(answer.token_ids), str(answer.logprobs)) for answer in generate(engine, PROMPTS, STEPS)]
    undo()
    if not module:
        told["same"] = answers == plain
    print(json.dumps(told), flush=True)
