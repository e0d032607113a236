"""Stands for SGLang 0.5.23: its classes, attributes and calls as far as the adapter meets them, in a few lines each.

Like the engine it calls the model's forward() past its hooks, packs the rows of all requests, pads them, and leaves the
residual to the next norm.
"""

import dataclasses
import enum
import sys
import types

import torch
from torch import nn
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb


class ForwardMode(enum.IntEnum):
    EXTEND = 1
    DECODE = 2
    MIXED = 3
    IDLE = 4
    TARGET_VERIFY = 5


@dataclasses.dataclass
class ForwardBatch:
    forward_mode: ForwardMode
    input_ids: torch.Tensor
    positions: torch.Tensor
    rids: list | None
    extend_seq_lens_cpu: list | None = None
    extend_seq_lens: torch.Tensor | None = None
    residual: torch.Tensor | None = None

    def lengths(self):
        return self.extend_seq_lens_cpu or [1] * len(self.rids or [])


@dataclasses.dataclass
class LogitsProcessorOutput:
    next_token_logits: torch.Tensor | None
    hidden_states: torch.Tensor | None = None


# ---- layers ----


class LinearBase(nn.Module):
    def __init__(self, width, *sizes):
        super().__init__()
        self.output_sizes = list(sizes)
        self.weight = nn.Parameter(torch.empty(sum(sizes), width), requires_grad=False)
        self.packed = False

    def forward(self, x):
        return functional.linear(x, self.weight.T if self.packed else self.weight), None


class QKVParallelLinear(LinearBase):
    pass


class MergedColumnParallelLinear(LinearBase):
    pass


class RowParallelLinear(LinearBase):
    pass


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size), requires_grad=False)
        self.variance_epsilon = eps

    def forward(self, *args, **kwargs):
        return self.forward_native(*args, **kwargs)

    def forward_native(self, x, residual=None, post_residual_addition=None):
        if residual is not None:
            x = x + residual
        normed = functional.rms_norm(x, x.shape[-1:], self.weight, self.variance_epsilon)
        return normed if residual is None else (normed, x)


class SiluAndMul(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up


class VocabParallelEmbedding(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.tp_size, self.num_embeddings_padded, self.org_vocab_size = 1, vocabulary, vocabulary
        self.weight = nn.Parameter(torch.empty(vocabulary, width), requires_grad=False)

    def forward(self, ids):
        return functional.embedding(ids, self.weight)


class ParallelLMHead(VocabParallelEmbedding):
    pass


class RadixAttention(nn.Module):
    """Keeps keys and values by request."""

    def __init__(self, heads, head_dim):
        super().__init__()
        self.heads, self.head_dim, self.cache = heads, head_dim, {}

    def forward(self, q, k, v, forward_batch):
        out, first = torch.zeros_like(q), 0
        for rid, length in zip(forward_batch.rids or [], forward_batch.lengths(), strict=True):
            rows = slice(first, first + length)
            before = self.cache.get(rid, (k[:0], v[:0]))
            keys, values = (torch.cat([old, new[rows]]) for old, new in zip(before, (k, v), strict=True))
            self.cache[rid] = keys, values
            query, key, value = (x.view(len(x), -1, self.head_dim).transpose(0, 1) for x in (q[rows], keys, values))
            seen = torch.ones(length, len(keys), dtype=torch.bool).tril(len(keys) - length)
            out[rows] = (
                functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
                .transpose(0, 1)
                .flatten(1)
            )
            first += length
        return out


class LogitsProcessor(nn.Module):
    def forward(self, input_ids, hidden_states, lm_head, forward_batch):
        last = torch.tensor(forward_batch.lengths()).cumsum(0) - 1
        return LogitsProcessorOutput(functional.linear(hidden_states[last.long()], lm_head.weight))


class Sampler(nn.Module):
    def forward(self, logits_output):
        return logits_output.next_token_logits.argmax(-1)


class ClampPositionOp(nn.Module):
    def forward(self, lengths):
        return (lengths - 1).clamp(0)


# ---- models ----


class LlamaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = MergedColumnParallelLinear(config.hidden_size, *[config.intermediate_size] * 2)
        self.down_proj = RowParallelLinear(config.intermediate_size, config.hidden_size)
        self.act_fn = SiluAndMul()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_up_proj(x)[0]))[0]


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.size = config.head_dim
        self.widths = [config.head_dim * n for n in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
        self.qkv_proj = QKVParallelLinear(config.hidden_size, *self.widths)
        self.o_proj = RowParallelLinear(self.widths[0], config.hidden_size)
        self.attn = RadixAttention(config.num_attention_heads, config.head_dim)

    def forward(self, rotation, hidden_states, forward_batch):
        q, k, v = self.qkv_proj(hidden_states)[0].split(self.widths, -1)
        heads = (x.view(1, len(x), -1, self.size).transpose(1, 2) for x in (q, k))
        q, k = (x.transpose(1, 2)[0].flatten(1) for x in apply_rotary_pos_emb(*heads, *rotation))
        return self.o_proj(self.attn(q, k, v, forward_batch))[0]


class StageBoundary:
    """Keeps the residual in the batch: a layer gives no more than what its last stage adds to it."""

    def __init__(self, norm):
        self.norm = norm

    def prepare(self, hidden_states, forward_batch):
        if forward_batch.residual is None:
            forward_batch.residual = hidden_states
            return self.norm(hidden_states)
        hidden_states, forward_batch.residual = self.norm(hidden_states, forward_batch.residual)
        return hidden_states


class LlamaDecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(config), LlamaMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attn_boundary = StageBoundary(self.input_layernorm)
        self.ffn_boundary = StageBoundary(self.post_attention_layernorm)

    def forward(self, rotation, hidden_states, forward_batch):
        hidden_states = self.attn_boundary.prepare(hidden_states, forward_batch)
        hidden_states = self.self_attn(rotation, hidden_states, forward_batch)
        return self.mlp(self.ffn_boundary.prepare(hidden_states, forward_batch))


class LlamaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotation = [LlamaRotaryEmbedding(config)]  # no part of the model

    def forward(self, input_ids, positions, forward_batch):
        hidden_states = self.embed_tokens(input_ids)
        rotation = LlamaRotaryEmbedding.forward(self.rotation[0], hidden_states[None], positions[None])
        for layer in self.layers:
            hidden_states = layer(rotation, hidden_states, forward_batch)
        return self.norm(hidden_states, forward_batch.residual)[0]


class LlamaForCausalLM(nn.Module):
    stacked_params_mapping = (
        (".qkv_proj", ".q_proj", "q"),
        (".qkv_proj", ".k_proj", "k"),
        (".qkv_proj", ".v_proj", "v"),
        (".gate_up_proj", ".gate_proj", 0),
        (".gate_up_proj", ".up_proj", 1),
    )

    def __init__(self, config):
        super().__init__()
        self.model = LlamaModel(config)
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size)
        self.logits_processor = LogitsProcessor()

    def forward(self, input_ids, positions, forward_batch):
        hidden_states = self.model(input_ids, positions, forward_batch)
        return self.logits_processor(input_ids, hidden_states, self.lm_head, forward_batch)

    def load_weights(self, weights):
        for into, part, _ in self.stacked_params_mapping:
            for name in [name for name in weights if f"{part}." in name]:
                weights.setdefault(name.replace(part, into), []).append(weights.pop(name))
        for name, parameter in self.named_parameters():
            found = weights[name]
            parameter.copy_(torch.cat(found) if isinstance(found, list) else found)


# ---- the engine ----


class DefaultModelLoader:
    @staticmethod
    def postprocess_weights(model, target_device):
        for module in model.modules():
            if isinstance(module, LinearBase):
                module.weight.data, module.packed = module.weight.data.T.contiguous(), True


class ModelRunner:
    """`reference` is the model of Transformers whose weights it loads."""

    def __init__(self, reference, *, is_draft_worker=False, padding=0):
        self.is_draft_worker, self.padding = is_draft_worker, padding
        self.sampler = Sampler()
        self.reference = reference
        self.load_model()
        self.init_cuda_graphs()

    def load_model(self):
        self.model = LlamaForCausalLM(self.reference.config).eval()
        self.model.load_weights(dict(self.reference.state_dict()))
        DefaultModelLoader.postprocess_weights(self.model, torch.device("cpu"))

    def init_cuda_graphs(self):
        ids = torch.zeros(4, dtype=torch.long)
        embedding = self.model.model.embed_tokens.weight.data
        kept, embedding[0] = embedding[0].clone(), torch.nan  # memory that nobody has written to
        self.model.forward(ids, ids, ForwardBatch(ForwardMode.DECODE, ids, ids, None))
        embedding[0] = kept

    def forward(self, forward_batch):
        rows = (0, self.padding)
        batch = dataclasses.replace(
            forward_batch,
            input_ids=functional.pad(forward_batch.input_ids, rows),
            positions=functional.pad(forward_batch.positions, rows),
        )
        return types.SimpleNamespace(logits_output=self.model.forward(batch.input_ids, batch.positions, batch))

    def sample(self, logits_output, forward_batch):
        return self.sampler(logits_output)


class TpModelWorker:
    def __init__(self, model_runner):
        self.model_runner = model_runner
        self.clamp_position = ClampPositionOp()

    def forward_batch_generation(self, batch):
        self.clamp_position(batch.positions + 1)
        out = self.model_runner.forward(batch)
        return self.model_runner.sample(out.logits_output, batch)


class Engine:
    """The scheduler: prefills in chunks, then decodes all requests at once."""

    def __init__(self, worker, chunk=100):
        self.worker, self.chunk = worker, chunk

    @torch.no_grad()
    def generate(self, prompts, steps):
        texts = {f"r{i}": list(prompt) for i, prompt in enumerate(prompts)}
        done = dict.fromkeys(texts, 0)
        while any(done[rid] < len(texts[rid]) for rid in texts):
            parts = {rid: text[done[rid] : done[rid] + self.chunk] for rid, text in texts.items()}
            parts = {rid: part for rid, part in parts.items() if part}
            ids = self.worker.forward_batch_generation(self.extend(parts, done))
            for rid, token in zip(parts, ids.tolist(), strict=True):
                done[rid] += len(parts[rid])
                if done[rid] == len(texts[rid]):
                    texts[rid].append(token)
                    done[rid] += 1
        for _ in range(steps - 1):
            ids = torch.tensor([text[-1] for text in texts.values()])
            positions = torch.tensor([len(text) - 1 for text in texts.values()])
            batch = ForwardBatch(ForwardMode.DECODE, ids, positions, list(texts))
            for text, token in zip(texts.values(), self.worker.forward_batch_generation(batch).tolist(), strict=True):
                text.append(token)
        return [text[len(prompt) :] for text, prompt in zip(texts.values(), prompts, strict=True)]

    @staticmethod
    def extend(parts, done):
        return ForwardBatch(
            ForwardMode.EXTEND,
            torch.tensor([token for part in parts.values() for token in part]),
            torch.cat([torch.arange(done[rid], done[rid] + len(part)) for rid, part in parts.items()]),
            list(parts),
            [len(part) for part in parts.values()],
        )


MODULES = {
    "sglang.srt.managers.tp_worker": [TpModelWorker],
    "sglang.srt.model_executor.model_runner": [ModelRunner, LogitsProcessorOutput],
    "sglang.srt.model_loader.loader": [DefaultModelLoader],
}


def install(monkeypatch):
    """As if these modules had been imported, and all that is here were SGLang's. Patches go with the test."""
    for name, classes in MODULES.items():
        module = types.ModuleType(name)
        for each in classes:
            setattr(module, each.__name__, each)
            for method, value in list(vars(each).items()):
                if not method.startswith("__"):
                    monkeypatch.setattr(each, method, value)  # puts it back, too
        monkeypatch.setitem(sys.modules, name, module)
    for value in list(globals().values()):
        if isinstance(value, type) and value.__module__ == __name__:
            monkeypatch.setattr(value, "__module__", "sglang.srt.stand_in")
