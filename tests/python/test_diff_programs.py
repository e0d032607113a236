"""What is said of two programs of which one has an operator that the other has not."""

import pytest
import tensortap as tap
import torch
from ttap_command import run


def traced(program):
    with tap.trace(level="full") as trace:
        program()
    return trace


def test_a_division_that_was_forgotten_is_not_taken_for_the_ones_that_a_backward_begins_with():
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def step(parts):
        layer.zero_grad(set_to_none=True)
        loss = layer(x).pow(2).mean()
        (loss / parts if parts else loss).backward()

    found = tap.diff(traced(lambda: step(4)), traced(lambda: step(None)))
    assert found.sentence == "diverged: the error begins at backward:aten::div.Tensor, which only A has"
    found = tap.diff(traced(lambda: step(None)), traced(lambda: step(4)))
    assert found.sentence == "diverged: the error begins at backward:aten::div.Tensor, which only B has"


class Head(torch.nn.Module):
    """Ends in logits, which a cap keeps small where there is one."""

    def __init__(self, cap):
        super().__init__()
        self.cap, self.head = cap, torch.nn.Linear(4, 5)

    def forward(self, x):
        y = self.head(x)
        return self.cap * torch.tanh(y / self.cap) if self.cap else y


@pytest.mark.parametrize("tail", [lambda y: y, torch.clone, lambda y: y.view(-1)], ids=["none", "clone", "view"])
def test_a_cap_that_only_one_model_ends_with_is_not_passed_over(tail):
    torch.manual_seed(0)
    capped, x = Head(0.5), torch.randn(2, 4)
    plain = Head(None)
    plain.load_state_dict(capped.state_dict())
    a, b = traced(lambda: tail(capped(x))), traced(lambda: tail(plain(x)))

    found = tap.diff(a, b)
    assert found.sentence == "inconclusive: B ends with head:aten::addmm, from which A goes on to Head:aten::mul.Tensor"
    assert (found.same, found.verdict) == (False, "inconclusive")
    assert (found.first.key, found.first.verdict) == ("Head:aten::div.Tensor", "missing")
    found = tap.diff(b, a)
    assert found.sentence == "inconclusive: A ends with head:aten::addmm, from which B goes on to Head:aten::mul.Tensor"
    assert (found.first.key, found.first.verdict) == ("Head:aten::div.Tensor", "extra")
    assert tap.diff(a, a).same


def decay(layer):
    with torch.no_grad():
        layer.weight.mul_(0.9)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (lambda layer, y: decay(layer), "aten::mul_.Tensor"),
        (lambda layer, y: y.detach().mul_(2), "aten::mul_.Tensor"),
        (lambda layer, y: y.bfloat16(), "aten::_to_copy"),
        (lambda layer, y: y.transpose(0, 1).contiguous(), "aten::clone"),
    ],
    ids=["weights", "in place", "cast", "transposed"],
)
def test_what_only_one_program_does_at_its_end_is_named(more, named, tmp_path):
    torch.manual_seed(0)
    x, start = torch.randn(3, 4), torch.nn.Linear(4, 4).state_dict()

    def step(end):
        layer = torch.nn.Linear(4, 4)
        layer.load_state_dict(start)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)

        def program():
            y = layer(x).relu()
            y.pow(2).mean().backward()
            optimizer.step()
            y = layer(x).relu()
            if end:
                end(layer, y)

        return traced(program)

    found = tap.diff(step(more), step(None))
    assert found.verdict == "inconclusive", found.sentence
    assert named in found.first.key
    step(more).save(tmp_path / "a")
    step(None).save(tmp_path / "b")
    assert run("diff", tmp_path / "a", tmp_path / "b").returncode == 1


def test_programs_that_end_in_other_shapes_are_not_the_same():
    x = torch.randn(3, 4)
    found = tap.diff(traced(lambda: x.relu() * 2), traced(lambda: torch.cat([x.relu(), x])))
    assert found.sentence == "inconclusive: A makes something else of aten::relu, from which B goes on to aten::cat"


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.abs().max().item(),
        lambda y: y.argmax(-1),
        lambda y: y.detach().clone(),
        lambda y: y[0].clone(),
        lambda y: y.detach()[0].clone().zero_(),
        lambda y: torch.zeros_like(y),
        lambda y: torch.rand_like(y),
        lambda y: y.sum().backward(),
    ],
    ids=["item", "argmax", "clone", "part", "cleared", "zeros", "random", "backward"],
)
def test_what_one_program_reads_of_its_end_is_no_difference(read):
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    found = tap.diff(traced(lambda: read(layer(x))), traced(lambda: layer(x)))
    assert found.verdict == "identical", found.sentence


# ---- what is the same though it was made otherwise ----


def test_a_sum_in_another_order_is_rounding():
    torch.manual_seed(0)
    x, a, b = (torch.randn(8, 16) for _ in range(3))
    for level in ("sketch", "full"):
        with tap.trace(level=level) as one:
            torch.tanh((x + a) + b)
        with tap.trace(level=level) as other:
            torch.tanh(x + (a + b))
        found = tap.diff(one, other)
        assert found.same, found
        assert found.verdict == "within tolerance"


def test_products_in_another_order_find_each_other():
    torch.manual_seed(0)
    x, weights = torch.randn(8, 16), [torch.randn(16, 16) for _ in range(3)]
    noise = 1 + 1e-7 * torch.randn(8, 16)

    def program(order, factor):
        products = {i: x * factor @ weights[i] for i in order}
        return sum(products[i].sin() for i in range(3))

    with tap.trace(level="full") as one:
        program([0, 1, 2], torch.ones(8, 16))
    with tap.trace(level="full") as other:
        program([2, 0, 1], noise)
    assert tap.diff(one, other).same


def masked(of_rows):
    """Where nothing is masked, one program sees that early, another makes a mask of it."""
    torch.manual_seed(0)
    scores, steps = torch.randn(2, 5, 5), torch.zeros(2, 5, dtype=torch.long)

    def program():
        if of_rows:
            last = steps[:, -1] == 0
            assert last.all()
            return torch.softmax(scores, -1) @ scores
        mask = steps[:, :, None] == steps[:, None, :]
        return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ scores

    return program


def test_calls_of_one_operator_that_do_other_things_are_no_pair():
    one, other = traced(masked(True)), traced(masked(False))
    found = tap.diff(one, other)
    assert found.same, found
    assert tap.diff(other, one).same


def test_what_a_norm_makes_good_again_is_still_found_where_it_began():
    torch.manual_seed(0)
    x, norm = torch.randn(4, 16), torch.nn.LayerNorm(16, eps=1e-12)
    found = tap.diff(traced(lambda: norm(x * 2)), traced(lambda: norm(x * 3)))
    assert found.verdict == "diverged"
    assert found.first.key == "aten::mul.Tensor"
    found = tap.diff(traced(lambda: norm(x * 2)), traced(lambda: norm(x / 3)))
    assert found.verdict == "diverged"
    assert found.first.key == "aten::mul.Tensor"


def test_a_result_of_another_shape_at_the_end_is_found():
    x = torch.randn(4, 6)
    found = tap.diff(traced(lambda: x.sin().sum(0)), traced(lambda: x.sin().sum(1)))
    assert not found.same


@torch.library.custom_op("ttap_test::rows_by_key", mutates_args=())
def rows_by_key(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The rows sorted by their keys, of equal ones the last first."""
    of_rows = keys.tolist()
    order = sorted(range(len(of_rows)), key=lambda i: (of_rows[i], -i))
    return torch.from_numpy(x.view(torch.int16).numpy()[order]).view(x.dtype)


@pytest.mark.parametrize("moved", [False, True])
def test_rows_that_are_sorted_by_equal_keys_stand_in_any_order(moved):
    torch.manual_seed(0)
    x, weight, keys = torch.randn(80, 64).bfloat16(), torch.randn(64, 32).bfloat16(), torch.randint(0, 6, (80,))

    def program(by_key, x):
        rows = rows_by_key(x, keys) if by_key else x[keys.sort().indices]
        return rows @ weight

    # What goes in differs by rounding on the other side, and by more where something moved.
    other = (x.float() * (1.5 if moved else 1.0005)).bfloat16()
    found = tap.diff(traced(lambda: program(False, x * 1)), traced(lambda: program(True, other * 1)))
    flipped = "inconclusive: rounding, then a near tie flipped at aten::index.Tensor; all that differs follows from it"
    assert (found.sentence == flipped) is not moved, found.sentence
