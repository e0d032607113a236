"""Two runs of one program, bit for bit: where differences begin, what only received them, and what is no difference."""

import ctypes
import itertools
import random
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensortap as tap
import torch
from tensortap.repeating.alignment import aligned, in_order
from ttap_command import ROOT

sys.path.insert(0, str(ROOT / "bench/repeats"))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import differing
    import repeating

HAS_GPU = torch.cuda.is_available()


def traced(work, *given, **options):
    options = {"level": "fingerprint", "stacks": True, "unseen_writes": True} | options
    with warnings.catch_warnings(), tap.trace(**options) as trace:
        warnings.simplefilter("ignore")
        work(*given)
    return trace


def compared(work, first=(), second=(), **options):
    return tap.same_bits(traced(work, *first, **options), traced(work, *second, **options))


@pytest.mark.parametrize("program", differing.PROGRAMS, ids=lambda program: program.name)
def test_the_call_where_a_program_begins_to_differ_is_named(program):
    if program.needs == "gpu" and not HAS_GPU:
        pytest.skip("skipped: no GPU")
    if program.needs == "processes":
        pytest.skip("skipped: it differs between processes, and test_twice.py runs some of these")
    found = compared(program.run)
    assert not found.ok
    assert (found.first.op, found.first.kind in program.kinds) == (program.op, True), found
    assert found.first.certain
    assert found.first.line
    assert found.received > 0 or found.first.op == "aten::rand"  # what followed


@pytest.mark.parametrize("name", repeating.PROGRAMS)
def test_nothing_is_named_in_a_program_that_repeats(name):
    found = compared(repeating.PROGRAMS[name])
    assert found.ok, found
    assert (found.findings, found.received, found.unjudged) == ([], 0, {})
    assert found.identical > 3


# ---- what begins, and what received ----


def test_what_receives_a_difference_is_told_from_what_makes_one():
    def work(number):
        x = torch.ones(8) * number
        y = x.exp().sum()
        return torch.zeros(3) + 1, y

    found = compared(work, [1.0], [2.0])
    assert [(one.op, one.kind, one.same_inputs) for one in found.findings] == [("aten::mul.Tensor", "argument", False)]
    assert (found.received, found.identical) == (2, 3)
    assert found.first.what == "its argument 1 is 1.0 in the first run and 2.0 in the second"


def test_two_sources_that_have_nothing_to_do_with_one_another_are_both_named():
    def work(left, right):
        (torch.ones(8) * left).exp()
        (torch.ones(8) - right).exp()

    found = compared(work, [1.0, 1.0], [2.0, 2.0])
    assert [(one.op, one.certain) for one in found.findings] == [
        ("aten::mul.Tensor", True),
        ("aten::sub.Tensor", False),  # Python may have read the first
    ]
    assert found.received == 2


def test_a_value_keeps_its_origin_across_views_and_writes_to_parts():
    def work(number):
        x = torch.zeros(4, 4)
        x[1] = torch.ones(4) * number
        x.t().reshape(-1)[2:].sum()

    found = compared(work, [1.0], [2.0])
    assert [one.op for one in found.findings] == ["aten::mul.Tensor"]


def test_data_that_comes_back_from_numpy_is_received():
    def work(number):
        x = torch.ones(8) * number
        torch.from_numpy(x.numpy().copy()) + 1

    assert [one.kind for one in compared(work, [1.0], [2.0]).findings] == ["argument"]


def test_a_call_of_one_run_alone_is_named_and_the_rest_is_still_paired():
    def work(extra):
        x = torch.ones(8)
        for number in range(1, 6):
            if extra and number == 3:
                x = x.sin()
            x = x * number

    found = compared(work, [False], [True])
    assert [(one.op, one.kind, one.event_a) for one in found.findings] == [("aten::sin", "calls", None)]
    assert found.findings[0].what == "only the second run makes this call"
    assert (found.identical, found.received) == (3, 3)
    assert [one.event_b for one in compared(work, [True], [False]).findings] == [None]


def test_calls_in_a_row_that_one_run_makes_alone_are_one_finding():
    found = compared(lambda extra: [torch.ones(3).exp() for _ in range(4 if extra else 1)], [False], [True])
    assert [(one.kind, one.count) for one in found.findings] == [("calls", 6)]


def test_a_pass_of_one_run_alone_is_named(tmp_path):
    model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    for name, steps in (("short", 2), ("long", 3)):
        with tap.record(model, tmp_path / name, ops=True, level="fingerprint", report=False):
            for _ in range(steps):
                model(x)
    found = tap.same_bits(tmp_path / "short", tmp_path / "long")
    assert [(one.kind, one.pass_number) for one in found.findings] == [("calls", 2)]
    assert tap.same_bits(tmp_path / "short", tmp_path / "long", passes="0-1").ok
    seen = []
    tap.same_bits(tmp_path / "short", tmp_path / "long", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_difference_of_an_earlier_pass_is_received_by_a_later_one(tmp_path):
    def record(name, number):
        model = torch.nn.Linear(4, 4)
        with torch.no_grad():
            model.weight.fill_(1.0)
            model.bias.fill_(0.0)
        with tap.record(model, tmp_path / name, ops=True, level="fingerprint", report=False):
            for step in range(3):
                x = model(torch.ones(2, 4))
                if step == 0:
                    with torch.no_grad():
                        model.bias.add_(number)
        return x

    record("a", 1.0)
    record("b", 2.0)
    found = tap.same_bits(tmp_path / "a", tmp_path / "b")
    assert [(one.op, one.pass_number) for one in found.findings] == [("aten::add_.Tensor", 0)]
    assert found.received == 2


def test_an_extra_draw_of_the_same_size_is_told_by_its_line():
    def work(extra):
        torch.manual_seed(0)
        if extra:
            torch.rand(3)  # the extra one
        for _ in range(3):
            torch.rand(3).exp()

    found = compared(work, [False], [True])
    assert [one.kind for one in found.findings] == ["calls", "order", "order", "order"]
    assert found.first.line.endswith("# the extra one")
    assert found.findings[1].what == "it is draw 1 of its thread in the first run and draw 2 in the second"


def test_an_extra_call_of_an_operator_is_told_by_its_line():
    def work(extra):
        x = torch.ones(3)
        if extra:
            x = x * 2  # the extra one
        x = x * 3
        return x * 5

    found = compared(work, [False], [True])
    assert [one.kind for one in found.findings] == ["calls"]
    assert found.first.line.endswith("# the extra one")


def test_the_order_of_calls_is_one_finding_and_data_is_told_from_writes_past_pytorch():
    assert [one.kind for one in compared(differing.order_of_a_dict).findings] == ["order"]
    assert "past PyTorch" in compared(differing.write_through_an_alias).first.what
    assert "no recorded operator made it" in compared(differing.what_the_first_run_left).first.what


# ---- memory ----


def empty(byte):
    """What an allocator hands out when others used it before."""
    x = torch.empty(64)
    ctypes.memset(x.data_ptr(), byte, x.nbytes)
    return x


def test_memory_that_nobody_wrote_to_is_named_where_it_is_read():
    found = compared(lambda byte: (empty(byte)[3:].view(-1) + 1).exp(), [65], [66])
    assert [(one.op, one.kind) for one in found.findings] == [("aten::add.Tensor", "uninitialised")]


def test_memory_that_is_written_to_in_part_is_named_where_it_is_read():
    def work(byte):
        x = empty(byte)
        x[:32] = 1
        x.view(2, 32)[1] + 1

    found = compared(work, [65], [66])
    assert [(one.op, one.kind) for one in found.findings] == [("aten::add.Tensor", "uninitialised")]
    assert found.first.what == "a part of its argument /0 is memory that no operator wrote to"


def test_memory_that_is_written_to_before_it_is_read_is_no_difference():
    def work(byte):
        empty(byte).copy_(torch.ones(64)).sum()
        empty(byte).uniform_(generator=torch.Generator().manual_seed(0)).sum()
        torch.add(torch.ones(64), 1, out=empty(byte)).sum()
        rows = empty(byte).view(2, 32)
        rows[0], rows[1] = torch.ones(32), torch.zeros(32)
        rows.sum()

    assert compared(work, [65], [66]).ok


# ---- threads ----


def test_which_thread_takes_a_task_is_no_difference():
    def work(order):
        results = {}

        def task(number):
            results[number] = (torch.ones(8) * number).exp().sum()

        for number in order:
            thread = threading.Thread(target=task, args=(number,))
            thread.start()
            thread.join()
        torch.stack([results[number] for number in range(4)])

    found = compared(work, [[0, 1, 2, 3]], [[2, 0, 3, 1]])
    assert found.ok, found


def test_threads_that_begin_in_another_order_are_told_by_what_they_do():
    def work(number, order):
        def left():
            torch.ones(2).cos()
            (torch.ones(2) * number).exp()

        def right():
            torch.ones(3).tan()
            (torch.ones(3) * number).sin()

        for task in (left, right) if order else (right, left):
            thread = threading.Thread(target=task)
            thread.start()
            thread.join()

    found = compared(work, [1.0, True], [2.0, False])
    assert [(one.kind, one.op) for one in found.findings] == [("argument", "aten::mul.Tensor")] * 2
    assert found.received == 2


def test_other_bits_while_another_thread_writes_are_a_race():
    started = threading.Event()

    def write(tensor, value):
        tensor.fill_(value)

    @torch.library.custom_op("repeats_test::slow", mutates_args=("x",))
    def slow(x: torch.Tensor) -> None:
        started.set()
        writer.result()

    def work(value):
        nonlocal writer
        x = torch.zeros(8)
        started.clear()
        with ThreadPoolExecutor(1) as pool:
            writer = pool.submit(lambda: (started.wait(), write(x, value)))
            torch.ops.repeats_test.slow(x)

    writer = None
    found = compared(work, [1.0], [2.0])
    assert ("race", "repeats_test::slow") in [(one.kind, one.op) for one in found.findings], found


def test_a_kernel_that_keeps_state_is_no_race_while_other_threads_do_other_things():
    @torch.library.custom_op("repeats_test::counting_up", mutates_args=("x",))
    def counting_up(x: torch.Tensor) -> None:
        x.numpy()[:] += next(count)

    def work():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: torch.zeros(3).add_(1)).result()
        torch.ops.repeats_test.counting_up(torch.ones(8))

    count = itertools.count()
    assert [(one.kind, one.op) for one in compared(work).findings] == [("kernel", "repeats_test::counting_up")]


def test_the_hint_says_whether_threads_are_the_reason():
    assert "which thread comes first" in compared(differing.results_as_threads_end).first.hint
    assert "the order of a set" in compared(differing.order_of_a_dict).first.hint


# ---- errors and forms ----


def test_what_has_no_operators_or_no_hashes_is_an_error(tmp_path):
    model = torch.nn.Linear(4, 4)
    for name, options in (("modules", {}), ("shapes", {"ops": True, "level": "meta"})):
        with tap.record(model, tmp_path / name, report=False, **options):
            model(torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"has no operators; record with ttap run --ops"):
        tap.same_bits(tmp_path / "modules", tmp_path / "modules")
    with pytest.raises(ValueError, match=r"has no hashes .* --level fingerprint"):
        tap.same_bits(tmp_path / "shapes", tmp_path / "shapes")


def test_the_answer_can_be_printed_and_has_a_json():
    found = compared(differing.dropout_without_a_seed)
    text = str(found)
    assert text.startswith("differs: aten::bernoulli_.float: it draws other random numbers, and is the first draw")
    assert "differing.py:" in text
    assert "in 1 a difference begins" in text
    document = found.to_json()
    assert (document["command"], document["ok"], document["first"]["kind"]) == ("twice", False, "draw")
    assert document["findings"][0]["pass"] == 0
    assert "begins at aten::bernoulli_" in repr(found)
    assert "<table>" in found._repr_html_()
    assert found.firsts == {0: found.first}
    assert list(found.of_kind("draw")) == found.findings


# ---- alignment ----


def longest_common(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, j in itertools.product(range(len(a)), range(len(b))):
        table[i + 1][j + 1] = table[i][j] + 1 if a[i] == b[j] else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_an_alignment_is_as_long_as_any():
    chance = random.Random(0)
    for _ in range(300):
        a, b = ([chance.choice("abcd") for _ in range(chance.randrange(12))] for _ in range(2))
        pairs = aligned(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(x < y for x, y in itertools.pairwise(pairs))
        assert all(x[1] < y[1] for x, y in itertools.pairwise(pairs))
        assert len(pairs) == longest_common(a, b)


def test_an_alignment_that_needs_too_many_edits_keeps_what_it_reached():
    a, b = "x" + "a" * 50 + "b" * 50, "y" + "a" * 50 + "c" * 50
    pairs = aligned(a, b, most_edits=10)
    assert pairs[:50] == [(i, i) for i in range(1, 51)]


def test_the_longest_chain_of_pairs_in_one_order():
    chance = random.Random(1)
    for _ in range(100):
        pairs = list(enumerate(chance.sample(range(8), 8)))
        chain = in_order(pairs)
        longest = max(
            (len(some) for size in range(9) for some in itertools.combinations(pairs, size)
             if all(x[1] < y[1] for x, y in itertools.pairwise(some))),
        )  # fmt: skip
        assert len(chain) == longest
        assert all(x[1] < y[1] for x, y in itertools.pairwise(chain))
    assert in_order([]) == []
