"""The adapter of SGLang with stand-ins of its classes: what it tells of steps, rows, modules and weights."""

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest
import stand_in_sglang as engine
import tensortap as tap
import torch
from tensortap.engines import sglang as adapter
from tensortap.modules.module_source import gives_a_part
from tensortap.session.metadata import describers
from tensortap.tensors.nested import main_fields

transformers = pytest.importorskip("transformers")

PROMPTS = [[11, 4, 23, 17, 5, 29], [7, 8, 9], [3, 30, 12, 6, 2]]
STEPS = 4
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def adapted(monkeypatch):
    """As when SGLang has called its plugins in this process."""
    engine.install(monkeypatch)
    monkeypatch.setattr(adapter, "_watch", None)
    before = list(describers), list(gives_a_part), dict(main_fields)
    adapter.register()
    yield
    adapter._watch.remove()
    describers[:], gives_a_part[:] = before[:2]
    main_fields.clear()
    main_fields.update(before[2])


@pytest.fixture
def reference():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model


@torch.no_grad()
def answers_of(reference):
    for prompt in PROMPTS:
        text = reference.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=STEPS,
            min_new_tokens=STEPS,
            do_sample=False,
            pad_token_id=0,
        )
        yield text[0, len(prompt) :].tolist()


def record_reference(reference, directory, **options):
    with tap.record(reference, directory, report=False, **options):
        return list(answers_of(reference))


def record_engine(reference, directory, *, chunk=100, padding=0, plant=None, record=None):
    """Its answers. The recording is under way before the engine is made, as under `ttap run`."""
    with tap.record(None, directory, report=False, **(record or {})):
        worker = engine.TpModelWorker(engine.ModelRunner(reference, padding=padding))
        if plant is not None:
            with torch.no_grad():
                plant(worker.model_runner.model)
        return engine.Engine(worker, chunk).generate(PROMPTS, STEPS)


def passes_of(directory):
    return list(tap.open(directory).ranks[0].passes.values())


def rows_of(directory):
    """What each pass says of its rows, where it does."""
    return [event.notes for each in passes_of(directory) for event in each.events if event.name == "batch"]


@pytest.mark.parametrize(
    "how",
    [{}, {"chunk": 4}, {"padding": 5}, {"record": {"roles": ["in", "out"]}}],
    ids=["plain", "chunked prefill", "padded", "inputs"],
)
def test_a_sound_engine_agrees_with_transformers(how, reference, tmp_path):
    answers = record_reference(reference, tmp_path / "a", **how.get("record", {}))
    assert record_engine(reference, tmp_path / "b", **how) == answers
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "within tolerance", diff
    tokens = diff.to_json()["tokens"]
    assert (tokens["requests"], tokens["tokens"]) == (3, sum(map(len, PROMPTS)) + 3 * (STEPS - 1))
    missing = {tensor.key for tensor in diff.tensors if tensor.verdict == "missing" and "@" not in tensor.key}
    assert missing == {"model.rotary_emb/0", "model.rotary_emb/1"}


def test_a_layer_that_leaves_its_residual_in_the_batch_is_not_compared(reference, tmp_path):
    options = {"record": {"modules": "all", "roles": ["in", "out"]}}
    record_reference(reference, tmp_path / "a", **options["record"])
    record_engine(reference, tmp_path / "b", **options)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "within tolerance", diff
    keys = passes_of(tmp_path / "b")[1].keys()
    assert "model.layers.0.mlp" in keys
    assert not {"model.layers.0", "model.layers.0@in/1"} & set(keys)


def attention(model, layer):
    return model.model.layers[layer].self_attn


FAULTS = {
    # After loading the weights of linear layers are transposed.
    "model.layers.1.self_attn.k_proj": lambda model: attention(model, 1).qkv_proj.weight[:, 32:48].mul_(1.02),
    "model.layers.0.self_attn.v_proj": lambda model: attention(model, 0).qkv_proj.weight[:, 50:52].zero_(),
    "model.layers.1.mlp.up_proj": lambda model: model.model.layers[1].mlp.gate_up_proj.weight[:, 64:].mul_(1.02),
    "model.layers.0.mlp.down_proj": lambda model: model.model.layers[0].mlp.down_proj.weight.mul_(1.02),
    "model.layers.1.post_attention_layernorm": lambda model: setattr(
        model.model.layers[1].post_attention_layernorm, "variance_epsilon", 1e-2
    ),
    "model.layers.0.self_attn.attn": lambda model: setattr(model.model, "rotation", [half_as_fast(model)]),
    "lm_head": lambda model: model.lm_head.weight.mul_(1.01),
}


def half_as_fast(model):
    rotation = model.model.rotation[0]
    rotation.inv_freq = rotation.inv_freq / 2
    return rotation


@pytest.mark.parametrize("module", FAULTS)
def test_a_fault_in_the_engine_is_named(module, reference, tmp_path):
    record_reference(reference, tmp_path / "a")
    record_engine(reference, tmp_path / "b", plant=FAULTS[module])
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "diverged", diff
    assert diff.first.key == module, diff


def test_weights_are_compared_before_they_are_packed(reference, tmp_path):
    options = {"record": {"roles": ["out", "param"]}}
    record_reference(reference, tmp_path / "a", **options["record"])
    record_engine(reference, tmp_path / "b", **options)
    assert tap.diff(tmp_path / "a", tmp_path / "b").verdict == "within tolerance"
    with torch.no_grad():
        weight = reference.model.layers[1].self_attn.k_proj.weight
        weight[[3, 7]] = weight[[7, 3]].clone()
    record_engine(reference, tmp_path / "c", **options)
    assert tap.diff(tmp_path / "a", tmp_path / "c").sentence == (
        "diverged: the parameter model.layers.1.self_attn.k_proj@param/weight differs: rows 3 and 7 are swapped in B"
    )


def test_one_step_is_one_pass_from_its_rows_to_its_sampling(reference, tmp_path):
    record_engine(reference, tmp_path)
    warm_up, *steps = passes_of(tmp_path)
    assert len(steps) == STEPS
    for step in steps:
        names = [event.name for event in step.events]
        assert names.count("batch") == 1
        assert {"ClampPositionOp", "model.norm", "logits_processor", "Sampler"} <= set(names)
    assert "Sampler" not in [event.name for event in warm_up.events]


def test_what_only_warms_up_is_neither_compared_nor_checked(reference, tmp_path):
    record_engine(reference, tmp_path)
    assert tap.check(tmp_path).clean
    assert passes_of(tmp_path)[0]["model.embed_tokens"].isnan().any()


def test_a_rank_without_requests_has_no_rows(reference, tmp_path):
    empty = torch.zeros(0, dtype=torch.long)
    with tap.record(None, tmp_path / "a", report=False), torch.no_grad():
        runner = engine.ModelRunner(reference, padding=2)
        runner.forward(engine.ForwardBatch(engine.ForwardMode.IDLE, empty, empty, []))
    assert rows_of(tmp_path / "a") == [{"request_ids": [], "dummy": True}] * 2


def test_what_is_only_proposed_is_no_row(reference, tmp_path):
    """Draft models, and tokens that are to be verified: nobody knows yet whether they will be in the text."""
    with tap.record(None, tmp_path / "a", report=False), torch.no_grad():
        worker = engine.TpModelWorker(engine.ModelRunner(reference))
        batch = engine.Engine.extend({"r": [3, 4, 5]}, {"r": 0})
        batch.forward_mode = engine.ForwardMode.TARGET_VERIFY
        worker.forward_batch_generation(batch)
        draft = engine.ModelRunner(reference, is_draft_worker=True)
        draft.forward(engine.Engine.extend({"r": [3, 4, 5]}, {"r": 0}))
    assert all(rows.get("dummy") for rows in rows_of(tmp_path / "a"))


def test_a_step_that_fails_is_aborted_and_the_next_one_is_whole(reference, tmp_path):
    batch = engine.Engine.extend({"r": [3, 4, 5]}, {"r": 0})
    with tap.record(None, tmp_path / "a", report=False), torch.no_grad():
        worker = engine.TpModelWorker(engine.ModelRunner(reference))
        norm = worker.model_runner.model.model.norm
        norm.variance_epsilon = "none"
        with pytest.raises(TypeError):
            worker.forward_batch_generation(batch)
        norm.variance_epsilon = 1e-6
        worker.forward_batch_generation(batch)
    assert [each.ending for each in passes_of(tmp_path / "a")] == ["complete", "aborted", "complete"]


def test_nothing_is_done_where_nothing_is_recorded(reference):
    answers = list(answers_of(reference))
    worker = engine.TpModelWorker(engine.ModelRunner(reference))
    assert engine.Engine(worker).generate(PROMPTS, STEPS) == answers


def test_another_version_is_told_of_and_left_alone(monkeypatch, capsys):
    monkeypatch.delattr(engine.TpModelWorker, "forward_batch_generation")
    adapter._adapt_worker(sys.modules["sglang.srt.managers.tp_worker"])
    assert capsys.readouterr().err == (
        "tensortap: this SGLang has no TpModelWorker.forward_batch_generation: its steps are not known\n"
    )


def test_a_batch_of_another_version_does_the_engine_no_harm(reference, tmp_path):
    answers = record_engine(reference, tmp_path / "a")

    def without_mode(model):
        of_adapter = model.forward
        model.forward = lambda ids, positions, batch: of_adapter(ids, positions, WithoutMode(batch))

    assert record_engine(reference, tmp_path / "b", plant=without_mode) == answers
    assert rows_of(tmp_path / "b") == [{"request_ids": [], "dummy": True}]


class WithoutMode:
    def __init__(self, batch):
        self._batch, self.residual = batch, None

    def __getattr__(self, name):
        if name == "forward_mode":
            raise AttributeError(name)
        return getattr(self._batch, name)


class Group:
    world_size = 2


def test_ranks_share_what_the_layers_say(reference):
    model = engine.LlamaForCausalLM(reference.config)
    for module in model.modules():
        if isinstance(module, (engine.QKVParallelLinear, engine.MergedColumnParallelLinear)):
            module.tp_group, module.gather_output = Group, False
        elif isinstance(module, engine.RowParallelLinear):
            module.tp_group, module.input_is_parallel, module.reduce_results = Group, True, False

    def shards(name):
        return adapter._shards(model, name, model.get_submodule(name)).get("shards", {})

    first = "model.layers.0"
    # A kind of column parallel layer is one by its bases, which the stand-in has not.
    assert shards(f"{first}.self_attn.attn")["in/1"] == {"concat": -1}
    assert shards(f"{first}.mlp.act_fn")["in"] == {"concat": -1, "sizes": [32, 32]}
    assert shards(f"{first}.self_attn.o_proj") == {"param/weight": {"concat": 1}, "in": {"concat": -1}, "out": "sum"}
    assert shards(f"{first}.input_layernorm") == {}


def test_sglang_finds_the_adapter():
    launch = list(importlib.metadata.distributions(path=[str(ROOT / "python/tensortap/launch")]))
    found = [each for dist in launch for each in dist.entry_points if each.group == "sglang.srt.plugins"]
    assert [each.load() for each in found] == [adapter.register]
    wheel = re.search(
        r'entry-points\."sglang\.srt\.plugins"\]\ntensortap = "(.*)"', (ROOT / "pyproject.toml").read_text()
    )
    assert wheel is not None
    assert wheel[1] == found[0].value
