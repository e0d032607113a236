"""`ttap diff` names the module in which a mistake was planted, exactly, and finds none where there is none."""

import faults
import pytest
import torch
from ttap_command import read_json

SAME = ("identical", "within tolerance")


class Answer:
    """What `ttap diff` says."""

    def __init__(self, *words):
        self.report, self.exit_code = read_json("diff", *words)
        self.verdict = self.report["verdict"]
        self.first = self.at(self.report["first"])
        self.introduced = [self.at(place) for place in self.report["introduced"]]
        self.verdicts = {t["verdict"] for p in self.report["passes"] for t in p["tensors"]}

    def at(self, place):
        return place and {"pass": place["pass"], **self.report["passes"][place["pass"]]["tensors"][place["tensor"]]}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The recording without a fault, made once."""
    folder = tmp_path_factory.mktemp("reference")

    def recorded(architecture, level="full"):
        path = folder / f"{architecture}-{level}"
        return path if path.exists() else faults.record(*faults.make(architecture), path, level)

    return recorded


@pytest.mark.parametrize("level", ["full", "sketch"])
@pytest.mark.parametrize("fault", faults.FAULTS, ids=str)
def test_the_planted_module_is_blamed_and_no_other(fault, level, reference, tmp_path):
    answer = Answer(reference(fault.architecture, level), faults.record(*fault.planted(), tmp_path / "faulty", level))

    assert (answer.exit_code, answer.verdict) == (1, "diverged")
    assert (answer.first["pass"], answer.first["name"]) == (fault.in_pass, fault.blamed)
    assert (answer.first["cause"], answer.first["role"]) == ("introduced", "out")
    assert {tensor["name"] for tensor in answer.introduced} == {fault.blamed}


@pytest.mark.parametrize("fault", faults.FAULTS, ids=str)
def test_it_is_found_among_rounding_errors(fault, reference, tmp_path):
    model, passes = fault.planted()
    faults.sum_all_in_two_halves(model)
    answer = Answer(reference(fault.architecture), faults.record(model, passes, tmp_path / "faulty"))
    assert {tensor["name"] for tensor in answer.introduced} == {fault.blamed}
    assert answer.first["pass"] == fault.in_pass


@pytest.mark.parametrize("epsilon", [3e-4, 1e-4, 3e-5])
@pytest.mark.parametrize("layer", [1, 3])
def test_where_a_small_fault_grows_past_the_tolerance_nobody_else_is_blamed(layer, epsilon, reference, tmp_path):
    model, passes = faults.make("minilm")
    blamed = f"encoder.layer.{layer}.attention.output.LayerNorm"
    model.get_submodule(blamed).eps = epsilon
    answer = Answer(reference("minilm"), faults.record(model, passes, tmp_path / "faulty"))
    assert {tensor["name"] for tensor in answer.introduced} == {blamed}


@pytest.mark.parametrize("level", ["full", "sketch"])
def test_faults_side_by_side_are_all_listed(level, reference, tmp_path):
    model, passes = faults.make("minilm")
    attention = model.encoder.layer[3].attention.self
    faults.flipped_bit(attention.query)
    faults.transposed_weight(attention.value)
    answer = Answer(reference("minilm", level), faults.record(model, passes, tmp_path / "faulty", level))
    names = [f"encoder.layer.3.attention.self.{part}" for part in ("query", "value")]
    assert [tensor["name"] for tensor in answer.introduced] == names


@pytest.mark.parametrize("level", ["full", "sketch"])
@pytest.mark.parametrize("architecture", faults.ARCHITECTURES)
def test_a_run_is_identical_to_itself_and_to_one_recorded_again(architecture, level, reference, tmp_path):
    again = faults.record(*faults.make(architecture), tmp_path / "again", level)
    for other in (reference(architecture, level), again):
        answer = Answer(reference(architecture, level), other)
        assert (answer.exit_code, answer.verdict, answer.first) == (0, "identical", None)
        assert answer.verdicts == {"identical"}


@pytest.mark.parametrize("architecture", [*faults.ARCHITECTURES, "llama_of_long_sums"])
def test_another_thread_count_is_within_the_default_tolerance(architecture, tmp_path):
    make = faults.ARCHITECTURES.get(architecture, faults.llama_of_long_sums)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            faults.record(*make(), tmp_path / str(count))
    finally:
        torch.set_num_threads(threads)
    answer = Answer(tmp_path / "1", tmp_path / "2")
    assert (answer.exit_code, answer.first) == (0, None)
    assert answer.verdicts <= set(SAME)


@pytest.mark.parametrize("architecture", faults.ARCHITECTURES)
def test_another_order_of_summation_is_within_the_default_tolerance(architecture, reference, tmp_path):
    """Whatever kernels the machine has: here each product is summed in two halves."""
    model, passes = faults.make(architecture)
    faults.sum_all_in_two_halves(model)
    answer = Answer(reference(architecture), faults.record(model, passes, tmp_path / "halves"))
    assert (answer.exit_code, answer.verdict, answer.first) == (0, "within tolerance", None)
    assert answer.verdicts == set(SAME)


@pytest.mark.parametrize("architecture", faults.ARCHITECTURES)
def test_bf16_agrees_with_fp32_within_the_default_of_bf16(architecture, reference, tmp_path):
    model, passes = faults.make(architecture)
    model.to(torch.bfloat16)
    answer = Answer(reference(architecture), faults.record(model, passes, tmp_path / "bf16"))
    assert (answer.exit_code, answer.verdict, answer.first) == (0, "within tolerance", None)
    assert answer.verdicts <= set(SAME)
