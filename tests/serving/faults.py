"""vLLM with one fault at a time: `faults.py MODEL DTYPE OUT [ROLES]`. Each goes into a recording OUT/NUMBER.

Prints one JSON line for each: the number, the fault, the module where it is, and by how much the logits changed. What
no module returns (rotary embedding, experts, residuals) is said to be at the module that takes it in, with the argument
where it is recorded. The first is without a fault, and says whether recording changed what the engine answers.
"""

import dataclasses
import json
import sys
from pathlib import Path

import tensortap as tap
import torch
from engine import generate, make_engine
from prompts import prompts
from safetensors.torch import load_file
from tensortap.engines import vllm as adapter
from torch.nn import functional

adapter.register()  # vLLM finds it by itself where the package is installed
PROMPTS, STEPS = 3, 4
PARTS = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}

directory, dtype, out = sys.argv[1], getattr(torch, sys.argv[2]), Path(sys.argv[3])
roles = sys.argv[4].split(",") if len(sys.argv) > 4 else ["out"]
engine = make_engine(directory, sys.argv[2])
model = engine.llm_engine.model_executor.driver_worker.worker.model_runner.model
layers = model.model.layers
weights = load_file(Path(directory) / "model.safetensors")
gemma = hasattr(model.model, "normalizer")


def replaced(owner, name, value):
    """Sets an attribute; returns what puts it back."""
    was = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, was)


def all_of(*undo):
    return lambda: [each() for each in undo]


def linear(name, edit, bias=None):
    """Other weights behind a linear layer, whose own are packed for a kernel."""
    parent, _, last = name.rpartition(".")
    names = [f"{parent}.{part}.weight" if parent else f"{part}.weight" for part in PARTS.get(last, [last])]
    pieces = [weights.get(each, weights["model.embed_tokens.weight"]).clone() for each in names]
    edit(*pieces)
    weight = torch.cat(pieces).to(dtype)
    return replaced(model.get_submodule(name), "cpu_linear", lambda x, *_: functional.linear(x, weight, bias))


def qkv(layer, edit, bias=None):
    return linear(f"model.layers.{layer}.self_attn.qkv_proj", edit, bias)


def gate_up(layer, edit):
    return linear(f"model.layers.{layer}.mlp.gate_up_proj", edit)


def o_proj(layer, edit):
    return linear(f"model.layers.{layer}.self_attn.o_proj", edit)


def down(layer, edit):
    return linear(f"model.layers.{layer}.mlp.down_proj", edit)


def parameter(tensor, edit):
    was = tensor.data.clone()
    edit(tensor.data)
    return lambda: tensor.data.copy_(was)


def computes(module, function):
    """What a module computes, beneath its hooks: function(what it computed before, *arguments)."""
    name = "_forward_method" if hasattr(module, "_forward_method") else "forward"
    before = getattr(module, name)
    return replaced(module, name, lambda *args, **kwargs: function(before, *args, **kwargs))


def swap(weight, a=3, b=7):
    weight[[a, b]] = weight[[b, a]].clone()


def exchange(one, other):
    was = one.clone()
    one.copy_(other)
    other.copy_(was)


def heads(weight, order):
    """The heads of a projection in another order."""
    weight.copy_(weight.view(len(order), -1, weight.shape[-1])[order].reshape(weight.shape))


def interleaved(weight):
    """The rows of each head as a rotary embedding of neighbours wants them."""
    weight.copy_(weight.view(-1, 2, 16, weight.shape[-1]).transpose(1, 2).reshape(weight.shape))


def four_bits(weight):
    scale = weight.abs().amax(-1, keepdim=True) / 7
    weight.copy_((weight / scale).round() * scale)


def fp8(x):
    return x.to(torch.float8_e4m3fn).to(x.dtype)


def halves(x):
    return x.chunk(2, -1)


# Norms: those of a layer add the residual first, and return the sum, too.


def epsilon(*norms):
    return all_of(*(replaced(norm, "variance_epsilon", 1e-2) for norm in norms))


def adds(norm, factor):
    """A norm that adds the residual so many times."""
    return computes(norm, lambda was, x, residual: was(x, residual * factor))


def normalizes(norm, edit):
    """A norm of something else than the sum, which goes on as it should."""

    def function(was, x, residual):
        total = x + residual
        return was(edit(total), torch.zeros_like(total))[0], total

    return computes(norm, function)


def results(norm, edit):
    return computes(norm, lambda was, x, residual: edit(*was(x, residual)))


# Rotary embedding: all layers have the same.
rotary = layers[0].self_attn.rotary_emb


def angles(edit):
    """Other angles: edit(those for each position and frequency)."""
    t = torch.arange(rotary.max_position_embeddings, dtype=torch.float)
    freqs = edit(t[:, None] * rotary._compute_inv_freq(rotary.base))
    return parameter(rotary.cos_sin_cache, lambda cache: cache.copy_(torch.cat([freqs.cos(), freqs.sin()], -1)))


def theta(base):
    freqs = rotary._compute_inv_freq(base) / rotary._compute_inv_freq(rotary.base)
    return angles(lambda angle: angle * freqs)


def rotates(function):
    """function(what it computes, positions, query, key)"""
    return computes(rotary, function)


def half_of_each_head(was, positions, *states):
    """Only the first half of each head is rotated."""
    before = [x.clone() for x in states]
    after = was(positions, *states)
    for x, old in zip(after, before, strict=True):
        x.view(len(x), -1, 32)[..., 16:] = old.view(len(x), -1, 32)[..., 16:]
    return after


def decoding(rows):
    return len(rows) <= PROMPTS


# Attention of layer 1, beneath its module: what it reads, and what it puts into the cache.
attention, cache = layers[1].self_attn.attn.impl, layers[1].self_attn.attn.kv_cache


def attends(query=lambda x: x, result=lambda x: x, told=lambda metadata: {}, reads=cache):
    """Attention with another query, result, cache, or other metadata."""
    before = attention.forward

    def forward(layer, q, k, v, _, metadata, output, **kwargs):
        metadata = dataclasses.replace(metadata, **told(metadata))
        before(layer, query(q), k, v, reads, metadata, output=output, **kwargs)
        return output.copy_(result(output.clone()))

    return replaced(attention, "forward", forward)


def caches(function):
    """function(write, key, value, slots), where write(key, value, slots) is what it should do."""
    before = attention.do_kv_cache_update

    def update(layer, k, v, cache, slots):
        function(lambda *what: before(layer, *what[:2], cache, what[2]), k, v, slots)

    return replaced(attention, "do_kv_cache_update", update)


def edited(rows, edit):
    rows = rows.clone()
    edit(rows)
    return rows


def overwritten():
    """The row of one token in the cache is lost after the prompt has been read."""
    lost = []

    def function(write, k, v, slots):
        if not decoding(slots):
            lost[:] = [slots[4:5].clone()]
        elif lost:
            write(torch.zeros_like(k[:1]), torch.zeros_like(v[:1]), lost.pop())
        write(k, v, slots)

    return caches(function)


def also_the_one_before(write, k, v, slots):
    write(k, v, slots)
    if decoding(slots):
        write(k, v, slots - 1)


def wrong_block(metadata):
    """Request 0 reads what belongs to request 1."""
    return {"block_table": edited(metadata.block_table, lambda rows: rows[0].copy_(rows[1]))}


def attn(layer, tensor):
    """The tensor of attention in which a fault shows first, where its role is recorded."""
    return f"layers.{layer}.self_attn.attn" + (f"@{tensor}" if tensor.split("/")[0] in roles else "")


order = [0, 2, 1, 3]  # of query heads, if those of one group were not neighbours


# Experts of layer 1.


def routes(function):
    """function(weights, experts, logits): other weights, other experts."""
    router = layers[1].mlp.experts.router
    before = router._compute_routing

    def routing(hidden, logits, *args, **kwargs):
        chosen = function(*before(hidden, logits, *args, **kwargs), logits)
        return chosen[0].float().contiguous(), chosen[1].int().contiguous()

    return replaced(router, "_compute_routing", routing)


def router(name, value):
    return replaced(layers[1].mlp.experts.router, name, value)


def experts(edit, *names):
    """Other weights of experts, packed as they are."""
    routed = layers[1].mlp.experts.routed_experts
    return all_of(*(parameter(getattr(routed, f"{name}_weight"), edit) for name in names))


def of_the_block(edit):
    return computes(layers[1].mlp.experts, lambda was, *args, **kwargs: edit(was(*args, **kwargs)))


def logits(edit):
    return computes(model.logits_processor, lambda was, *args, **kwargs: edit(was(*args, **kwargs)))


def exchanged_layers():
    one, other = layers[1].forward, layers[2].forward
    return all_of(replaced(layers[1], "forward", other), replaced(layers[2], "forward", one))


def twice(was, positions, hidden, residual):
    """A layer that is computed again from its own result; the cache keeps what is of the first time."""
    once = was(positions, hidden, residual)
    undo = caches(lambda write, *_: None)
    again = was(positions, *once)
    undo()
    return again


norms = [module for module in model.modules() if type(module).__name__.endswith("RMSNorm")]
embedding = model.model.embed_tokens
token = prompts(1)[0][2]
FAULTS = [
    ("none", "", lambda: lambda: None),
    # Projections
    ("rows of k_proj swapped", "layers.1.self_attn.k_proj", lambda: qkv(1, lambda q, k, v: swap(k))),
    ("a row of q_proj scaled", "layers.0.self_attn.q_proj", lambda: qkv(0, lambda q, k, v: q[5].mul_(1.5))),
    ("a row of v_proj negated", "layers.2.self_attn.v_proj", lambda: qkv(2, lambda q, k, v: v[1].neg_())),
    ("heads of q_proj in another order", "layers.2.self_attn.q_proj", lambda: qkv(2, lambda q, k, v: heads(q, order))),
    ("heads of k_proj exchanged", "layers.3.self_attn.k_proj", lambda: qkv(3, lambda q, k, v: heads(k, [1, 0]))),
    ("k_proj and v_proj exchanged", "layers.2.self_attn.k_proj", lambda: qkv(2, lambda q, k, v: exchange(k, v))),
    ("rows of q_proj interleaved", "layers.0.self_attn.q_proj", lambda: qkv(0, lambda q, k, v: interleaved(q))),
    ("v_proj in fp8", "layers.1.self_attn.v_proj", lambda: qkv(1, lambda q, k, v: v.copy_(fp8(v)))),
    ("a bias of v_proj", "layers.2.self_attn.v_proj",
     lambda: qkv(2, lambda q, k, v: None, torch.cat([torch.zeros(192), torch.full((64,), 0.1)]).to(dtype))),
    ("a column of o_proj zero", "layers.1.self_attn.o_proj", lambda: o_proj(1, lambda o: o[:, 9].zero_())),
    ("o_proj transposed", "layers.2.self_attn.o_proj", lambda: o_proj(2, lambda o: o.copy_(o.t().clone()))),
    # Norms and residuals
    ("epsilon of all norms", "layers.0.input_layernorm", lambda: epsilon(*norms)),
    ("epsilon of one norm", "layers.1.post_attention_layernorm",
     lambda: epsilon(layers[1].post_attention_layernorm)),
    ("weight of a norm", "layers.2.input_layernorm",
     lambda: parameter(layers[2].input_layernorm.weight, lambda weight: weight[4].add_(0.3))),
    ("no weight of a norm", "layers.1.input_layernorm",
     lambda: parameter(layers[1].input_layernorm.weight, lambda weight: weight.fill_(0 if gemma else 1))),
    ("a norm with weight plus one, or without it", "layers.3.post_attention_layernorm",
     lambda: parameter(layers[3].post_attention_layernorm.weight, lambda weight: weight.add_(-1 if gemma else 1))),
    ("weight of the last norm", "model.norm",
     lambda: parameter(model.model.norm.weight, lambda weight: weight.add_(0.01))),
    ("a norm that subtracts the mean", "layers.2.post_attention_layernorm",
     lambda: normalizes(layers[2].post_attention_layernorm, lambda x: x - x.mean(-1, keepdim=True))),
    ("a norm of the first half", "layers.1.post_attention_layernorm",
     lambda: results(layers[1].post_attention_layernorm, lambda y, total: (
         y * total.pow(2).mean(-1, keepdim=True).sqrt() / halves(total)[0].pow(2).mean(-1, keepdim=True).sqrt(),
         total))),
    ("a residual dropped", "layers.1.post_attention_layernorm",
     lambda: adds(layers[1].post_attention_layernorm, 0)),
    ("a residual doubled", "layers.2.input_layernorm", lambda: adds(layers[2].input_layernorm, 2)),
    ("the residual dropped before the last norm", "model.norm", lambda: adds(model.model.norm, 0)),
    ("the residual is what was normalized", "layers.2.input_layernorm",
     lambda: results(layers[1].post_attention_layernorm, lambda y, total: (y, y.clone()))),
    # Layers
    ("a layer without effect", "layers.3.input_layernorm",
     lambda: computes(layers[2], lambda was, positions, *states: (
         was(positions, *(x.clone() for x in states)), states)[1])),
    ("a layer skipped", "layers.2.input_layernorm", lambda: computes(layers[1], lambda was, _, *states: states)),
    ("a layer computed twice", "layers.2.input_layernorm", lambda: computes(layers[1], twice)),
    ("two layers exchanged", "layers.1.input_layernorm", exchanged_layers),
    # Rotary embedding
    ("theta of the rotary embedding", attn(0, "in/0"), lambda: theta(5000.0)),
    ("linear scaling of the rotary embedding", attn(0, "in/0"), lambda: angles(lambda angle: angle / 2)),
    ("low frequencies of the rotary embedding scaled", attn(0, "in/0"),
     lambda: angles(lambda angle: angle * torch.where(torch.arange(16) < 8, 1.0, 0.25))),
    ("the rotary embedding turns the other way", attn(0, "in/0"), lambda: angles(torch.neg)),
    ("the rotary embedding of neighbours", attn(0, "in/0"),
     lambda: replaced(rotary, "is_neox_style", False)),
    ("the rotary embedding of half the head", attn(0, "in/0"), lambda: rotates(half_of_each_head)),
    ("keys without the rotary embedding", attn(0, "in/1"),
     lambda: rotates(lambda was, positions, q, k: (was(positions, q, k.clone())[0], k))),
    ("the position after the prompt off by one", attn(0, "in/0"),
     lambda: rotates(lambda was, positions, *states: was(positions + decoding(positions), *states))),
    ("positions after a chunk off by one", attn(0, "in/0"),
     lambda: rotates(lambda was, positions, *states: was(positions + (positions >= 8), *states))),
    # Attention
    ("scale of attention", "layers.1.self_attn.attn", lambda: replaced(attention, "scale", attention.scale * 1.05)),
    ("softcap of attention", "layers.1.self_attn.attn", lambda: replaced(attention, "logits_soft_cap", 2.0)),
    ("a sliding window", "layers.1.self_attn.attn", lambda: replaced(attention, "sliding_window", 8)),
    ("attention that is not causal", "layers.1.self_attn.attn",
     lambda: attends(told=lambda metadata: {"causal": False})),
    ("slopes of attention", "layers.1.self_attn.attn",
     lambda: replaced(attention, "alibi_slopes", torch.tensor([0.1, 0.05, 0.025, 0.0125]))),
    ("a sink of attention", "layers.1.self_attn.attn", lambda: replaced(attention, "sinks", torch.zeros(4))),
    ("groups of query heads", "layers.1.self_attn.attn",
     lambda: attends(query=lambda x: x[:, order].contiguous(), result=lambda x: x[:, order])),
    ("heads of the result exchanged", "layers.1.self_attn.attn", lambda: attends(result=lambda x: x.flip(1))),
    ("the last row of attention zero", "layers.1.self_attn.attn",
     lambda: attends(result=lambda x: edited(x, lambda rows: rows[-1].zero_()))),
    ("a NaN of attention", "layers.1.self_attn.attn",
     lambda: attends(result=lambda x: edited(x, lambda rows: rows[1, 2, 3].fill_(torch.nan)))),
    # Cache
    ("heads of keys exchanged in the cache", attn(1, "cache/key"),
     lambda: caches(lambda write, k, v, slots: write(k.flip(1), v, slots))),
    ("a wrong slot of the cache", attn(1, "cache/key"),
     lambda: caches(lambda write, k, v, slots: write(k, v, edited(slots, lambda rows: swap(rows, 0, 1))))),
    ("a row of the cache overwritten", "layers.1.self_attn.attn", overwritten),
    ("a new token overwrites the one before", "layers.1.self_attn.attn", lambda: caches(also_the_one_before)),
    ("the cache in fp8", attn(1, "cache/key"),
     lambda: caches(lambda write, k, v, slots: write(fp8(k), fp8(v), slots))),
    ("the block of another request", "layers.1.self_attn.attn", lambda: attends(told=wrong_block)),
    ("the cache of another layer", "layers.1.self_attn.attn",
     lambda: attends(reads=layers[0].self_attn.attn.kv_cache)),
    # Embedding and head
    ("a row of the embedding", "embed_tokens",
     lambda: parameter(embedding.weight, lambda weight: weight[token].mul_(1.1))),
    ("the embedding of the next token", "embed_tokens",
     lambda: computes(embedding, lambda was, ids: was(torch.where(ids == token, ids + 1, ids)))),
    ("logits scaled", "lm_head", lambda: logits(lambda x: x * 1.01)),
    ("softcap of the logits", "lm_head", lambda: replaced(model.logits_processor, "soft_cap", 10.0)),
    ("rows of the head swapped", "lm_head", lambda: linear("lm_head", lambda head: swap(head))),
    ("a row of the head zero", "lm_head", lambda: linear("lm_head", lambda head: head[11].zero_())),
    ("logits of another request", "lm_head", lambda: logits(lambda x: x.roll(1, 0))),
]  # fmt: skip

if dtype == torch.float32:
    FAULTS += [
        ("a norm rounded to bf16", "layers.0.post_attention_layernorm",
         lambda: results(layers[0].post_attention_layernorm, lambda y, total: (y.bfloat16().to(y.dtype), total))),
        ("a norm of what was rounded to bf16", "layers.3.input_layernorm",
         lambda: normalizes(layers[3].input_layernorm, lambda x: x.bfloat16().to(x.dtype))),
        ("keys rounded to bf16 in the cache", attn(1, "cache/key"),
         lambda: caches(lambda write, k, v, slots: write(k.bfloat16().to(k.dtype), v, slots))),
    ]  # fmt: skip

if hasattr(layers[0].mlp, "act_fn"):
    act_fn = [layer.mlp.act_fn for layer in layers]
    shared = act_fn[0] is act_fn[1]  # by all layers of Gemma: then the first is wrong, too
    FAULTS += [
        ("rows of up_proj swapped", "layers.0.mlp.up_proj", lambda: gate_up(0, lambda gate, up: swap(up))),
        ("gate_proj scaled", "layers.1.mlp.gate_proj", lambda: gate_up(1, lambda gate, up: gate.mul_(1.02))),
        ("gate_proj and up_proj exchanged", "layers.2.mlp.gate_proj", lambda: gate_up(2, exchange)),
        ("up_proj in four bits", "layers.1.mlp.up_proj", lambda: gate_up(1, lambda gate, up: four_bits(up))),
        ("down_proj scaled", "layers.2.mlp.down_proj", lambda: down(2, lambda weight: weight.mul_(1.02))),
        ("down_proj of another layer", "layers.0.mlp.down_proj",
         lambda: down(0, lambda weight: weight.copy_(weights["model.layers.1.mlp.down_proj.weight"]))),
        ("silu for gelu" if gemma else "gelu for silu", "layers.0.mlp.act_fn",
         lambda: computes(act_fn[0], lambda _, x: (
             functional.silu if gemma else functional.gelu)(halves(x)[0]) * halves(x)[1])),
        ("halves of the activation swapped", f"layers.{0 if shared else 1}.mlp.act_fn",
         lambda: computes(act_fn[1], lambda was, x: was(torch.cat(halves(x)[::-1], -1)))),
        ("the activation clamped", f"layers.{0 if shared else 2}.mlp.act_fn",
         lambda: computes(act_fn[2], lambda was, x: was(x).clamp(-1, 1))),
    ]  # fmt: skip

if hasattr(layers[0].self_attn, "q_norm"):
    q_norm, k_norm = layers[1].self_attn.q_norm, layers[2].self_attn.k_norm
    FAULTS += [
        ("epsilon of a norm of queries", "layers.1.self_attn.q_norm", lambda: epsilon(q_norm)),
        ("no norm of keys", "layers.2.self_attn.k_norm", lambda: computes(k_norm, lambda was, x: x)),
        ("weight of a norm of keys", "layers.2.self_attn.k_norm",
         lambda: parameter(k_norm.weight, lambda weight: weight[3].mul_(1.2))),
        ("a norm of all heads together", "layers.1.self_attn.q_norm",
         lambda: computes(q_norm, lambda was, x: functional.rms_norm(x, x.shape[1:]) * q_norm.weight)),
    ]  # fmt: skip

if gemma:
    FAULTS += [
        ("the factor of the embedding rounded", "embed_tokens",
         lambda: parameter(model.model.normalizer, lambda factor: factor.fill_(11.25))),
        ("the embedding not scaled", "layers.0.input_layernorm",
         lambda: replaced(model.model, "embed_input_ids", lambda ids: embedding(ids))),
        ("gelu for its approximation", "layers.0.mlp.act_fn",
         lambda: computes(layers[0].mlp.act_fn, lambda _, x: functional.gelu(halves(x)[0]) * halves(x)[1])),
    ]  # fmt: skip

if hasattr(layers[0].mlp, "experts"):
    behind = "layers.2.input_layernorm"  # the first that takes in what the experts of layer 1 made
    gate = "model.layers.1.mlp.gate"
    weights_of, chosen = "layers.1.mlp.gate/1", "layers.1.mlp.gate/2"  # of the experts, and which
    FAULTS += [
        ("a row of the router", "layers.1.mlp.gate/0", lambda: linear(gate, lambda weight: weight[2].mul_(1.3))),
        ("rows of the router swapped", "layers.1.mlp.gate/0", lambda: linear(gate, lambda weight: swap(weight, 1, 2))),
        ("a bias of the router", "layers.1.mlp.gate/0",
         lambda: linear(gate, lambda weight: None, (torch.arange(8) / 40).to(dtype))),
        ("too few experts", weights_of, lambda: router("top_k", 1)),
        ("too many experts", weights_of, lambda: router("top_k", 3)),
        ("weights of experts that do not add up to one", weights_of, lambda: router("renormalize", False)),
        ("even weights of experts", weights_of, lambda: routes(lambda w, ids, _: (torch.full_like(w, 0.5), ids))),
        ("weights of experts by sigmoid", weights_of,
         lambda: routes(lambda w, ids, x: (x.sigmoid().gather(1, ids.long()), ids))),
        ("weights of the two experts exchanged", weights_of, lambda: routes(lambda w, ids, _: (w.flip(1), ids))),
        ("the wrong experts", chosen, lambda: routes(lambda w, ids, _: (w, (ids + 1) % 8))),
        ("the least of experts", chosen, lambda: routes(lambda w, ids, x: (w, (-x).topk(2).indices))),
        ("an expert without room", weights_of, lambda: routes(lambda w, ids, _: (w * (ids != 3), ids))),
        ("weights of one expert", behind, lambda: experts(lambda w: w[2].mul_(1.1), "w13")),
        ("weights of one expert zero", behind, lambda: experts(lambda w: w[5].zero_(), "w2")),
        ("two experts swapped", behind, lambda: experts(lambda w: swap(w, 1, 6), "w13", "w2")),
        ("results of experts scaled", behind, lambda: of_the_block(lambda x: x * 1.05)),
    ]  # fmt: skip


def answers():
    """What the engine answers, and the logits of each step."""
    seen = []

    def compute_logits(*args, **kwargs):
        seen.append(before(*args, **kwargs))
        return seen[-1]

    before = model.compute_logits
    undo = replaced(model, "compute_logits", compute_logits)
    texts = [(list(answer.token_ids), str(answer.logprobs)) for answer in generate(engine, PROMPTS, STEPS)]
    undo()
    return texts, torch.stack([x.float() for x in seen])


plain = answers()
for number, (name, module, plant) in enumerate(FAULTS):
    for layer in layers:
        layer.self_attn.attn.kv_cache.zero_()  # kernels multiply what was left there by zero, and a NaN stays one
    undo = plant()
    with tap.record(None, out / str(number), report=False, roles=roles):
        texts, seen = answers()
    undo()
    change = (seen - plain[1]).abs().nan_to_num(torch.finfo().max).max()
    told = {"number": number, "fault": name, "module": module, "change": change.item()}
    if not module:
        told["same"] = texts == plain[0]
    print(json.dumps(told), flush=True)
assert answers()[0] == plain[0]  # no fault is left
