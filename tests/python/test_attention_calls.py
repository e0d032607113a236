"""Transformers calls attention as a function: it is recorded as a call of its own, named as engines name it."""

import copy

import pytest
import tensortap as tap
import torch
from tensortap.modules import attention_calls
from torch import nn

transformers = pytest.importorskip("transformers")
modeling_llama = pytest.importorskip("transformers.models.llama.modeling_llama")

PROMPTS = [[5, 9, 11, 3, 8], [7, 2, 6]]
HEADS, KV_HEADS, SIZE = 4, 2, 8
ATTENTION = [f"model.layers.{layer}.self_attn.attn" for layer in range(2)]


def language_model(kind="Llama", implementation="sdpa", **changes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=32,
        hidden_size=HEADS * SIZE,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=64,
        attn_implementation=implementation,
        **changes,
    )
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():  # else attention is nearly even
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model


@torch.no_grad()
def generate(model, prompts=PROMPTS, steps=4, **options):
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    kept = {"return_dict_in_generate": True, "output_logits": True} | options
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=steps, min_new_tokens=steps, do_sample=False, pad_token_id=0, **kept
    )


def record(model, directory, *, roles="in,out", run=generate, **options):
    with tap.record(model, directory, roles=roles, report=False, **options) as recording:
        run(model)
    return recording


def passes_of(directory):
    (rank,) = tap.open(directory).ranks
    return list(rank.passes.values())


def of_attention(found):
    return sorted(key for key in found if ".attn" in key)


# ---- what is recorded ----


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("roles", ["out", "in,out"])
def test_it_is_what_the_function_was_given_and_what_it_made(implementation, roles, tmp_path, monkeypatch):
    model = language_model(implementation=implementation)
    rotated = []
    rotate = modeling_llama.apply_rotary_pos_emb

    def rotate_and_keep(*args, **kwargs):
        rotated.append(rotate(*args, **kwargs))
        return rotated[-1]

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", rotate_and_keep)
    record(model, tmp_path, roles=roles)
    passes = passes_of(tmp_path)
    assert len(passes) == 4
    paths = ("", "@in/0", "@in/1", "@in/2") if roles == "in,out" else ("",)
    calls = iter(rotated)
    for number, found in enumerate(passes):
        tokens = 5 if number == 0 else 1
        assert of_attention(found) == sorted(f"{name}{path}" for name in ATTENTION for path in paths)
        for name in ATTENTION:
            assert found[name].shape == (2, tokens, HEADS, SIZE)
            query, key = next(calls)
            if roles == "out":
                continue
            # Of a step that goes on with a cache, those of its own tokens.
            assert torch.equal(found[f"{name}@in/0"], query.transpose(1, 2))
            assert torch.equal(found[f"{name}@in/1"], key.transpose(1, 2))
            value = found[name.replace("attn.attn", "attn.v_proj")]
            assert torch.equal(found[f"{name}@in/2"].flatten(2), value)
            into_projection = found[name.replace("attn.attn", "attn.o_proj@in/0")]
            assert torch.equal(found[name].flatten(2), into_projection)


@pytest.mark.parametrize("kind", ["Llama", "Mistral"])
def test_of_a_static_cache_the_rows_of_the_step_are_taken(kind, tmp_path):
    model = language_model(kind, **({"sliding_window": 6} if kind == "Mistral" else {}))
    record(model, tmp_path / "a")
    record(
        model, tmp_path / "b", run=lambda model: generate(model, cache_implementation="static", disable_compile=True)
    )
    for a, b in zip(passes_of(tmp_path / "a"), passes_of(tmp_path / "b"), strict=True):
        for name in ATTENTION:
            for path in ("@in/0", "@in/1", "@in/2"):
                torch.testing.assert_close(a[f"{name}{path}"], b[f"{name}{path}"])


@pytest.mark.parametrize("implementation", ["dynamic", "static"])
def test_the_cache_holds_what_attention_was_given(implementation, tmp_path):
    options = {} if implementation == "dynamic" else {"cache_implementation": "static", "disable_compile": True}
    record(language_model(), tmp_path, roles="out,in,cache", run=lambda model: generate(model, **options))
    for found in passes_of(tmp_path):
        for name in ATTENTION:
            assert torch.equal(found[f"{name}@cache/key"], found[f"{name}@in/1"])
            assert torch.equal(found[f"{name}@cache/value"], found[f"{name}@in/2"])


def test_without_a_cache_there_is_none(tmp_path):
    tokens = torch.tensor([[5, 9, 11]])
    record(language_model(), tmp_path, roles="cache", run=lambda model: model(input_ids=tokens, use_cache=False))
    assert not of_attention(passes_of(tmp_path)[0])


def test_filters_and_levels_hold_for_it(tmp_path):
    model = language_model()
    record(model, tmp_path / "a", filter=r"layers\.1\.self_attn\.attn$", level={"attn$": "fingerprint", ".*": "full"})
    for found in passes_of(tmp_path / "a"):
        of_model = [key for key in found if not key.startswith("batch@")]
        assert sorted(of_model) == [f"{ATTENTION[1]}{path}" for path in ("", "@in/0", "@in/1", "@in/2")]
        assert {record.level for record in found.records if record.name == ATTENTION[1]} == {"fingerprint"}
    record(model, tmp_path / "b", filter="mlp")
    assert not any(of_attention(found) for found in passes_of(tmp_path / "b"))


def test_a_pass_that_does_not_say_its_tokens_has_none(tmp_path):
    model = language_model()
    record(model, tmp_path, run=lambda model: model(inputs_embeds=torch.randn(1, 4, HEADS * SIZE)))
    (found,) = passes_of(tmp_path)
    assert not of_attention(found)


def test_a_module_of_that_name_keeps_it(tmp_path):
    model = language_model()
    model.model.layers[0].self_attn.attn = nn.Identity()
    recording = record(model, tmp_path, roles="out")
    assert of_attention(passes_of(tmp_path)[0]) == [ATTENTION[1]]
    assert [entry["name"] for entry in recording.coverage["never_called"]] == [ATTENTION[0]]


def test_gradients_of_it(tmp_path):
    model = language_model("Llama", "eager")
    tokens = torch.tensor([[5, 9, 11, 3]])
    with tap.record(model, tmp_path, roles="out,in,grad_out,grad_in", report=False):
        model(input_ids=tokens, use_cache=False).logits.square().sum().backward()
    (found,) = passes_of(tmp_path)
    for name in ATTENTION:
        assert found[f"{name}@grad_out"].shape == (1, 4, HEADS, SIZE)
        assert found[f"{name}@grad_in/0"].shape == (1, HEADS, 4, SIZE)
        into_projection = found[name.replace("attn.attn", "attn.o_proj@grad_in/0")]
        assert torch.equal(found[f"{name}@grad_out"].flatten(2), into_projection)


def test_with_operators_it_is_not_needed(tmp_path):
    record(language_model(), tmp_path, ops=True, run=lambda model: generate(model, steps=1))
    assert not any(key.startswith(tuple(f"{name}@" for name in ATTENTION)) for key in passes_of(tmp_path)[0])


# ---- what it must not do ----


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_bits_are_those_without_a_recording(implementation, tmp_path):
    model = language_model(implementation=implementation)
    plain = generate(model)
    with tap.record(model, tmp_path, roles="in,out", report=False):
        recorded = generate(model)
    assert torch.equal(plain.sequences, recorded.sequences)
    for a, b in zip(plain.logits, recorded.logits, strict=True):
        assert torch.equal(a.view(torch.int32), b.view(torch.int32))


def test_nothing_is_left_behind(tmp_path):
    interface = transformers.modeling_utils.AttentionInterface

    def state():
        return dict(vars(interface)), modeling_llama.eager_attention_forward

    before, seen = state(), []
    model = language_model()
    model.model.layers[0].self_attn.q_proj.register_forward_hook(lambda *_: seen.append(state()))
    model.model.layers[0].mlp.register_forward_hook(lambda *_: seen.append(state()))
    with tap.record(model, tmp_path / "a", report=False), tap.record(model, tmp_path / "b", report=False):
        generate(model, steps=1)
    inside, behind = seen
    assert inside != before
    assert behind == before == state()
    assert not attention_calls._watchers
    for directory in ("a", "b"):
        assert of_attention(passes_of(tmp_path / directory)[0]) == ATTENTION


def test_nothing_of_it_raises_into_the_model(tmp_path, monkeypatch):
    def fails(*args):
        raise RuntimeError("ours")

    model = language_model()
    plain = generate(model)
    monkeypatch.setattr(attention_calls.AttentionTap, "begin", fails)
    monkeypatch.setattr(attention_calls.AttentionTap, "end", fails)
    with tap.record(model, tmp_path, report=False):
        recorded = generate(model)
    assert torch.equal(plain.sequences, recorded.sequences)


def test_what_the_function_raises_goes_on(tmp_path):
    model = language_model()
    wrong = torch.zeros(1, 1, 3, 3)  # no mask of four tokens
    with tap.record(model, tmp_path, roles="in,out", report=False) as recording, torch.no_grad():
        with pytest.raises(RuntimeError, match=r"size|shape"):
            model(input_ids=torch.tensor([[1, 2, 3, 4]]), attention_mask=wrong)
        model(input_ids=torch.tensor([[1, 2, 3, 4]]))
    assert recording.coverage["unsupported"] == []
    assert set(of_attention(passes_of(tmp_path)[-1])) >= set(ATTENTION)


@pytest.fixture
def graphs():
    """What was compiled: a backend that keeps it, and what it has kept."""
    kept = []

    def backend(graph, _):
        kept.append(graph.code)
        return graph.forward

    torch._dynamo.reset()
    yield backend, kept
    torch._dynamo.reset()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_compiled_code_is_what_it_is_without_it(implementation, graphs, tmp_path):
    backend, kept = graphs
    model = language_model(implementation=implementation)
    tokens = torch.tensor([[5, 9, 11, 3]])
    with torch.no_grad():
        torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)(input_ids=tokens, use_cache=False)
        (plain,) = kept
        torch._dynamo.reset()
        with tap.record(model, tmp_path, report=False):
            torch.compile(model, backend=backend, fullgraph=True)(input_ids=tokens, use_cache=False)
    assert set(kept) == {plain}


def test_what_is_compiled_is_told(graphs, tmp_path):
    model = language_model()
    model.model.layers[1].compile(backend=graphs[0])
    recording = record(model, tmp_path, roles="out")
    assert of_attention(passes_of(tmp_path)[0]) == [ATTENTION[0]]
    unseen = {entry["name"]: entry["why"] for entry in recording.coverage["never_called"]}
    assert unseen[ATTENTION[1]] == "inside a compiled region"


def test_another_model_is_not_compiled_again(graphs, tmp_path):
    backend, kept = graphs
    tokens = torch.tensor([[5, 9, 11, 3]])
    with torch.no_grad():
        other = torch.compile(language_model(), backend=backend, fullgraph=True)
        other(input_ids=tokens, use_cache=False)
        with tap.record(model := language_model(), tmp_path, report=False):
            other(input_ids=tokens, use_cache=False)
            generate(model)
            other(input_ids=tokens, use_cache=False)
    assert len(kept) == 1


# ---- comparing ----


def rope_fault(model):
    model.model.rotary_emb.inv_freq.mul_(0.5)


def scale_fault(model):
    for layer in model.model.layers[1:]:
        layer.self_attn.scaling *= 1.05


@pytest.mark.parametrize(
    ("fault", "roles", "named"),
    [
        (rope_fault, "in,out", f"{ATTENTION[0]}@in/0"),
        (rope_fault, "out", ATTENTION[0]),
        (scale_fault, "in,out", ATTENTION[1]),
        (scale_fault, "out", ATTENTION[1]),
    ],
)
def test_what_is_between_projections_is_named(fault, roles, named, tmp_path):
    model = language_model()
    leaf = r"self_attn|mlp|norm"  # the rotary embedding is a module of Transformers', which engines do not have
    record(model, tmp_path / "a", roles=roles, filter=leaf, run=lambda model: [generate(model, [p]) for p in PROMPTS])
    fault(model)
    record(model, tmp_path / "b", roles=roles, filter=leaf)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert found.to_json()["tokens"] is not None
    assert (found.verdict, found.first.key) == ("diverged", named), found
    if named.endswith("attn"):
        assert found.sentence == f"diverged: {named} introduced the error"


def test_a_wrong_row_in_the_cache_is_named(tmp_path, monkeypatch):
    model = language_model()
    record(model, tmp_path / "a", roles="in,out,cache", run=lambda model: generate(model, PROMPTS[:1]))
    update = transformers.DynamicCache.update

    def rounded(cache, keys, values, layer, *args, **kwargs):
        wrong = keys.bfloat16().to(keys.dtype) if layer == 1 else keys
        states = update(cache, wrong, values, layer, *args, **kwargs)
        return torch.cat((states[0][:, :, : -keys.shape[2]], keys), 2), states[1]

    monkeypatch.setattr(transformers.DynamicCache, "update", rounded)
    record(model, tmp_path / "b", roles="in,out,cache", run=lambda model: generate(model, PROMPTS[:1]))
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert found.sentence.startswith(f"diverged: {ATTENTION[1]}@cache/key introduced the error"), found


def test_a_recording_without_it_agrees_with_one_that_has_it(tmp_path, monkeypatch):
    model = language_model()
    record(model, tmp_path / "new")
    monkeypatch.setattr(attention_calls.AttentionCalls, "attach", lambda *args, **kwargs: None)
    record(model, tmp_path / "old")
    assert not of_attention(passes_of(tmp_path / "old")[0])
    for a, b in (("old", "new"), ("new", "old")):
        found = tap.diff(tmp_path / a, tmp_path / b)
        assert found.verdict == "identical", found
        alone = {tensor.key for tensor in found.tensors if tensor.verdict in ("missing", "extra")}
        assert all(".attn" in key for key in alone)


@pytest.mark.parametrize("roles", ["out", "in,out"])
def test_eager_and_fused_attention_agree(roles, tmp_path):
    for name in ("eager", "sdpa"):
        model = language_model(implementation=name)
        record(model, tmp_path / name, roles=roles, run=lambda model: generate(model, PROMPTS[:1]))
    found = tap.diff(tmp_path / "eager", tmp_path / "sdpa")
    assert found.verdict == "within tolerance", found
    assert {tensor.verdict for tensor in found.tensors} <= {"identical", "within tolerance"}


@pytest.mark.parametrize(("steps", "verdict"), [(1.5, "within tolerance"), (3.0, "diverged")])
def test_attention_rounds_more_often_than_other_calls(steps, verdict, tmp_path, monkeypatch):
    """As docs/measures.md has it: two steps of the dtype, all values together."""
    model = language_model().bfloat16()
    run = {"run": lambda model: generate(model, PROMPTS[:1], steps=1)}
    record(model, tmp_path / "a", **run)
    functions = transformers.modeling_utils.AttentionInterface._global_mapping
    attend = functions["sdpa"]

    def rough(module, *args, **kwargs):
        made, weights = attend(module, *args, **kwargs)
        if module.layer_idx == 0:
            size = steps * 2**-7 * made.float().square().mean().sqrt()
            made = (made + size * torch.randn(made.shape, generator=torch.Generator().manual_seed(1))).to(made.dtype)
        return made, weights

    monkeypatch.setitem(functions, "sdpa", rough)
    record(model, tmp_path / "b", **run)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    (tensor,) = (tensor for tensor in found.tensors if tensor.key == ATTENTION[0])
    assert tensor.verdict == verdict, found


def test_attention_that_was_given_other_roundings_rounds_as_often(tmp_path, monkeypatch):
    model = language_model().bfloat16()
    run = {"run": lambda model: generate(model, PROMPTS[:1], steps=1), "roles": "in,out"}
    record(model, tmp_path / "a", **run)
    functions = transformers.modeling_utils.AttentionInterface._global_mapping
    attend = functions["sdpa"]
    noise = torch.Generator().manual_seed(1)

    def moved(values, steps):
        """By so many steps of bf16, in the mean."""
        size = steps * 2**-8 * values.float().square().mean().sqrt()
        return (values + size * torch.randn(values.shape, generator=noise)).to(values.dtype)

    def rough(module, *args, **kwargs):
        made, weights = attend(module, *args, **kwargs)
        return (moved(made, 2.5), weights) if module.layer_idx == 0 else (made, weights)

    model.model.layers[0].self_attn.v_proj.register_forward_hook(lambda module, args, result: moved(result, 0.15))
    monkeypatch.setitem(functions, "sdpa", rough)
    record(model, tmp_path / "b", **run)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    (tensor,) = (tensor for tensor in found.tensors if tensor.key == ATTENTION[0])
    assert tensor.verdict == "within tolerance", found
