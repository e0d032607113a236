"""`ttap mismatch`: a rollout that generates texts, a trainer that is trained on them, and why they disagree."""

import copy
import json
import math
import xml.etree.ElementTree

import numpy as np
import pytest
import tensortap as tap
import torch
from ttap_command import run as ttap

transformers = pytest.importorskip("transformers")

PROMPTS = [[5, 9, 11, 3, 8], [7, 2, 6], [12, 4, 10, 9, 1, 13, 3]]
STEPS = 8


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    made = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)  # else every token is about as likely as any other
    return made


@torch.no_grad()
def roll_out(model, directory, temperature=1.0, **options):
    """Generates texts one by one; returns them."""
    torch.manual_seed(1)
    texts = []
    with tap.record(model, directory, report=False, **options):
        for prompt in PROMPTS:
            ids = torch.tensor([prompt])
            text = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=STEPS,
                min_new_tokens=STEPS,
                do_sample=True,
                temperature=temperature,
                top_k=0,
                pad_token_id=0,
            )
            texts.append(text[0].tolist())
    return texts


def train(model, directory, texts, **options):
    """The forward of a training step over all texts, padded at the right; returns the logits."""
    longest = max(map(len, texts))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    with tap.record(model, directory, report=False, **options):
        return model(ids, attention_mask=mask).logits


def numpy_logprobs(logits, texts, temperature=1.0):
    """For each text the log-probabilities of what was generated."""
    found = []
    for row, text, prompt in zip(logits.detach().double().numpy() / temperature, texts, PROMPTS, strict=True):
        values = row - row.max(-1, keepdims=True)
        values = values - np.log(np.exp(values).sum(-1, keepdims=True))
        found.append([values[at - 1, text[at]] for at in range(len(prompt), len(text))])
    return found


def test_numbers_are_those_of_numpy(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.model.norm.weight.mul_(1.1)
    logits = train(wrong, tmp_path / "trainer", texts)
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    a = np.concatenate(numpy_logprobs(train(model, tmp_path / "again", texts), texts))
    b = np.concatenate(numpy_logprobs(logits, texts))
    # The last token of each text was given to the trainer only.
    assert len(found.tokens) == len(PROMPTS) * STEPS == len(a)
    np.testing.assert_allclose([token.rollout for token in found.tokens], a, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([token.trainer for token in found.tokens], b, rtol=1e-12)
    assert [token.token for token in found.tokens] == [
        token for text, prompt in zip(texts, PROMPTS, strict=True) for token in text[len(prompt) :]
    ]
    a = np.array([token.rollout for token in found.tokens])
    change, r = np.abs(np.exp(a) - np.exp(b)), b - a
    expected = {
        "mean_abs_probability": change.mean(),
        "max_abs_probability": change.max(),
        "std_abs_probability": change.std(),
        "pearson": np.corrcoef(np.exp(a), np.exp(b))[0, 1],
        "mean_abs_logprob": np.abs(r).mean(),
        "max_abs_logprob": np.abs(r).max(),
        "k1": -r.mean(),
        "k3": (np.exp(r) - 1 - r).mean(),
        "beyond": (np.abs(r) > math.log(1.2)).sum(),
        "rollout_perplexity": np.exp(-a.mean()),
        "trainer_perplexity": np.exp(-b.mean()),
    }
    for name, value in expected.items():
        assert found.measures[name] == pytest.approx(value, rel=1e-9), name
    order = np.argsort(-np.abs(r), kind="stable")[:10]
    assert [token.position for token in found.worst] == [found.tokens[i].position for i in order]


def test_the_divergence_over_the_vocabulary_is_exact(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.lm_head.weight[7] *= 1.5
    a = torch.log_softmax(train(model, tmp_path / "again", texts).double(), -1)
    b = torch.log_softmax(train(wrong, tmp_path / "trainer", texts).double(), -1)
    kl = (a.exp() * (a - b)).sum(-1)
    rows = [kl[i, len(prompt) - 1 : len(prompt) - 1 + STEPS] for i, prompt in enumerate(PROMPTS)]
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer", cause=False)
    assert found.measures["kl"] == pytest.approx(torch.cat(rows).mean().item(), rel=1e-4)


def test_the_same_model_is_normal(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")
    train(model, tmp_path / "trainer", texts)
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert found.level == "normal"
    assert found.measures["max_abs_logprob"] < 1e-4
    assert not any("introduced" in cause or "temperature" in cause for cause in found.causes)
    done = ttap("mismatch", tmp_path / "rollout", tmp_path / "trainer")
    assert done.returncode == 0
    assert done.stdout.startswith("normal: probabilities differ by ")


# ---- planted causes ----


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_a_temperature_that_the_trainer_leaves_out(temperature, model, tmp_path):
    # The engine returns log-probabilities of what it sampled from; the trainer takes the logits as they are.
    with tap.record(None, tmp_path / "engine", report=False):
        texts = roll_out(model, tmp_path / "rollout", temperature)
        logits = train(model, tmp_path / "trainer", texts)
        tap.logprobs(texts, numpy_logprobs(logits, texts, temperature))
    found = tap.mismatch(tmp_path / "engine", tmp_path / "trainer")
    assert found.level == "faulty"
    assert found.causes[0] == (
        f"temperature: the rollout's log-probabilities are those of its own logits at temperature {temperature}"
    )


def test_logits_that_the_trainer_divides(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")

    class Divided(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model.lm_head

        def forward(self, hidden):
            return self.inner(hidden) / 0.8

    wrong = copy.deepcopy(model)
    wrong.lm_head = Divided()
    train(wrong, tmp_path / "trainer", texts, modules="all")
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert found.level == "faulty"
    assert found.causes[0] == (
        "temperature: the trainer's log-probabilities are those of the rollout's logits at temperature 0.8"
    )


def test_a_wrong_norm_is_named(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")
    wrong = copy.deepcopy(model)
    wrong.model.layers[1].post_attention_layernorm.variance_epsilon = 0.5
    train(wrong, tmp_path / "trainer", texts)
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert found.level == "faulty"
    assert "model.layers.1.post_attention_layernorm introduced the error" in found.causes[0]


def test_a_head_in_bf16_is_named(model, tmp_path):
    rounded = copy.deepcopy(model)
    head = rounded.lm_head
    head.weight.data = head.weight.data.bfloat16()
    head.register_forward_pre_hook(lambda _, args: (args[0].bfloat16(),))
    texts = roll_out(rounded, tmp_path / "rollout")
    train(model, tmp_path / "trainer", texts)
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert "dtype: lm_head is bf16 in the rollout and f32 in the trainer" in found.causes
    assert found.to_json()["from_rollout"]["dtype"] == "bf16"


# ---- what was recorded ----


def test_recorded_log_probabilities_on_both_sides_need_no_model(model, tmp_path):
    texts = [[1, 2, 3, 4], [5, 6, 7]]
    with tap.record(None, tmp_path / "rollout", report=False):
        tap.logprobs(texts, [[-0.5, -1.0], [-2.0, -0.1]], request_ids=["x", "y"])
    with tap.record(None, tmp_path / "trainer", report=False):
        tap.logprobs(texts[::-1], [torch.tensor([-2.0, -0.3]), torch.tensor([-0.5, -1.5, -1.0])])
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert [(token.request, token.position, token.token) for token in found.tokens] == [
        ("x", 2, 3),
        ("x", 3, 4),
        ("y", 1, 6),
        ("y", 2, 7),
    ]
    assert [token.trainer - token.rollout for token in found.tokens] == pytest.approx([-1.0, 0.0, 0.0, -0.2])
    assert "only log-probabilities" in found.to_json()["not_compared"]
    assert "no cause" in str(found)


def test_texts_that_go_different_ways_are_compared_up_to_there(tmp_path):
    with tap.record(None, tmp_path / "rollout", report=False):
        tap.logprobs([[1, 2, 3, 4]], [[-0.5, -1.0, -1.0]])
    with tap.record(None, tmp_path / "trainer", report=False):
        tap.logprobs([[1, 2, 9, 4]], [[-0.5, -1.0, -1.0]])
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert [token.position for token in found.tokens] == [1]
    assert "token 2 is 3 in one run and 9 in the other" in found.to_json()["notes"][0]


def test_a_token_with_nan_is_faulty_and_listed_first(tmp_path):
    with tap.record(None, tmp_path / "rollout", report=False):
        tap.logprobs([[1, 2, 3]], [[-0.5, -1.0]])
    with tap.record(None, tmp_path / "trainer", report=False):
        tap.logprobs([[1, 2, 3]], [[-0.5, -math.inf]])
    found = tap.mismatch(tmp_path / "rollout", tmp_path / "trainer")
    assert found.level == "faulty"
    assert found.measures["nonfinite"] == 1
    assert found.worst[0].position == 2


@pytest.mark.parametrize(
    ("texts", "values", "message"),
    [
        ([[1, 2]], [[-1.0, -1.0, -1.0]], "text 0 has 2 tokens and 3 log-probabilities"),
        ([[1, 2], [3]], [[-1.0]], "2 texts, 1 lists"),
        ([], [], "0 texts"),
    ],
)
def test_what_makes_no_sense_is_refused(texts, values, message):
    with pytest.raises(ValueError, match=message):
        tap.logprobs(texts, values)


# ---- the command ----


def test_the_command_prints_writes_and_fails(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.model.norm.weight.mul_(1.3)
    train(wrong, tmp_path / "trainer", texts)
    words = ("mismatch", tmp_path / "rollout", tmp_path / "trainer")
    done = ttap(*words, "--plot", tmp_path / "plot.svg")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("faulty: probabilities differ by ")
    for part in ("cause", "change of p", "KL", "perplexity", "worst tokens", "plot: "):
        assert part in done.stdout
    picture = xml.etree.ElementTree.parse(tmp_path / "plot.svg").getroot()
    circles = [element for element in picture.iter() if element.tag.endswith("circle")]
    assert len(circles) == 2 * len(PROMPTS) * STEPS
    told = json.loads(ttap(*words, "--json", "--no-cause").stdout)
    assert told["diff"] is None
    assert len(told["tokens"]) == len(PROMPTS) * STEPS
    refused = ttap(*words, "--rollout-logits", "model.norm")
    assert refused.returncode == 2
    assert "the rollout has no result 'model.norm'" in refused.stderr
    assert "--ratio is not more than 1" in ttap(*words, "--ratio", "1").stderr


def test_a_run_that_says_no_tokens_is_an_error_with_what_to_do(model, tmp_path):
    texts = roll_out(model, tmp_path / "rollout")
    linear = torch.nn.Linear(4, 4)
    with tap.record(linear, tmp_path / "trainer", report=False):
        linear(torch.ones(2, 4))
    done = ttap("mismatch", tmp_path / "rollout", tmp_path / "trainer")
    assert done.returncode == 2
    assert "the trainer does not say which tokens it computed" in done.stderr
    assert "tap.logprobs()" in done.stderr
    # Fingerprints have no rows.
    train(model, tmp_path / "hashes", texts, level="fingerprint")
    done = ttap("mismatch", tmp_path / "rollout", tmp_path / "hashes")
    assert done.returncode == 2
    assert "the trainer kept no logits" in done.stderr
