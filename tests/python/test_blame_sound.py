"""Sound operators of every kind: nothing of what they compute is above the line."""

import pytest
import tensortap as tap
import torch
from tensortap.replaying.bounds import attention
from torch import nn
from torch.nn import functional as F

HALF = (torch.bfloat16, torch.float16)
ALL = (torch.float32, *HALF)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def scaled_sums(dtype):
    x, y = randn(64, 64, dtype=dtype), randn(64, 64, dtype=dtype)
    return x.add(y, alpha=-0.7), x.sub(y, alpha=0.3), torch.rsub(x, y, alpha=0.3), x + 0.01, x.clamp(-0.99, 0.99)


def momentum(dtype):
    model = nn.Linear(16, 8).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        model(randn(4, 16, dtype=dtype)).square().mean().backward()
        optimizer.step()


def of_several_steps(dtype):
    x, y = randn(64, 64, dtype=dtype), randn(64, 64, dtype=dtype)
    torch.logit(torch.rand(64, 64).to(dtype))
    torch.xlogy(x, y.abs())
    torch.div(x, y, rounding_mode="trunc")
    torch.div(x, y, rounding_mode="floor")
    torch.floor_divide(x, y)
    x.logsumexp(1)


def losses(dtype):
    for classes in (10, 3000):
        F.cross_entropy(randn(64, classes, dtype=dtype).requires_grad_(), torch.randint(classes, (64,))).backward()


def bags(dtype):
    for mode in ("sum", "mean"):
        bag = nn.EmbeddingBag(50, 16, mode=mode).to(dtype)
        bag(torch.randint(50, (4, 40))).square().sum().backward()
    randn(10, 5, dtype=dtype).index_reduce(0, torch.randint(10, (40,)), randn(40, 5, dtype=dtype), "mean")


def interpolation(dtype):
    x = torch.randn(1, 4, 37, 37, requires_grad=True)
    for mode in ("bilinear", "bicubic"):
        for options in ({}, {"align_corners": True}, {"antialias": True}):
            F.interpolate(x, size=(50, 61), mode=mode, **options).square().sum().backward()
    F.interpolate(torch.randn(1, 1, 128, 128), size=(300, 300), mode="bicubic")
    F.interpolate(torch.randn(1, 2, 9, 9, 9), size=(14, 15, 16), mode="trilinear")


def complex_products(dtype):
    a, b = torch.randn(128, 64, dtype=torch.complex64), torch.randn(64, 128, dtype=torch.complex64)
    return a @ b, a[None] @ b[None], a.sum(0), a.mean(1), a.cumsum(0)


def decompositions(dtype):
    a = torch.randn(16, 16)
    torch.linalg.eigh(a @ a.T)
    torch.linalg.svd(a)
    torch.linalg.eig(a)


def alignment_loss(dtype):
    scores = torch.randn(50, 4, 20).log_softmax(2).requires_grad_()
    lengths = torch.tensor([10, 7, 9, 10])
    F.ctc_loss(scores, torch.randint(1, 20, (4, 10)), torch.full((4,), 50), lengths).backward()


@pytest.mark.parametrize(
    ("work", "dtype"),
    [(each, dtype) for each in (scaled_sums, momentum, of_several_steps, losses, bags) for dtype in ALL]
    + [(each, torch.float32) for each in (interpolation, complex_products, decompositions, alignment_loss)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_is_above_the_line(work, dtype, seed):
    torch.manual_seed(seed)
    with tap.trace(level="full") as trace:
        work(dtype)
    found = tap.blame(trace)
    assert found.findings == [], found
    assert found.judged > 0


def test_vectors_of_any_sign_are_not_judged():
    with tap.trace(level="full") as trace:
        torch.linalg.eig(torch.randn(8, 8))
    (refused,) = [one for one in tap.blame(trace, all=True).refused if one.op == "aten::linalg_eig"]
    assert refused.reason == "the result /0 is one of many that are right"


@torch.library.custom_op("sound_test::only_f32", mutates_args=())
def only_f32(x: torch.Tensor) -> torch.Tensor:
    assert x.dtype == torch.float32, "made for f32"
    return {torch.float32: x * 2}[x.dtype]


def test_an_operator_that_takes_one_dtype_alone_is_no_end_of_a_blame():
    with tap.trace(level="full") as trace:
        torch.ops.sound_test.only_f32(torch.ones(4)) + 1
    found = tap.blame(trace)
    assert found.judged == 2
    assert [one.reason for one in found.refused] == ["the operator refused the call: made for f32"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_said():
    with tap.trace(level="full") as trace:
        torch.ones(2) + 1
    with pytest.raises(ValueError, match="there is no device cuda here"):
        tap.blame(trace, device="cuda")


@pytest.mark.parametrize("most", [1, 9 * 9 * 2, 9 * 9 * 4])
def test_attention_in_pieces_has_the_same_bounds(monkeypatch, most):
    torch.manual_seed(0)
    query = torch.randn(3, 4, 9, 8, requires_grad=True)
    key, value = (torch.randn(3, 2, 9, 8, requires_grad=True) for _ in range(2))
    with tap.trace(level="full") as trace:
        made = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        made.square().sum().backward()
    whole = tap.blame(trace, top=100).calls
    monkeypatch.setattr(attention, "_MOST_SCORES", most)
    pieces = tap.blame(trace, top=100).calls
    assert [one.key for one in pieces] == [one.key for one in whole]
    assert [one.error.bounds for one in pieces] == pytest.approx([one.error.bounds for one in whole], rel=1e-6)
    assert sum("attention" in one.op for one in whole) == 2
