"""`ttap check` of recorded ops: which op made the first NaN or Inf, of what, and where."""

import re

import pytest
import tensortap as tap
import torch
from ttap_command import read_json, run


def lines_of(text):
    """The facts of the first finding: name to texts."""
    facts = {}
    for name, fact in re.findall(r"^  (\S.{7}) (.*)$", text.split("\n\n")[0], re.MULTILINE):
        facts.setdefault(name.strip(), []).append(fact)
    return facts


def test_the_op_that_made_it_from_finite_arguments(runs):
    result = run("check", runs("log_of_zero"))
    assert result.returncode == 1
    assert result.stdout.startswith("FIRST  loss:aten::log\n")
    facts = lines_of(result.stdout)
    assert facts["holds"] == ["2 -Inf of 3 values (66.7 %)"]
    assert facts["call"] == ["aten::log(f32[3]) -> f32[3]"]
    assert facts["input"] == [
        "/0  f32 [3]  finite, min 0, max 1, mean 0.3333, max |x| 1, 2 zeros; from attn:aten::_softmax"
    ]
    assert facts["so"] == ["made here: every argument of this call was finite"]
    assert facts["hint"] == ["argument /0 has 2 zeros, and the logarithm of 0 is -Inf"]
    assert facts["module"] == ["loss"]
    assert facts["then"] == ["2 later tensors inherited it"]
    # The command it proposes works.
    assert run(*facts["look"][0].split()[1:]).returncode == 0


def test_the_stack_is_the_programs_own_and_begins_where_the_op_was_called(runs):
    facts = lines_of(run("check", runs("log_of_zero")).stdout)
    assert facts["line"] == ["/home/me/loss.py:7 in forward: return -p.log().mean()"]
    assert [frame.split()[0] for frame in facts["from"]] == ["/home/me/train.py:18", "/home/me/train.py:31"]


def test_an_op_of_the_backward_is_told_with_the_line_of_the_forward(runs):
    result = run("check", runs("root_of_zero"))
    assert result.stdout.startswith("FIRST  norm:backward:aten::div.Tensor\n")
    facts = lines_of(result.stdout)
    assert facts["module"] == ["norm, in the backward"]
    assert facts["line"] == ["/home/me/train.py:10 in main: y.sum().backward()"]
    assert facts["forward"] == ["norm:aten::sqrt, /home/me/norm.py:4 in forward: y = x.sqrt()"]
    assert facts["hint"] == ["it divides by argument /1, which has 1 zero"]


def test_nan_out_of_inf_is_told_with_where_the_inf_came_from(runs):
    facts = lines_of(run("check", runs("masked_row")).stdout)
    assert facts["so"] == ["NaN was made here of Inf: no argument of this call was NaN"]
    assert re.match(r"aten::full +aten::full\(\[3\], -inf, .*on purpose, /home/me/model.py:12", facts["Inf from"][0])
    assert "everything masked" in facts["hint"][0]


def test_a_mask_in_an_earlier_pass_does_not_hide_the_fault_of_a_later_one(runs):
    document, _ = read_json("check", runs("masked_row"))
    assert document["found"][0]["pass"] == 0
    assert document["first"]["pass"] == 1
    assert document["first"]["key"] == "attn:aten::_softmax"


def test_what_is_on_purpose_is_counted_and_with_all_listed(runs):
    text = run("check", runs("log_of_zero")).stdout
    assert "3 tensors hold NaN or Inf on purpose" in text
    assert "attn:aten::triu" not in text
    assert re.search(r"attn:aten::triu .* inherited, on purpose\n", run("check", runs("log_of_zero"), "--all").stdout)


def test_only_masks_are_a_finding_that_says_so(runs):
    result = run("check", runs("only_masks"))
    assert result.returncode == 1
    assert lines_of(result.stdout)["so"] == [
        "on purpose: the number stands in the program; later calls made finite values of it"
    ]


def test_all_names_what_is_near_overflow_or_underflow(runs):
    text = run("check", runs("only_masks"), "--all").stdout
    assert "near overflow: half in pass 0 of rank 0: f16 up to 40960\n" in text
    assert "underflow: tiny in pass 0 of rank 0: 50 % of f32 is subnormal\n" in text
    assert "near overflow" not in run("check", runs("only_masks")).stdout
    suspects = read_json("check", runs("only_masks"))[0]["suspects"]
    assert [each["suspicion"] for each in suspects] == ["near_overflow", "underflow"]


def test_a_weight_that_is_not_finite_and_an_argument_that_was_not_recorded(runs):
    result = run("check", runs("many_heirs"))
    assert result.stdout.startswith("FIRST  layers.0:aten::mm@in/1\n")
    facts = lines_of(result.stdout)
    assert facts["so"] == ["it came in with this argument, and no recorded call returned it"]
    assert facts["call"] == ["aten::mm(t, f32[2]) -> f32[2]"]
    assert facts["input"][0] == "/0  its value was not recorded"
    assert facts["then"] == ["30 later tensors inherited it"]


def test_of_many_that_inherit_it_the_first_are_listed(runs):
    text = run("check", runs("many_heirs")).stdout
    assert "then 30 more tensors" in text
    assert text.count(" inherited\n") == 10
    assert "... and 20 more that inherited it" in text
    assert run("check", runs("many_heirs"), "--all").stdout.count(" inherited\n") == 30


def test_the_filter_chooses_what_is_asked_about_not_where_it_came_from(runs):
    result = run("check", runs("log_of_zero"), "--filter", "mean")
    assert result.stdout.startswith("FIRST  loss:aten::log\n")
    assert "NaN or Inf in 1 of 1 tensor" in result.stdout


def test_json_has_all_of_it(runs):
    document, code = read_json("check", runs("log_of_zero"))
    assert code == 1
    origin = document["first"]["origin"]
    assert (origin["kind"], origin["fault"], origin["inherited_by"]) == ("made", True, 2)
    assert origin["call"]["module"] == "loss"
    assert origin["call"]["stack"][0] == "/home/me/loss.py:7 in forward\treturn -p.log().mean()"
    (argument,) = origin["arguments"]
    assert argument["from"] == "attn:aten::_softmax"
    assert argument["statistics"]["zeros"] == 2
    assert argument["finite"]
    assert origin["hints"] == ["argument /0 has 2 zeros, and the logarithm of 0 is -Inf"]
    assert [each["kind"] for each in origin["others"]] == ["on_purpose", "made"]
    because = {each["key"]: each["because"] for each in document["found"]}
    assert because["loss:aten::mean"] == {"origin": "made", "inherited": True, "fault": True, "from_rank": None}
    assert because["attn:aten::triu"] == {"origin": "on_purpose", "inherited": True, "fault": False, "from_rank": None}


def test_json_follows_inf_to_nan(runs):
    origin = read_json("check", runs("masked_row"))[0]["first"]["origin"]
    assert origin["kind"] == "nan_from_inf"
    assert origin["inf_from"]["kind"] == "on_purpose"
    assert origin["inf_from"]["call"]["text"] == "aten::full([3], -inf, dtype=torch.float32) -> f32[3]"


@pytest.mark.parametrize("kind", ["broken", "large"])
def test_a_recording_of_modules_tells_no_origin_and_what_to_do(runs, kind):
    path = runs(kind, "3") if kind == "large" else runs(kind)
    assert read_json("check", path)[0]["first"]["origin"] is None
    advice = 'record ops (ops=True, ttap run --ops), or modules with roles=("in", "out")'
    # Where inputs were recorded, there is nothing to advise.
    assert (advice in run("check", path).stdout) == (kind == "large")


# ---- programs ----


def checked(folder, work):
    """What is said of a program's operators."""
    with tap.trace(hashes=True) as trace:
        work()
    trace.save(folder)
    return run("check", folder).stdout, read_json("check", folder)[0]


def root_of_zero():
    w = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    w.sqrt().sum().backward()
    assert w.grad.isinf().tolist() == [True, False, False]
    return w


def test_a_gradient_that_nothing_made_finite_is_a_fault(tmp_path):
    text, document = checked(tmp_path / "run", root_of_zero)
    assert text.startswith("FIRST  backward:aten::div.Tensor\n")
    assert lines_of(text)["so"] == ["made here: every argument of this call was finite"]
    assert document["first"]["origin"]["fault"]


def test_a_later_fault_does_not_hide_such_a_gradient(tmp_path):
    text, document = checked(tmp_path / "run", lambda: (root_of_zero(), torch.log(torch.tensor([-1.0]))))
    assert text.startswith("FIRST  backward:aten::div.Tensor\n")
    assert "without consequence" not in text
    assert [each["kind"] for each in document["first"]["origin"]["others"]] == ["made"]


def test_looking_at_a_gradient_does_not_make_it_finite(tmp_path):
    def work():
        gradient = root_of_zero().grad
        gradient.view(1, 3)[:, 1:].detach().argmax()

    assert checked(tmp_path / "run", work)[1]["first"]["origin"]["fault"]


def test_a_gradient_that_was_made_finite_is_harmless(tmp_path):
    text, document = checked(tmp_path / "run", lambda: root_of_zero().grad.detach().view(1, 3).clamp(max=1.0))
    assert not document["first"]["origin"]["fault"]
    assert lines_of(text)["so"] == [
        "made here: every argument of this call was finite; later calls made finite values of it"
    ]


def causal_attention():
    scores = torch.ones(4, 4) + torch.triu(torch.full((4, 4), float("-inf")), 1)
    return torch.softmax(scores[None], -1) @ torch.ones(4, 2)


def logarithm_as_mask():
    mask = torch.ones(4, 4).tril().log()  # -Inf that no number of the program says
    return torch.softmax(torch.ones(2, 4, 4) + mask.expand(2, 4, 4), -1)


def logarithm_where_it_is_finite():
    x = torch.tensor([0.0, 1.0])
    return torch.where(x > 0, x.log(), 0.0).sum()


def division_repaired():
    return (torch.ones(2) / torch.tensor([0.0, 1.0])).nan_to_num(posinf=0.0).sum()


@pytest.mark.parametrize("work", [causal_attention, logarithm_as_mask, logarithm_where_it_is_finite, division_repaired])
def test_inf_that_a_program_deals_with_is_no_fault(tmp_path, work):
    text, document = checked(tmp_path / "run", lambda: (work(), torch.tensor([-1.0]).sqrt()))
    assert text.startswith("FIRST  aten::sqrt\n")
    assert not any(each["because"]["fault"] for each in document["found"] if "sqrt" not in each["key"])


def test_uninitialised_memory_is_counted_and_no_warning(tmp_path):
    with tap.trace(hashes=True) as trace:
        torch.empty(3).fill_(1)
    trace.save(tmp_path / "run")
    result = run("check", tmp_path / "run")
    assert result.returncode == 0
    assert "1 tensor has no value: uninitialised memory, or on the meta device" in result.stdout
    assert "warning" not in result.stdout + result.stderr
    assert read_json("check", tmp_path / "run")[0]["without_value"] == 1
