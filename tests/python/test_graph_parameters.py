"""Parameters in recordings of graphs: their bytes are kept once, and read from the pass that has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from segment_reader import read_segment

torch = pytest.importorskip("torch")
tap = pytest.importorskip("tensortap")

WEIGHT = "%l_fn_parameters_weight_"


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def recorded(directory: Path, calls: int = 3, *, change: int | None = None, **options: object) -> tuple[object, list]:
    """A layer recorded so often, its weight changed before one of the calls; the layer, and the passes."""
    torch.manual_seed(1)
    layer, x = torch.nn.Linear(64, 64), torch.randn(2, 64)
    with tap.graph_backend(directory, report=False, **options) as backend, torch.no_grad():
        compiled = torch.compile(layer, backend=backend)
        for number in range(calls):
            if number == change:
                layer.weight[0, 0] += 1
            compiled(x)
            backend.flush()
    return layer, list(tap.open(directory).ranks[0].passes.values())


def sizes(passes: list) -> list[int]:
    return [Path(each.path).stat().st_size for each in passes]


def test_a_weight_is_written_once(tmp_path):
    layer, passes = recorded(tmp_path)
    first, *others = sizes(passes)
    assert first > 64 * 64 * 4 > max(others)
    for each in passes:
        assert torch.equal(each[WEIGHT], layer.weight)


def test_a_weight_that_has_changed_is_written_again(tmp_path):
    layer, passes = recorded(tmp_path, 4, change=2)
    assert [size > 64 * 64 * 4 for size in sizes(passes)] == [True, False, True, False]
    assert torch.equal(passes[3][WEIGHT], layer.weight)
    assert not torch.equal(passes[1][WEIGHT], layer.weight)


def test_always_means_in_every_pass(tmp_path):
    _, passes = recorded(tmp_path, parameters="always")
    assert min(sizes(passes)) > 64 * 64 * 4


def test_another_format_has_all_in_every_pass(tmp_path):
    recorded(tmp_path, format="safetensors")
    files = sorted(tmp_path.rglob("*.safetensors"))
    assert len(files) == 3
    assert min(file.stat().st_size for file in files) > 64 * 64 * 4


def test_a_wrong_word_is_said():
    with pytest.raises(ValueError, match="parameters"):
        tap.graph_backend(parameters="never")


def test_the_reader_made_from_the_document_finds_them(tmp_path):
    layer, passes = recorded(tmp_path, 2)
    segment = read_segment(passes[1].path)
    (weight,) = [tensor for tensor in segment.tensors if tensor.name == WEIGHT.encode()]
    assert weight.pass_of_bytes == 0
    assert weight.data == layer.weight.detach().numpy().tobytes()


def test_a_pass_alone_says_where_they_are(tmp_path):
    _, passes = recorded(tmp_path / "run", 2)
    alone = tmp_path / "pass00001.ttap"
    alone.write_bytes(Path(passes[1].path).read_bytes())
    read = tap.open(alone)
    (each,) = read.ranks[0].passes.values()
    with pytest.warns(UserWarning, match="no bytes"):
        assert WEIGHT not in tap.load_pass(alone)
    with pytest.raises(Exception, match="pass 0"):
        each[WEIGHT]
    (weight,) = [tensor for tensor in read_segment(alone).tensors if tensor.name == WEIGHT.encode()]
    assert weight.data is None
