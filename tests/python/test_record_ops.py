"""Operators in the passes of a recording: tap.record(ops=True, level="full") and ttap run --ops."""

import os
import subprocess
import sys
import threading
import warnings

import pytest
import tensortap as tap
import torch
from small_net import Net
from ttap_command import TTAP, run


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def passes_of(directory):
    (rank,) = tap.open(directory).ranks
    return list(rank.passes.values())


def ops(recorded, part=""):
    return [event for event in recorded.events if event.kind == "op" and part in event.name]


def only(recorded, name):
    (found,) = (event for event in recorded.events if event.name == name)
    return found


def with_parents(recorded):
    events = recorded.events
    return [(event.name, None if event.parent is None else events[event.parent].name) for event in events]


def train(model, optimizer, x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


def test_operators_stand_beneath_their_modules(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, level="full", report=False), torch.no_grad():
        model(torch.ones(3, 4))
    (recorded,) = passes_of(tmp_path)
    names = [event.name for event in recorded.events]
    assert names == [
        "Net", "up", "up:aten::t", "up:aten::addmm", "Net:aten::relu", "down", "down:aten::t", "down:aten::addmm",
    ]  # fmt: skip
    parents = {event.name: event.parent for event in recorded.events}
    assert parents["up:aten::addmm"] == names.index("up")
    assert parents["Net:aten::relu"] == parents["up"] == names.index("Net")
    assert torch.equal(recorded["up:aten::addmm"], recorded["up"])
    # Of modules only the leaves' tensors are kept, as without operators.
    assert "Net" not in recorded and "down" in recorded


def test_a_model_that_nobody_named_stands_above_its_parts_from_its_first_call_on(model, tmp_path):
    other = torch.nn.Sequential(torch.nn.ReLU())
    with tap.record(None, tmp_path, ops=True, level="full", report=False), torch.no_grad():
        for called in (model, other, other, model):
            called(torch.ones(3, 4))
    of_net = [
        ("Net", None), ("up", "Net"), ("up:aten::t", "up"), ("up:aten::addmm", "up"), ("Net:aten::relu", "Net"),
        ("down", "Net"), ("down:aten::t", "down"), ("down:aten::addmm", "down"),
    ]  # fmt: skip
    of_other = [("Sequential", None), ("0", "Sequential"), ("0:aten::relu", "0")]
    assert [with_parents(recorded) for recorded in passes_of(tmp_path)] == [of_net, of_other, of_other, of_net]


def test_the_log_shows_the_classes_of_modules(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, level="full", report=False), torch.no_grad():
        model(torch.ones(3, 4))
    heads = [line.split(" ->")[0] for line in run("log", tmp_path).stdout.splitlines() if "nn.Mod" in line]
    assert heads == ["[nn.Mod] Net (Net)", "  [nn.Mod] up (Linear)", "  [nn.Mod] down (Linear)"]


def test_the_log_does_not_guess_which_of_two_classes_it_is(tmp_path):
    with tap.record(None, tmp_path, ops=True, level="full", report=False), torch.no_grad():
        for part in (torch.nn.ReLU(), torch.nn.Tanh()):
            torch.nn.Sequential(part)(torch.ones(3, 4))
    log = run("log", tmp_path).stdout
    assert "[nn.Mod] Sequential (Sequential)\n" in log
    assert "[nn.Mod] 0 -> t" in log
    assert "[nn.Mod] 0 (" not in log


def test_a_result_leads_to_who_uses_it(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, level="full", report=False), torch.no_grad():
        model(torch.ones(3, 4))
    (recorded,) = passes_of(tmp_path)
    relu = only(recorded, "Net:aten::relu")
    made = recorded.records[relu.uses[0].record]
    assert made.key == "up:aten::addmm"


def test_the_backward_and_the_optimiser_belong_to_the_pass(model, tmp_path):
    optimizer, x = torch.optim.SGD(model.parameters(), 0.1), torch.ones(3, 4)
    with tap.record(model, tmp_path, ops=True, level="fingerprint", report=False):
        for _ in range(2):
            train(model, optimizer, x)
    first, second = passes_of(tmp_path)
    for recorded in (first, second):
        assert recorded.ending == "complete"
        gradient = only(recorded, "Net:backward:aten::threshold_backward")
        assert recorded.events[gradient.forward].name == "Net:aten::relu"
        updates = ops(recorded, "aten::add_.Tensor")
        assert [use.written for use in updates[0].uses] == [True, False, False]
    assert [event.name for event in first.events] == [event.name for event in second.events]


def test_every_pass_holds_what_it_used(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, level="fingerprint", report=False), torch.no_grad():
        for _ in range(3):
            model(torch.ones(3, 4))
    hashes = []
    for recorded in passes_of(tmp_path):
        assert all(use.record is not None for event in ops(recorded) for use in event.uses)
        (weight,) = (record for record in recorded.records if record.key == "up:aten::t@in/0")
        hashes.append(weight.hash)
    assert len(set(hashes)) == 1


def test_a_backward_has_its_module_also_where_the_filter_leaves_out_the_forward(model, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of patterns that match nothing
        with tap.record(model, tmp_path, ops=True, filter="^down:backward:aten::(mm|sum)", report=False):
            model(torch.ones(3, 4)).sum().backward()
    (recorded,) = passes_of(tmp_path)
    assert {event.name for event in ops(recorded)} == {"down:backward:aten::mm", "down:backward:aten::sum.dim_IntList"}
    assert {event.forward for event in recorded.events} == {None}


def test_filter_and_level_count_for_operators(model, tmp_path):
    levels = {"addmm": "full", ".*": "meta"}
    with tap.record(model, tmp_path, ops=True, filter=["up"], level=levels, report=False), torch.no_grad():
        model(torch.ones(3, 4))
    (recorded,) = passes_of(tmp_path)
    assert {event.name for event in ops(recorded)} == {"up:aten::t", "up:aten::addmm"}
    assert recorded.record("up:aten::addmm").level == "full"
    assert recorded.record("up:aten::t").level == "meta"


def test_stacks_show_the_line_of_the_program(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, stacks=True, level="meta", report=False), torch.no_grad():
        model(torch.ones(3, 4))
    (recorded,) = passes_of(tmp_path)
    relu = only(recorded, "Net:aten::relu")
    assert relu.stack.splitlines()[-1].endswith("return self.down(torch.relu(self.up(x)))")


def test_the_model_computes_the_same_bits(tmp_path):
    def trained(directory):
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        with tap.record(model, directory, ops=True, level="full", stacks=True, report=False):
            for step in range(3):
                train(model, optimizer, torch.full((3, 4), float(step)))
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    assert torch.equal(trained(None), trained(tmp_path))


def test_what_runs_outside_a_pass_is_counted(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, level="full", report=False) as recording, torch.no_grad():
        torch.ones(2) + 1
        model(torch.zeros(3, 4))
    assert recording.coverage["ops"]["outside_passes"] == 3
    assert "3 operators that ran outside any pass" in " ".join(recording.coverage["notes"])


def test_after_the_recording_nothing_is_observed(model, tmp_path):
    with tap.record(model, tmp_path, ops=True, level="full", report=False), torch.no_grad():
        model(torch.ones(3, 4))
    before = len(passes_of(tmp_path)[0].events)
    model(torch.ones(3, 4))
    assert len(passes_of(tmp_path)) == 1 and len(passes_of(tmp_path)[0].events) == before


def test_threads_record_into_their_own_passes(model, tmp_path):
    def work(rows):
        with torch.no_grad():
            for _ in range(20):
                model(torch.ones(rows, 4))

    with tap.record(model, tmp_path, ops=True, level="fingerprint", report=False):
        threads = [threading.Thread(target=work, args=(rows,)) for rows in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    recorded = passes_of(tmp_path)
    assert len(recorded) == 40
    for each in recorded:
        assert len(ops(each)) == 5
        assert len({record.shape[0] for record in each.records if record.role == "out" and "addmm" in record.name}) == 1


def test_what_runs_while_a_model_is_compiled_is_left_out(model, tmp_path):
    compiled = torch.compile(model, backend="aot_eager")
    with tap.record(compiled, tmp_path, ops=True, level="fingerprint", report=False), torch.no_grad():
        for _ in range(2):
            compiled(torch.ones(3, 4))
    first, second = ([event.name for event in ops(each)] for each in passes_of(tmp_path))
    assert first == second
    assert [name.rpartition("::")[2] for name in first] == ["t", "addmm", "relu", "t", "addmm"]


def test_a_forked_child_records_for_itself(model, tmp_path):
    program = """
import os, sys, torch, tensortap as tap
model = torch.nn.Linear(4, 2)
recording = tap.record({"m": model}, sys.argv[1], ops=True, level="full", report=False)
with torch.no_grad():
    model(torch.ones(1, 4))
    child = os.fork()
    model(torch.ones(1, 4))
if child == 0:
    recording.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
recording.close()
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=600)
    ranks = tap.open(tmp_path).ranks
    assert sorted(len(rank.passes) for rank in ranks) == [1, 2]
    for rank in ranks:
        for recorded in rank.passes.values():
            assert [event.name for event in ops(recorded)] == ["m:aten::t", "m:aten::addmm"]


def test_a_program_that_knows_nothing_of_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
""")
    run = tmp_path / "run"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TTAP_")}
    words = [TTAP, "run", "-o", run, "--ops", "--level", "full", "--stacks", "--", sys.executable, program]
    subprocess.run(list(map(str, words)), check=True, timeout=600, env=environment, capture_output=True)
    for recorded in passes_of(run):
        assert {"0:aten::addmm", "1:aten::relu", "1:backward:aten::threshold_backward"} <= {
            event.name for event in ops(recorded)
        }
        assert str(program) in only(recorded, "1:aten::relu").stack
