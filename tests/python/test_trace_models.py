"""A trace of whole models: it shows what a dispatch mode would see, and the model computes what it does without.

DebugMode is a dispatch mode, and some of PyTorch's C++ asks whether one is active (`isTensorSubclassLike` is then true
of every tensor) and takes another way. So the sequences are compared twice: with a mode that does nothing active the
trace equals DebugMode's log one for one, and without one every difference must be in the table CHANGED_BY_A_MODE.
"""

import pytest
import tensortap as tap
import torch
import transformers
from op_sequences import Bystander, of_debug_mode, of_trace
from packaging.version import Version
from traced_models import MODELS, loss_of

# What runs, what runs instead while a dispatch mode is active, and where PyTorch decides it.
CHANGED_BY_A_MODE = {
    # input_buffer.cpp: gradients that meet are summed in place if no tensor is subclass-like; a step has many of them.
    # Linear.cpp: so is the bias of a linear layer whose input has more than two dimensions and is not contiguous.
    ("aten.add_.Tensor", "aten.add.Tensor"),
    # TensorShape.cpp: reshape() of a tensor that is not contiguous, but can be viewed.
    ("aten._reshape_alias.default", "aten.view.default"),
    # FunctionsManual.cpp, index_backward(): the gradient is written into the zeros that were made for it.
    ("aten._index_put_impl_.default", "aten.index_put.default"),
    # ReduceOps.cpp, value_selecting_reduction_backward(): of topk, min, max, …; likewise.
    ("aten.zeros.default", "aten.new_zeros.default"),
    ("aten.scatter_.src", "aten.scatter.src"),
}
RESHAPED = {("aten._reshape_alias.default", "aten.view.default")}
# Those of them that a forward without gradients meets. Two models are there for it; from 5.23 on, transformers reshapes
# what attention gives without a copy, in every model that has attention.
CHANGED_IN_THE_FORWARD = {
    "rnn, batch first": {("aten.add_.Tensor", "aten.add.Tensor")},  # the head, on a transposed output of the GRU
    "unet, reshaping": RESHAPED,  # behind the attention
}
if Version(transformers.__version__) >= Version("5.23"):
    CHANGED_IN_THE_FORWARD |= dict.fromkeys(("minilm", "bert", "llama", "gpt2", "t5", "moe", "vit"), RESHAPED)


@pytest.fixture(autouse=True)
def two_threads():
    """What operators do on threads of their own must not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def forward_of(name):
    model, args, kwargs = MODELS[name]()

    def body():
        with torch.no_grad():
            model(*args, **kwargs)

    return body


def training_step_of(name):
    model, args, kwargs = MODELS[name]()
    model.train()
    torch.manual_seed(0)  # of dropout
    return lambda: loss_of(model(*args, **kwargs)).backward()


def traced(body, **options):
    with tap.trace(**options) as trace:
        body()
    assert trace.counts["failed"] == trace.counts["no_room"] == 0
    return of_trace(trace)


def changed(ours, theirs):
    assert len(ours) == len(theirs)
    return {pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]}


@pytest.mark.parametrize("name", MODELS)
def test_a_forward_is_the_sequence_that_debug_mode_logs(name):
    ours, theirs = traced(forward_of(name)), of_debug_mode(forward_of(name))
    assert len(ours) > 20
    assert changed(ours, theirs) == CHANGED_IN_THE_FORWARD.get(name, set())


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_differs_only_where_a_mode_changes_what_runs(name):
    differences = changed(traced(training_step_of(name)), of_debug_mode(training_step_of(name)))
    assert differences <= CHANGED_BY_A_MODE


def test_no_line_of_the_table_is_without_need():
    seen = set()
    for name in ("gpt2", "moe"):
        seen |= changed(traced(training_step_of(name)), of_debug_mode(training_step_of(name)))
    # An older release makes new zeros either way.
    assert CHANGED_BY_A_MODE - seen <= {("aten.zeros.default", "aten.new_zeros.default")}


@pytest.mark.parametrize("name", MODELS)
def test_of_the_forward_that_a_mode_makes_it_the_trace_shows_the_same(name):
    assert_equal_beside_a_mode(name, forward_of)


@pytest.mark.parametrize("name", MODELS)
def test_of_the_training_step_that_a_mode_makes_it_the_trace_shows_the_same(name):
    assert_equal_beside_a_mode(name, training_step_of)


def assert_equal_beside_a_mode(name, work):
    def watched(body):
        def inside():
            with Bystander():
                body()

        return inside

    assert traced(watched(work(name))) == of_debug_mode(work(name))


# ---- the same bits ----

EVERYTHING = {"hashes": True, "inputs": True, "outputs": True, "ids": True, "stacks": True, "modules": True}
OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def trained(name, optimizer, options=None):
    """Two steps: outputs, gradients, parameters and buffers, and the generator's state."""
    model, args, kwargs = MODELS[name]()
    model.train()
    torch.manual_seed(0)
    update = OPTIMIZERS[optimizer](model.parameters())
    kept = []

    def steps():
        for _ in range(2):
            output = model(*args, **kwargs)
            loss = loss_of(output)
            loss.backward()
            kept.extend(
                [loss.detach().clone(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]
            )
            update.step()
            update.zero_grad()

    if options is None:
        steps()
    else:
        with tap.trace(**options) as trace:
            steps()
        assert len(trace) > 100
        assert trace.counts["failed"] == 0
    return [*kept, *model.state_dict().values(), torch.get_rng_state()]


def bits(tensors):
    return [each.detach().contiguous().view(torch.uint8) if each.dim() else each.detach().reshape(1).view(torch.uint8)
            for each in tensors]  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_gives_the_same_bits_with_everything_traced(name, optimizer):
    without, with_trace = trained(name, optimizer), trained(name, optimizer, EVERYTHING)
    assert len(without) == len(with_trace) > 10
    assert all(torch.equal(a, b) for a, b in zip(bits(without), bits(with_trace), strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_no_operator_of_the_tap_is_in_the_log(name):
    least = traced(training_step_of(name), level="meta", inputs=False, outputs=False, ids=False, modules=False)
    assert traced(training_step_of(name), **EVERYTHING) == least
    assert traced(training_step_of(name), **{**EVERYTHING, "hashes": False, "level": "full"}) == least


# ---- memory ----


def largest_allocation(body):
    """The peak of what PyTorch's CPU allocator had given out, by its own account of every block."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        body()
    blocks, pending = [], list(profile.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        if event.tag == torch._C._profiler._EventType.Allocation:
            blocks.append((event.start_time_ns, event.typed[1].alloc_size))
    now = peak = 0
    for _, size in sorted(blocks, key=lambda block: block[0]):
        now += size
        peak = max(peak, now)
    assert len(blocks) > 20
    return peak


def test_the_peak_is_that_of_what_is_held():
    def body():
        for _ in range(30):
            kept.append(torch.ones(1000))
            del kept[:-most]

    most, kept = 1, []
    alone = largest_allocation(body)
    most, kept = 5, []
    assert largest_allocation(body) - alone == 4 * 4000


@pytest.mark.parametrize("name", MODELS)
def test_the_peak_of_live_tensors_is_that_without_a_trace(name):
    def with_trace(body):
        def inside():
            with tap.trace(**EVERYTHING):
                body()

        return inside

    assert largest_allocation(with_trace(training_step_of(name))) == largest_allocation(training_step_of(name))
