"""A Llama under CUDA graphs: every replay is recorded, in order, with the values of an eager run."""

import pytest
import tensortap as tap
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")
transformers = pytest.importorskip("transformers")

REPLAYS = 1000


def llama(dtype=torch.bfloat16):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256,
        vocab_size=512, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to("cuda", dtype).eval()


def capture(model, ids):
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                model(ids)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = model(ids).logits
    return graph, logits


def outputs(records):
    """But for what the attention keeps for its backward, which is not read."""
    made = [record for record in records if record.role == "out"]
    assert all("attention" in record.key for record in made if record.level == "meta")
    return {record.key: record.hash for record in made if record.level != "meta"}


def test_a_thousand_replays_of_a_decode_are_recorded_in_order_with_the_values_of_an_eager_run(tmp_path):
    model = llama()
    ids = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    tokens = torch.randint(0, 512, (REPLAYS,), generator=torch.Generator().manual_seed(1)).tolist()
    recording = tap.record(model, tmp_path / "graph", ops=True, level="fingerprint", report=False)
    graph, _ = capture(model, ids)
    for token in tokens:
        ids.fill_(token)
        graph.replay()
    recording.close()
    with tap.record(model, tmp_path / "eager", ops=True, level="fingerprint", report=False), torch.no_grad():
        for token in range(512):
            model(torch.full((1, 1), token, device="cuda"))

    eager = [outputs(each.records) for each in tap.open(tmp_path / "eager").ranks[0].passes.values()]
    passes = list(tap.open(tmp_path / "graph").ranks[0].passes.values())
    replays = passes[-REPLAYS:]
    assert len(passes) == REPLAYS + 3  # two to warm up, the capture
    assert all(each.ending == "complete" for each in passes)
    for token, replay in zip(tokens, replays):
        seen, expected = outputs(replay.records), eager[token]
        assert None not in seen.values()
        # transformers makes the attention mask another way while a graph is captured, and so PyTorch takes another
        # kernel for the attention; for one token both compute the same bits, and all else is the same program.
        common = seen.keys() & expected.keys()
        assert {key: seen[key] for key in common} == {key: expected[key] for key in common}
        assert {key for key in expected if ":" not in key} <= common  # every module
        assert len(common) > 150


def test_the_same_bits_with_taps_in_the_graph_of_a_llama():
    model = llama()
    ids = torch.zeros(1, 8, dtype=torch.long, device="cuda")
    plain, expected = capture(model, ids)
    with tap.trace(model, hashes=True):
        tapped, logits = capture(model, ids)
        for token in range(20):
            ids.fill_(token)
            plain.replay()
            tapped.replay()
            assert torch.equal(logits, expected)


def test_the_same_bits_forward_and_backward_of_a_llama(tmp_path):
    model = llama(torch.float32).train()
    ids = torch.randint(0, 512, (2, 16), device="cuda", generator=torch.Generator("cuda").manual_seed(3))

    def step():
        model.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        return [loss.detach().clone(), *(parameter.grad.clone() for parameter in model.parameters())]

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        plain = step()
        with tap.trace(model, hashes=True):
            traced = step()
        with tap.record(model, tmp_path, ops=True, level="full", roles="out,in,grad_out", report=False):
            recorded = step()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(plain, traced, recorded))


def test_padded_rows_are_left_out(tmp_path):
    model = torch.nn.Linear(4, 4).cuda().eval()
    x = torch.randn(64, 4, device="cuda")
    alive = torch.tensor(64, device="cuda")
    whole = torch.nn.Sequential(model)
    with tap.record(whole, tmp_path / "run", ops=True, level="full", rows=alive, padded=64, report=False):
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            whole(x)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                out = whole(x)
        for rows in (3, 0, 64):
            alive.fill_(rows)
            graph.replay()
            torch.cuda.synchronize()
    replays = list(tap.open(tmp_path / "run").ranks[0].passes.values())[-3:]
    for rows, replay in zip((3, 0, 64), replays):
        assert replay.record("0").shape == (rows, 4)
        assert torch.equal(replay["0"], out[:rows].cpu())
