"""Which line of the program each operator comes from.

`# at: NAME` marks a line of this file that a test asks for.
"""

import functools
import inspect
import linecache
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import tensortap as tap
import torch
from op_sequences import op_of
from torch import nn

HERE = str(Path(__file__))
MARKS = {
    line.partition("# at: ")[2].strip(): number
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
    if "  # at: " in line
}


def traced(body, **options):
    with tap.trace(stacks=True, **options) as trace:
        body()
    return trace


def frames(event):
    """[(file, line, function)], the innermost last."""
    found = []
    for line in event.stack.splitlines():
        place, _, function = line.split("\t")[0].partition(" in ")
        file, _, number = place.rpartition(":")
        found.append((file, int(number), function))
    return found


def line_of(event):
    """The innermost line of this file."""
    return [line for file, line, _ in frames(event) if file == HERE][-1]


def ops(trace, name):
    found = [event for event in trace if event.kind == "op" and op_of(event.name) == name]
    assert found, f"no {name} in\n{trace}"
    return found


def forward_line_of(trace, event):
    return line_of(trace.events[event.forward])


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)  # at: first layer
        return x.cos()  # at: end of the model


# ---- forward ----


def test_an_op_has_the_line_that_called_it():
    def body():
        x = torch.ones(3)  # at: ones
        y = x.sin()  # at: sin
        return (
            y.exp()  # at: exp of several lines
            + x
        )

    trace = traced(body)
    assert line_of(ops(trace, "aten.ones.default")[0]) == MARKS["ones"]
    assert line_of(ops(trace, "aten.sin.default")[0]) == MARKS["sin"]
    assert line_of(ops(trace, "aten.exp.default")[0]) == MARKS["exp of several lines"]
    assert frames(ops(trace, "aten.sin.default")[0])[-1][0] == HERE


def test_the_whole_way_is_there_with_the_text_of_the_lines():
    trace = traced(lambda: Small()(torch.ones(2, 4)))  # at: call of the model
    event = ops(trace, "aten.addmm.default")[0]
    mine = [(line, function) for file, line, function in frames(event) if file == HERE]
    assert mine[-2][0] == MARKS["call of the model"]
    assert mine[-1] == (MARKS["first layer"], "Small.forward")
    assert frames(event)[-1][0].endswith("torch/nn/modules/linear.py")
    assert "\tx = self.first(x)  # at: first layer" in event.stack


def test_the_log_shows_the_line_of_the_program_and_not_that_of_pytorch():
    text = traced(lambda: Small()(torch.ones(2, 4))).log(stack=True)
    assert f"{HERE}:{MARKS['first layer']} in Small.forward" in text
    assert "linear.py" not in text


def test_recursion_has_every_level():
    def deeper(x, levels):
        if levels == 0:
            return x.tan()  # at: bottom
        return deeper(x, levels - 1)  # at: down

    event = ops(traced(lambda: deeper(torch.ones(2), 7)), "aten.tan.default")[0]
    mine = [line for file, line, function in frames(event) if file == HERE and function.endswith("deeper")]
    assert mine == [MARKS["down"]] * 7 + [MARKS["bottom"]]


def test_of_a_stack_too_long_the_innermost_frames_are_kept():
    def deeper(x, levels):
        return deeper(x, levels - 1) if levels else x.tan()  # at: very deep

    event = ops(traced(lambda: deeper(torch.ones(2), 400)), "aten.tan.default")[0]
    assert 200 <= len(frames(event)) < 400
    assert {line for _, line, _ in frames(event)[-200:]} == {MARKS["very deep"]}


def test_a_generator_has_its_own_line_and_then_that_which_resumed_it():
    def numbers():
        x = torch.ones(2)
        while True:
            x = x.neg()  # at: in the generator
            yield x

    made = numbers()

    def body():
        next(made)  # at: first resumed
        next(made)  # at: then resumed

    first, then = ops(traced(body), "aten.neg.default")
    assert [line for file, line, _ in frames(first) if file == HERE][-2:] == [
        MARKS["first resumed"],
        MARKS["in the generator"],
    ]
    assert [line for file, line, _ in frames(then) if file == HERE][-2:] == [
        MARKS["then resumed"],
        MARKS["in the generator"],
    ]


def test_lambdas_comprehensions_and_decorated_functions():
    def twice(function):
        @functools.wraps(function)
        def inside(x):
            return function(function(x))  # at: the wrapper

        return inside

    @twice
    def decorated(x):
        return x.abs()  # at: decorated

    double = lambda x: x.mul(2.0)  # noqa: E731  # at: lambda

    def body():
        x = torch.ones(2)
        double(x)
        [x.sqrt() for _ in range(3)]  # at: comprehension
        return decorated(x)

    trace = traced(body)
    assert line_of(ops(trace, "aten.mul.Tensor")[0]) == MARKS["lambda"]
    assert frames(ops(trace, "aten.mul.Tensor")[0])[-1][2].endswith("<lambda>")
    assert {line_of(event) for event in ops(trace, "aten.sqrt.default")} == {MARKS["comprehension"]}
    mine = [line for file, line, _ in frames(ops(trace, "aten.abs.default")[0]) if file == HERE]
    assert mine[-2:] == [MARKS["the wrapper"], MARKS["decorated"]]


def test_one_line_in_a_loop_has_one_stack():
    def body():
        x = torch.ones(2)
        for _ in range(50):
            x = x.neg()
            x = x.neg()

    trace = traced(body)
    stacks = [event.stack for event in ops(trace, "aten.neg.default")]
    assert len(stacks) == 100
    assert len(set(stacks)) == 2
    # In the file, too: a stack is kept once.
    size = trace.recorded.path.stat().st_size
    longer = traced(lambda: [body() for _ in range(2)])
    assert longer.recorded.path.stat().st_size - size < 100 * len(stacks[0]) / 4


def test_threads_have_their_own_stacks():
    def one():
        torch.ones(2).sin()  # at: on one thread

    def other():
        torch.ones(2).cos()  # at: on another

    def body():
        threads = [threading.Thread(target=each) for each in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = traced(body)
    sin, cos = ops(trace, "aten.sin.default")[0], ops(trace, "aten.cos.default")[0]
    assert (line_of(sin), line_of(cos)) == (MARKS["on one thread"], MARKS["on another"])
    assert sin.thread != cos.thread
    assert not any("in body" in line for line in sin.stack.splitlines())


def test_code_from_a_string_has_its_name_and_its_text_where_python_knows_it():
    source = "y = x.sin()\nz = y.cos()\n"
    linecache.cache["<made here>"] = (len(source), None, source.splitlines(True), "<made here>")
    trace = traced(lambda: exec(compile(source, "<made here>", "exec"), {"x": torch.ones(2)}))
    cos = ops(trace, "aten.cos.default")[0]
    assert frames(cos)[-1] == ("<made here>", 2, "<module>")
    assert cos.stack.endswith("\tz = y.cos()")

    trace = traced(lambda: exec("x.tan()", {"x": torch.ones(2)}))
    assert frames(ops(trace, "aten.tan.default")[0])[-1] == ("<string>", 1, "<module>")


def test_a_program_from_standard_input():
    program = textwrap.dedent("""
        import tensortap as tap, torch
        with tap.trace(stacks=True) as trace:
            torch.ones(2)
        print(trace.events[0].stack)
    """)
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["<stdin>:4 in <module>"], done.stderr


def test_without_stacks_there_are_none():
    with tap.trace() as trace:
        torch.ones(2)
    assert trace.events[0].stack == ""


# ---- backward ----


def test_a_backward_op_leads_to_the_line_of_the_forward():
    x = torch.ones(2, 4, requires_grad=True)

    def body():
        y = x.sin()  # at: forward sin
        z = y.exp()  # at: forward exp
        z.sum().backward()  # at: backward

    trace = traced(body)
    (cos,) = ops(trace, "aten.cos.default")  # sin's gradient
    assert ":backward:" in ":" + cos.name
    assert forward_line_of(trace, cos) == MARKS["forward sin"]
    assert line_of(cos) == MARKS["backward"]
    exps = [event for event in ops(trace, "aten.mul.Tensor") if "backward" in event.name]
    assert {forward_line_of(trace, event) for event in exps} == {MARKS["forward sin"], MARKS["forward exp"]}
    assert f"# Forward: {HERE}:{MARKS['forward sin']}" in str(trace)


def test_every_backward_op_of_a_model_leads_to_its_forward():
    model = Small()

    def body():
        model(torch.ones(2, 4)).sum().backward()

    trace = traced(body)
    by_node = {}
    for event in trace:
        if event.kind == "op" and "node" in event.notes:
            if "AccumulateGrad" in event.notes["node"]:  # of a parameter, which no operator has made
                continue
            by_node.setdefault(event.notes["node"], set()).add(forward_line_of(trace, event))
    assert by_node["CosBackward0"] == {MARKS["end of the model"]}
    assert by_node["AddmmBackward0"] == {MARKS["first layer"]}


def test_a_forward_that_was_called_in_a_loop_is_told_apart():
    x = torch.ones(3, requires_grad=True)

    def body():
        y = x
        for _ in range(4):
            y = y.tanh()
        y.sum().backward()

    trace = traced(body)
    forwards = [index for index, event in enumerate(trace) if op_of(event.name) == "aten.tanh.default"]
    backwards = [event.forward for event in ops(trace, "aten.tanh_backward.default")]
    assert backwards == forwards[::-1]


def test_a_forward_of_another_thread_is_found():
    results = []

    def forward():
        results.append(torch.ones(3, requires_grad=True).tanh())  # at: forward on a thread

    def body():
        thread = threading.Thread(target=forward)
        thread.start()
        thread.join()
        results[0].sum().backward()

    trace = traced(body)
    (event,) = ops(trace, "aten.tanh_backward.default")
    assert forward_line_of(trace, event) == MARKS["forward on a thread"]


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.pow(3)  # at: forward of the function

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient.mul(x.square())  # at: backward of the function


def test_a_function_of_the_program_has_the_line_of_its_own_backward():
    x = torch.ones(3, requires_grad=True)
    trace = traced(lambda: Cubed.apply(x).sum().backward())
    assert line_of(ops(trace, "aten.pow.Tensor_Scalar")[0]) == MARKS["forward of the function"]
    (product,) = [e for e in ops(trace, "aten.mul.Tensor") if line_of(e) == MARKS["backward of the function"]]
    assert "backward" in product.name


def test_the_backward_of_a_function_of_the_program_leads_to_its_forward():
    x = torch.ones(3, requires_grad=True)
    trace = traced(lambda: Cubed.apply(x).sum().backward())  # at: apply
    (product,) = [e for e in ops(trace, "aten.mul.Tensor") if line_of(e) == MARKS["backward of the function"]]
    assert product.notes["node"] == "CubedBackward"
    assert forward_line_of(trace, product) in (MARKS["forward of the function"], MARKS["apply"])


def test_what_a_hook_of_a_tensor_runs_has_the_hooks_line():
    x = torch.ones(3, requires_grad=True)

    def hook(gradient):
        return gradient.clamp(max=0.5)  # at: in the hook

    def body():
        y = x.sin()
        y.register_hook(hook)
        y.sum().backward()

    (clamp,) = ops(traced(body), "aten.clamp.default")
    assert line_of(clamp) == MARKS["in the hook"]


def test_a_backward_whose_forward_was_not_traced_says_nothing_of_it():
    y = torch.ones(3, requires_grad=True).tanh().sum()
    trace = traced(y.backward)
    (event,) = ops(trace, "aten.tanh_backward.default")
    assert event.forward is None


@pytest.mark.parametrize("hashes", [False, True])
def test_stacks_are_the_same_whatever_else_is_recorded(hashes):
    source = inspect.getsource(Small)
    trace = traced(lambda: Small()(torch.ones(2, 4)), hashes=hashes)
    lines = {line_of(event) for event in trace if event.kind == "op" and "Small:" in event.name}
    assert lines == {MARKS["end of the model"]}
    assert "# at: end of the model" in source
