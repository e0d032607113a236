"""A real serving engine, vLLM on the CPU, against Transformers: no map, no annotation.

The engine has an environment of its own, which `make serving` installs; without it these tests are skipped.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import tensortap as tap
from serving_programs import ROOT, Environment, edited_copy, leaf_results
from ttap_command import TTAP

ENGINE = Environment("vllm")
PYTHON, PROGRAMS = ENGINE.python, ENGINE.programs
environment, run, recorded = ENGINE.variables, ENGINE.run, ENGINE.recorded

pytestmark = pytest.mark.skipif(not ENGINE.installed, reason="no vLLM: scripts/setup_engine.sh installs it")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Where a model is saved, by name."""
    return ENGINE.saver(tmp_path_factory)


PREFIX = {"enable_prefix_caching": True, "block_size": 32, "shared": 32}
CHUNKS = PREFIX | {"max_num_batched_tokens": 24}
ROLES = ("--roles", "in,out")  # in bf16 each module is judged by what it adds itself
AGREEING = {
    "llama, one request": ("llama", "float32", 1, 4, {}, {}),
    "llama, eight requests, bf16, its own process": (
        "llama", "bfloat16", 8, 32, {}, {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}),
    "qwen3, chunked prefill": ("qwen3", "float32", 4, 6, {"max_num_batched_tokens": 16}, {}),
    "gemma, prefix cache": ("gemma", "float32", 4, 6, PREFIX, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", AGREEING)
def test_a_sound_engine_agrees_with_transformers(name, saved, tmp_path):
    model, dtype, count, steps, options, process = AGREEING[name]
    shared = options.get("shared", 0)
    reference = recorded(tmp_path / "a", "reference.py", saved(model), dtype, count, steps, shared)
    answers = recorded(tmp_path / "b", "engine.py", saved(model), dtype, count, steps, json.dumps(options), **process)
    if dtype == "float32":
        assert answers == reference
    diff = agrees(tmp_path, count)
    if shared:
        assert f"{(count - 1) * shared} tokens were computed only by A" in str(diff)


def agrees(directory, count):
    diff = tap.diff(directory / "a", directory / "b")
    assert diff.verdict == "within tolerance", diff
    compared, of = leaf_results(diff)
    assert compared >= 0.95 * of, diff
    assert diff.to_json()["tokens"]["requests"] == count
    return diff


# vLLM's kernel for the CPU rotates only one head of three-dimensional queries: PyTorch's own operators do it right.
LATENT = {"compilation_config": {"custom_ops": ["all", "-rotary_embedding"]}}


@pytest.mark.skipif(os.environ.get("TTAP_SERVING") != "all", reason="`make serving` runs every model in every way")
@pytest.mark.parametrize("eager", [True, False], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", ["llama", "qwen3", "qwen3_moe", "gemma", "deepseek"])
def test_every_model_in_every_way(model, dtype, eager, saved, tmp_path):
    """Eight requests in chunks, of which seven find their beginning in the prefix cache, and 32 decode steps, in a
    process of the engine's own."""
    options = CHUNKS | (LATENT if model == "deepseek" else {}) | ({} if eager else {"enforce_eager": False})
    recorded(tmp_path / "a", "reference.py", saved(model), dtype, 8, 32, CHUNKS["shared"], options=ROLES)
    recorded(
        tmp_path / "b", "engine.py", saved(model), dtype, 8, 32, json.dumps(options),
        options=ROLES if eager else ("--compiled", *ROLES), VLLM_ENABLE_V1_MULTIPROCESSING="1",
    )  # fmt: skip
    if (model, dtype) == ("qwen3_moe", "bfloat16"):  # of so many tokens some choose between experts that are as good
        sentence = tap.diff(tmp_path / "a", tmp_path / "b").sentence
        flipped = r"inconclusive: rounding, then a near tie flipped at model\.layers\.\d\.mlp\.gate/[12];"
        assert re.match(flipped, sentence) or sentence.startswith("within tolerance")
        return
    agrees(tmp_path, 8)


def test_latent_attention_agrees_with_transformers(saved, tmp_path):
    reference = recorded(tmp_path / "a", "reference.py", saved("deepseek"), "float32", 3, 4)
    answers = recorded(tmp_path / "b", "engine.py", saved("deepseek"), "float32", 3, 4, json.dumps(LATENT))
    assert answers == reference
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "within tolerance", diff
    # Neither attention nor the factors of the rotary embedding are results of a module in vLLM.
    missing = [tensor.key for tensor in diff.tensors if tensor.verdict == "missing" and "@" not in tensor.key]
    assert all(key.endswith(("self_attn.attn", "rotary_emb")) for key in missing), diff
    compared, of = leaf_results(diff)
    assert compared >= 0.95 * of, diff
    # With its own kernel it is wrong, and that is named.
    recorded(tmp_path / "c", "engine.py", saved("deepseek"), "float32", 3, 4)
    diff = tap.diff(tmp_path / "a", tmp_path / "c")
    assert diff.sentence == "diverged: model.layers.0.self_attn.o_proj introduced the error"


def test_experts_agree_as_far_as_the_engine_shows_them(saved, tmp_path):
    recorded(tmp_path / "a", "reference.py", saved("qwen3_moe"), "float32", 3, 4)
    recorded(tmp_path / "b", "engine.py", saved("qwen3_moe"), "float32", 3, 4)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "within tolerance", diff
    compared, of = leaf_results(diff)
    assert compared >= 0.95 * of, diff
    # Logits, weights of the chosen experts, and which they are.
    routers = [tensor for tensor in diff.tensors if ".mlp.gate/" in tensor.key]
    assert len(routers) == 4 * 3
    assert all(tensor.verdict == "within tolerance" for tensor in routers)


def test_a_compiled_engine_is_compared_where_it_can_be_seen(saved, tmp_path):
    reference = recorded(tmp_path / "a", "reference.py", saved("llama"), "float32", 2, 4)
    answers = recorded(
        tmp_path / "b", "engine.py", saved("llama"), "float32", 2, 4, json.dumps({"enforce_eager": False})
    )
    assert answers == reference
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    # What is inside compiled code is seen by nobody: that the logits agree is not enough to say that all does.
    assert diff.verdict == "inconclusive", diff
    assert [tensor.key for tensor in diff.tensors if tensor.verdict == "within tolerance"] == ["lm_head"]
    # Passes that only warm up hold memory that nobody has written to.
    check = tap.check(tmp_path / "b")
    assert check.clean, check


def test_a_compiled_engine_hands_its_results_over_where_asked_for(saved, tmp_path):
    name = "model.layers.2.mlp.up_proj"
    wrong = edited_copy(saved("llama"), tmp_path / "wrong", swapped=f"{name}.weight")
    roles = ("--roles", "in,out")
    reference = recorded(tmp_path / "a", "reference.py", saved("llama"), "float32", 2, 4, options=roles)
    for run_name, model in (("b", saved("llama")), ("c", wrong)):
        answers = recorded(
            tmp_path / run_name, "engine.py", model, "float32", 2, 4, json.dumps({"enforce_eager": False}),
            options=("--compiled", *roles),
        )  # fmt: skip
        assert answers == reference or run_name == "c"
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "within tolerance", diff
    compared, of = leaf_results(diff)
    assert compared >= 0.95 * of, diff
    diff = tap.diff(tmp_path / "a", tmp_path / "c")
    assert (diff.verdict, diff.first.key) == ("diverged", name), diff


def is_named(key, expected):
    """Whether the key is that tensor; or, where only a module is expected, any tensor of it."""
    return (key if "@" in expected else key.partition("@")[0]).endswith(expected)


@pytest.mark.parametrize(
    ("model", "count", "roles"), [("llama", 72, "out"), ("llama", 72, "in,out,cache"), ("qwen3_moe", 83, "out")]
)
def test_faults_in_the_engine_are_named(model, count, roles, saved, tmp_path):
    recorded(tmp_path / "reference", "reference.py", saved(model), "float32", 3, 4, options=("--roles", roles))
    out = run(PYTHON, PROGRAMS / "faults.py", saved(model), "float32", tmp_path, roles)
    faults = [json.loads(line) for line in out.splitlines() if line.startswith('{"number"')]
    assert len(faults) == count + 1
    wrong = []
    for fault in faults:
        diff = tap.diff(tmp_path / "reference", tmp_path / str(fault["number"]))
        if not fault["module"]:
            assert fault["same"]
            assert diff.verdict == "within tolerance", diff
        elif diff.verdict != "diverged" or not is_named(diff.first.key, fault["module"]):
            wrong.append((fault["fault"], str(diff)))
    assert not wrong


def test_weights_are_compared_before_they_are_packed(saved, tmp_path):
    tampered = edited_copy(saved("llama"), tmp_path / "tampered", swapped="model.layers.1.self_attn.k_proj.weight")
    options = ("--roles", "out,param")
    recorded(tmp_path / "a", "reference.py", saved("llama"), "float32", 1, 2, options=options)
    recorded(tmp_path / "b", "engine.py", tampered, "float32", 1, 2, options=options)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.sentence == (
        "diverged: the parameter model.layers.1.self_attn.k_proj@param/weight differs: rows 3 and 7 are swapped in B"
    )


OP_FAULTS = {
    "epsilon of all norms": ({"config": ("rms_norm_eps", 1e-2)}, "model.layers.0.input_layernorm:aten::add.Tensor"),
    "theta": ({"config": ("rope_parameters.rope_theta", 5000.0)}, "aten::pow.Scalar"),
    "rows of k_proj": (
        {"swapped": "model.layers.1.self_attn.k_proj.weight"}, "model.layers.1.self_attn.qkv_proj:_C::onednn_mm"),
    "rows of up_proj": (
        {"swapped": "model.layers.0.mlp.up_proj.weight"}, "model.layers.0.mlp.gate_up_proj:_C::onednn_mm"),
}  # fmt: skip


def test_operators_of_two_engines(saved, tmp_path):
    ops = {"options": ("--ops",)}
    plain = recorded(tmp_path / "a", "engine.py", saved("llama"), "float32", 2, 3, **ops)
    # Handles of kernels are others in every process, and a step may be packed otherwise.
    assert recorded(tmp_path / "again", "engine.py", saved("llama"), "float32", 2, 3, **ops) == plain
    diff = tap.diff(tmp_path / "a", tmp_path / "again")
    assert diff.verdict == "identical", diff
    assert len(diff.tensors) > 500
    one_norm = json.dumps({"epsilon": {"model.layers.1.post_attention_layernorm": 1e-2}})
    recorded(tmp_path / "one norm", "engine.py", saved("llama"), "float32", 2, 3, one_norm, **ops)
    named = tap.diff(tmp_path / "a", tmp_path / "one norm").first.key
    assert named.startswith("model.layers.1.post_attention_layernorm:aten::add.Tensor")
    for name, (edit, operator) in OP_FAULTS.items():
        model = edited_copy(saved("llama"), tmp_path / f"{name} model", **edit)
        recorded(tmp_path / name, "engine.py", model, "float32", 2, 3, **ops)
        diff = tap.diff(tmp_path / "a", tmp_path / name)
        assert diff.verdict == "diverged", (name, diff)
        assert diff.first.key.startswith(operator), (name, diff)


def test_a_rollout_of_the_engine_and_a_training_step(saved, tmp_path):
    texts = recorded(tmp_path / "rollout", "engine.py", saved("llama"), "float32", 4, 8)
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    for name, model in (
        ("trainer", saved("llama")),
        ("wrong", edited_copy(saved("llama"), tmp_path / "wrong model", config=("rms_norm_eps", 1e-2))),
    ):
        run(TTAP, "run", "-o", tmp_path / name, "--", PYTHON, PROGRAMS / "trainer.py", model, tmp_path / "texts.json")
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert found.level == "normal", found
    assert len(found.tokens) == 4 * 8
    assert found.measures["max_abs_logprob"] < 1e-4
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "wrong")
    assert found.level == "faulty", found
    assert found.causes[0] == "diverged: model.layers.0.input_layernorm introduced the error"


PARALLEL = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
ONE_THREAD = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}


def test_two_ranks_agree_with_transformers_and_a_fault_in_one_is_named(saved, tmp_path):
    reference = recorded(tmp_path / "a", "reference.py", saved("llama"), "float32", 3, 4, options=("--roles", "in,out"))
    # Rows 32 to 63 are the second head of the keys, which is in rank 1.
    name = "model.layers.1.self_attn.k_proj"
    wrong = edited_copy(saved("llama"), tmp_path / "wrong", swapped=f"{name}.weight", rows=(40, 50))
    runs = {}
    for run_name, model in (("b", saved("llama")), ("c", wrong)):
        runs[run_name] = recorded(
            tmp_path / run_name, "engine.py", model, "float32", 3, 4, json.dumps(PARALLEL),
            options=("--roles", "in,out"), **ONE_THREAD,
        )  # fmt: skip
    assert runs["b"] == reference
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "within tolerance", diff
    compared, of = leaf_results(diff)
    assert compared >= 0.95 * of, diff
    assert diff.to_json()["tokens"]["requests"] == 3

    diff = tap.diff(tmp_path / "a", tmp_path / "c")
    assert (diff.verdict, diff.first.key) == ("diverged", name), diff
    place = diff.to_json()["first"]
    assert diff.to_json()["passes"][place["pass"]]["tensors"][place["tensor"]]["ranks"] == [1]


BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n", re.M | re.S)


def test_the_document_leads_from_nothing_to_the_answer(tmp_path):
    """Blocks that begin with the name of a file are that file; of what a command prints, the document may show the
    beginning. Numbers are those of one machine."""
    path = f"{PYTHON.parent}:{Path(TTAP).parent}:{os.environ['PATH']}"
    env = environment(PATH=path, PYTHONPATH=str(ROOT / "python"))

    def without_numbers(text):
        return re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "N", text.strip())

    ran = 0
    for kind, text in BLOCK.findall((ROOT / "docs/serving.md").read_text()):
        if kind == "python":
            name = text.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
            continue
        for command in re.split(r"^\$ ", text, flags=re.M)[1:]:
            words, _, shown = command.partition("\n")
            done = subprocess.run(words, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
            if shown:
                assert without_numbers(done.stdout).startswith(without_numbers(shown)), done.stdout + done.stderr
            else:
                assert done.returncode == 0, done.stderr[-3000:]
            ran += 1
    assert ran > 8
