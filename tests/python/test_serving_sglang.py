"""A real serving engine, SGLang on the CPU, against Transformers: its scheduler, runner, models and layers as they are,
with PyTorch's operators in place of its compiled kernels.

The engine has an environment of its own, which `scripts/setup_engine.sh sglang` installs; without it these tests are
skipped.
"""

import json
import os

import pytest
import tensortap as tap
from serving_programs import Environment, edited_copy, leaf_results

ENGINE = Environment("sglang")

pytestmark = pytest.mark.skipif(not ENGINE.installed, reason="no SGLang: scripts/setup_engine.sh sglang installs it")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Where a model is saved, by name."""
    return ENGINE.saver(tmp_path_factory)


def both(tmp_path, model, of_engine=None, count=3, steps=4, engine=None, **options):
    """The answers of both programs, and how their recordings compare."""
    words = ("float32", count, steps)
    reference = ENGINE.recorded(tmp_path / "a", "reference.py", model, *words, **options)
    more = [json.dumps(engine)] if engine else []
    answers = ENGINE.recorded(tmp_path / "b", "sglang_engine.py", of_engine or model, *words, *more, **options)
    return reference, answers, tap.diff(tmp_path / "a", tmp_path / "b")


AGREEING = {
    "llama, inputs too": ("llama", {}, ("--roles", "in,out"), 1),
    "llama, prefix cache, chunked prefill": (
        "llama", {"disable_radix_cache": False, "chunked_prefill_size": 8}, ("--modules", "all"), 0.9),
    # Its norms of queries and keys have a row for each head.
    "qwen3 with experts": ("qwen3_moe", {}, (), 0.75),
}  # fmt: skip


@pytest.mark.parametrize("name", AGREEING)
def test_a_sound_engine_agrees_with_transformers(name, saved, tmp_path):
    model, engine, options, least = AGREEING[name]
    reference, answers, diff = both(tmp_path, saved(model), engine=engine, options=options)
    assert answers == reference
    assert diff.verdict == "within tolerance", diff
    assert diff.to_json()["tokens"]["requests"] == 3
    compared, of = leaf_results(diff)
    assert compared >= least * (of - 2), diff  # the rotary embedding gives cosines and sines there


def test_a_fault_in_the_engine_is_named(saved, tmp_path):
    wrong = edited_copy(saved("llama"), tmp_path / "wrong", config=("rope_parameters.rope_theta", 5000.0))
    *_, diff = both(tmp_path, saved("llama"), wrong)
    assert diff.sentence == "diverged: model.layers.0.self_attn.attn introduced the error"


def test_weights_are_compared_as_they_were_loaded(saved, tmp_path):
    wrong = edited_copy(saved("llama"), tmp_path / "wrong", swapped="model.layers.1.self_attn.k_proj.weight")
    *_, diff = both(tmp_path, saved("llama"), wrong, count=1, steps=2, options=("--roles", "out,param"))
    assert diff.sentence == (
        "diverged: the parameter model.layers.1.self_attn.k_proj@param/weight differs: rows 3 and 7 are swapped in B"
    )


def test_the_activation_of_gemma_is_named(saved, tmp_path):
    """SGLang 0.5.23 computes GELU where the configuration says its approximation by tanh."""
    *_, diff = both(tmp_path, saved("gemma"))
    assert diff.sentence == "diverged: model.layers.0.mlp.act_fn introduced the error"
    embedding = next(tensor for tensor in diff.tensors if tensor.key == "model.embed_tokens")
    assert embedding.verdict in ("identical", "within tolerance")


TWO_RANKS = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1", "TORCH_COMPILE_DISABLE": "1"}


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a core for each rank")
def test_two_ranks_agree_and_a_fault_in_one_is_named(saved, tmp_path):
    tp = {"engine": {"tp_size": 2}, "options": ("--roles", "in,out"), **TWO_RANKS}
    reference, answers, diff = both(tmp_path / "sound", saved("llama"), **tp)
    assert answers == reference
    assert diff.verdict == "within tolerance", diff
    # Rows 32 to 63 are the second head of the keys, which is in rank 1.
    name = "model.layers.1.self_attn.k_proj"
    wrong = edited_copy(saved("llama"), tmp_path / "wrong", swapped=f"{name}.weight", rows=(40, 50))
    *_, diff = both(tmp_path / "faulty", saved("llama"), wrong, **tp)
    assert (diff.verdict, diff.first.key) == ("diverged", name), diff
