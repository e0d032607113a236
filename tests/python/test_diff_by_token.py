"""Two programs that compute the same tokens in other rows and other passes are compared token by token."""

import pytest
import tensortap as tap
import torch
from packed_rows import PROMPTS, VOCABULARY, WHOLE, WIDTH, run_packed
from torch import nn

transformers = pytest.importorskip("transformers")


def language_model(seed=0, **changes):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        **changes,
    )
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def generate(model, prompts, steps=3):
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=steps, min_new_tokens=steps, do_sample=False, pad_token_id=0
    )


def one_by_one(model, directory):
    with tap.record(model, directory, report=False):
        for prompt in PROMPTS:
            generate(model, [prompt])
    return directory


# ---- Transformers against Transformers ----


def test_a_padded_batch_agrees_with_its_texts_one_by_one(tmp_path):
    model = language_model()
    one_by_one(model, tmp_path / "a")
    with tap.record(model, tmp_path / "b", report=False):
        generate(model, PROMPTS)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    tokens = diff.to_json()["tokens"]
    assert tokens["requests"] == 3
    # The last token that is generated is given to nobody.
    assert tokens["tokens"] == sum(map(len, PROMPTS)) + 2 * 3
    assert (tokens["passes_a"], tokens["passes_b"]) == (9, 3)
    assert {tensor.verdict for tensor in diff.tensors} <= {"identical", "within tolerance"}


def test_a_whole_text_agrees_with_its_generation(tmp_path):
    model = language_model()
    with tap.record(model, tmp_path / "a", report=False):
        texts = generate(model, PROMPTS[:1])
    with tap.record(model, tmp_path / "b", report=False), torch.no_grad():
        model(input_ids=texts)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    # Logits were made for the last tokens in A, for all in B: those of both are compared.
    head = next(tensor for tensor in diff.tensors if tensor.key == "lm_head")
    assert head.verdict in ("identical", "within tolerance")


def test_a_cache_that_the_program_hands_on_goes_on_with_the_same_texts(tmp_path):
    model = language_model()
    ids = torch.tensor([PROMPTS[0]])
    with tap.record(model, tmp_path / "a", report=False), torch.no_grad():
        first = model(input_ids=ids[:, :3], use_cache=True)
        model(input_ids=ids[:, 3:], past_key_values=first.past_key_values, use_cache=True)
    with tap.record(model, tmp_path / "b", report=False), torch.no_grad():
        model(input_ids=ids)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    assert diff.to_json()["tokens"]["tokens"] == 5


def test_a_wrong_layer_is_named_across_passes(tmp_path):
    one_by_one(language_model(), tmp_path / "a")
    wrong = language_model()
    with torch.no_grad():
        wrong.model.layers[1].mlp.up_proj.weight[3] *= 1.5
    with tap.record(wrong, tmp_path / "b", report=False):
        generate(wrong, PROMPTS)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "diverged"
    assert diff.first.key == "model.layers.1.mlp.up_proj"


def test_passes_that_hold_the_same_tokens_are_compared_pass_by_pass(tmp_path):
    model = language_model()
    diff = tap.diff(one_by_one(model, tmp_path / "a"), one_by_one(model, tmp_path / "b"))
    assert diff.verdict == "identical"
    report = diff.to_json()
    assert report["tokens"] is None
    assert len(report["passes"]) == 9
    by_token = tap.diff(tmp_path / "a", tmp_path / "b", by_token=True)
    assert by_token.verdict == "identical"
    assert len(by_token.to_json()["passes"]) == 1


def test_texts_that_have_nothing_in_common_are_no_agreement(tmp_path):
    model = language_model()
    for name, prompt in (("a", [1, 2, 3]), ("b", [4, 5, 6, 7])):
        with tap.record(model, tmp_path / name, report=False):
            generate(model, [prompt])
    with pytest.raises(FileNotFoundError, match="no token was computed by both"):
        tap.diff(tmp_path / "a", tmp_path / "b")


def test_a_run_that_does_not_say_its_tokens_cannot_be_compared_by_them(tmp_path):
    with tap.record(linear := nn.Linear(4, 4), tmp_path / "run", report=False):
        linear(torch.ones(1, 4))
    with pytest.raises(FileNotFoundError, match="does not say which tokens"):
        tap.diff(tmp_path / "run", tmp_path / "run", by_token=True)


# ---- an engine that packs its rows ----


class Plain(nn.Module):
    """Rows by request: [1, T, width]."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.q_proj = nn.Linear(WIDTH, 8, bias=False)
        self.k_proj = nn.Linear(WIDTH, 4, bias=False)
        self.mix = nn.Linear(12, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(self.mix(torch.cat((self.q_proj(x), self.k_proj(x)), -1)))


class Packed(nn.Module):
    """The same weights, rows of all requests in one, and logits of the last of each."""

    def __init__(self, plain):
        super().__init__()
        self.embed, self.mix, self.head = plain.embed, plain.mix, plain.head
        self.qk_proj = nn.Linear(WIDTH, 12, bias=False)
        with torch.no_grad():
            self.qk_proj.weight.copy_(torch.cat((plain.q_proj.weight, plain.k_proj.weight)))

    def forward(self, ids, last):
        return self.head(self.mix(self.qk_proj(self.embed(ids)))[last])


@torch.no_grad()
def run_plain(model, directory):
    with tap.record(model, directory, report=False):
        for number, prompt in enumerate(PROMPTS):
            length = torch.tensor([0, len(prompt)])
            tap.batch(
                request_ids=[f"text {number}"],
                positions=torch.arange(len(prompt)),
                query_start=length,
                token_ids=torch.tensor(prompt),
            )
            model(torch.tensor([prompt]))


@pytest.mark.parametrize(
    "chunks",
    [[WHOLE], [[(0, 0, 2), (1, 0, 3)], [(0, 2, 5), (2, 0, 4)], [(2, 4, 7)]]],
    ids=["one step", "chunked prefill"],
)
@pytest.mark.parametrize("padding", [0, 5])
def test_packed_rows_agree_with_rows_by_request(tmp_path, chunks, padding):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    run_packed(Packed(plain), tmp_path / "b", chunks, padding)
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    matched = {tensor.key: tensor.key_b or tensor.key for tensor in diff.tensors if tensor.verdict != "missing"}
    assert matched["q_proj"] == matched["k_proj"] == "qk_proj"
    assert {"embed", "mix", "head"} <= set(matched)


def test_a_wrong_row_of_a_fused_projection_is_named(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    packed = Packed(plain)
    with torch.no_grad():
        packed.qk_proj.weight[9] *= 3
    run_packed(packed, tmp_path / "b", [WHOLE])
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert (diff.verdict, diff.first.key) == ("diverged", "k_proj"), diff


def test_tokens_of_a_cached_prefix_are_said_to_be_only_in_the_other(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    run_packed(Packed(plain), tmp_path / "b", [[(2, 4, 7), (0, 0, 5), (1, 0, 3)]])
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict in ("identical", "within tolerance"), diff
    assert diff.to_json()["tokens"]["only_a"] == 4


def test_a_step_that_warms_up_is_never_compared(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    packed = Packed(plain)
    run = tmp_path / "c"
    with tap.record(packed, run, report=False), torch.no_grad():
        tap.batch(request_ids=[], positions=torch.zeros(0), query_start=[0], dummy=True)
        packed(torch.zeros(4, dtype=torch.long), torch.tensor([3]))
        tap.batch(request_ids=["0"], positions=torch.arange(5), query_start=[0, 5], token_ids=torch.tensor(PROMPTS[0]))
        packed(torch.tensor(PROMPTS[0]), torch.tensor([4]))
    diff = tap.diff(tmp_path / "a", run)
    assert diff.verdict in ("identical", "within tolerance"), diff
    assert diff.to_json()["tokens"]["passes_b"] == 1


def test_the_reference_may_not_stay_mostly_unmatched(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    packed = Packed(plain)
    run_packed(packed, tmp_path / "b", [WHOLE], filter="embed")
    diff = tap.diff(tmp_path / "a", tmp_path / "b")
    assert diff.verdict == "inconclusive", diff


def test_fingerprints_have_no_rows(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    run_packed(Packed(plain), tmp_path / "b", [WHOLE], level="sketch")
    with pytest.raises(FileNotFoundError, match="B kept no bytes"):
        tap.diff(tmp_path / "a", tmp_path / "b")


# ---- tap.batch ----


def test_a_batch_costs_nothing_and_says_nothing_without_a_recording():
    tap.batch(request_ids=["0"], positions=torch.arange(3), query_start=[0, 3])


def test_a_batch_that_makes_no_sense_is_an_error_of_the_comparison_only(tmp_path):
    plain = Plain()
    run_plain(plain, tmp_path / "a")
    with tap.record(plain, tmp_path / "b", report=False), torch.no_grad():
        tap.batch(request_ids=["0", "1"], positions=torch.arange(3), query_start=[0, 3])
        plain(torch.tensor([[1, 2, 3]]))
    with pytest.raises(tap.FormatError, match="2 requests, and 2 places where they begin"):
        tap.diff(tmp_path / "a", tmp_path / "b", by_token=True)
    assert "compared pass by pass: the batch of rank 0, pass 0 makes no sense" in str(
        tap.diff(tmp_path / "a", tmp_path / "b")
    )
    assert tap.diff(tmp_path / "a", tmp_path / "b", by_token=False).verdict == "diverged"


# ---- what is not there ----


def test_a_token_that_was_skipped_is_told(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH))
    text = [5, 9, 11, 3]

    def run(directory, decoded):
        with tap.record(model, directory, report=False):
            for first, end, position in [(0, 2, 0), *decoded]:
                tokens = torch.tensor(text[first:end])
                positions = torch.arange(end - first) + position
                tap.batch(request_ids=["x"], positions=positions, query_start=[0, end - first], token_ids=tokens)
                model(tokens)
        return directory

    run(tmp_path / "a", [(2, 3, 2), (3, 4, 3)])
    run(tmp_path / "b", [(3, 4, 3)])
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert found.verdict == "inconclusive"
    assert found.sentence.startswith("inconclusive: 1 token was computed by one side only, between others")
    assert "request x: B did not compute token 2, between others that it did" in str(found)


def test_of_fingerprints_passes_with_the_same_tokens_are_compared(tmp_path):
    model = language_model()
    for name, steps in (("a", 3), ("b", 4)):
        with tap.record(model, tmp_path / name, report=False, level="fingerprint"):
            generate(model, [PROMPTS[0]], steps)
            generate(model, [PROMPTS[1]], steps)
    found = tap.diff(tmp_path / "a", tmp_path / "b")
    assert found.verdict == "identical", found
    assert "not compared: passes 3, 4, 5, which hold other tokens in A than in B" in str(found)
    with pytest.raises(OSError, match="kept no bytes"):
        tap.diff(tmp_path / "a", tmp_path / "b", by_token=True)
