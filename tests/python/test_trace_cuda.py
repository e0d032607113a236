"""Traces of what runs on a GPU: fingerprints taken there, without waiting for it."""

import random

import pytest
import tensortap as tap
import torch
from tensortap.torch_glue import op_extension

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="skipped: no GPU")


def hashes_of(trace):
    """Hash and statistics of every tensor, by key."""
    return {record.key: (record.hash, record.stats) for record in trace.recorded.records}


def counts_and_extremes(stats):
    return {name: stats[name] for name in ("count", "nan", "pos_inf", "neg_inf", "zeros", "min", "max")}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.up = torch.nn.Linear(64, 256)
        self.down = torch.nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def block(dtype=torch.float32):
    torch.manual_seed(1)
    return Block().to("cuda", dtype), torch.randn(32, 64, device="cuda", dtype=dtype)


def test_fingerprints_are_taken_on_the_device():
    ops = op_extension.load()
    assert ops.taps_on_gpu()
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            assert ops.current_stream(0) == stream.cuda_stream


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_they_are_those_of_the_bytes_on_the_host(dtype):
    model, x = block(dtype)
    with torch.no_grad():
        model(x)
        with tap.trace(model, level="full") as full:  # copied to the host, and fingerprinted there
            model(x)
        with tap.trace(model, hashes=True) as trace:
            model(x)
    on_host, on_device = hashes_of(full), hashes_of(trace)
    assert on_host.keys() == on_device.keys()
    assert len(on_device) > 10
    for key, (hash128, stats) in on_device.items():
        assert hash128 == on_host[key][0], key
        assert counts_and_extremes(stats) == counts_and_extremes(on_host[key][1]), key


def test_what_is_expanded_or_sliced_is_kept_with_its_bytes():
    def program(x):
        return x.expand(8, 16) * 2, x.expand(8, 16)[:, ::3] + 1

    x = torch.randn(8, 1)
    on_device = x.cuda()
    with tap.trace(level="full") as trace:
        program(on_device)
    with tap.trace(level="full") as expected:
        program(x)
    records = {record.key: record for record in trace.recorded.records}
    for record in expected.recorded.records:
        assert records[record.key].level == "full", record.key
        assert records[record.key].hash == record.hash, record.key


def test_an_in_place_operator_does_not_change_what_was_seen_before_it():
    x = torch.arange(1000.0, device="cuda")
    with tap.trace(hashes=True) as trace:
        y = x + 1
        y.mul_(0)
        y.add_(3)
    with tap.trace(hashes=True) as expected:
        x.cpu() + 1
    records = {record.key: record for record in trace.recorded.records}
    assert records["aten::add.Tensor"].hash == expected.recorded.record("aten::add.Tensor").hash
    assert records["aten::mul_.Tensor"].stats["zeros"] == 1000
    assert records["aten::add_.Tensor"].stats["min"] == 3


def test_what_an_operator_writes_to_is_read_before_it_does():
    x, y = torch.full((100,), 7.0, device="cuda"), torch.ones(100, device="cuda")
    with tap.trace(hashes=True) as trace:
        x.copy_(y)  # neither was seen before
        torch._foreach_add_([y], 2)
    seen = {record.key: record.stats["max"] for record in trace.recorded.records}
    assert seen == {
        "aten::copy_@in/0": 7,
        "aten::copy_@in/1": 1,
        "aten::copy_": 1,
        "aten::_foreach_add_.Scalar@after/0/0": 3,
    }


def test_nothing_is_waited_for():
    model, x = block()
    with torch.no_grad():
        model(x)
        torch.cuda.synchronize()
        with tap.trace(model, hashes=True) as trace:
            torch.cuda._sleep(2_000_000_000)  # about a second
            model(x)
            assert not torch.cuda.current_stream().query()  # still at it
    assert all(record.hash is not None for record in trace.recorded.records)


def a_random_program(device, streams):
    """Writes in place, makes new tensors and lets old ones go, on two streams that wait for one another."""
    chance = random.Random(5)
    tensors = [torch.full((257,), number, device=device) for number in range(8)]
    for _ in range(10_000):
        stream, other = streams if chance.random() < 0.5 else reversed(streams)
        which, what, amount = chance.randrange(len(tensors)), chance.random(), chance.randrange(100)
        if stream is not None:
            stream.wait_stream(other)
        with torch.cuda.stream(stream):
            if what < 0.4:
                tensors[which].add_(amount)
            elif what < 0.7:
                tensors[which] = tensors[which] + amount
            else:
                tensors[which].mul_(-1)


def test_ten_thousand_random_taps_writes_and_frees_on_two_streams_leave_every_record_right():
    with tap.trace(hashes=True, inputs=False) as on_device:
        a_random_program("cuda", [torch.cuda.Stream(), torch.cuda.Stream()])
    with tap.trace(hashes=True, inputs=False) as on_host:
        a_random_program("cpu", [None, None])
    seen = [record.hash for record in on_device.recorded.records]
    assert len(seen) > 10_000
    assert seen == [record.hash for record in on_host.recorded.records]


def test_the_same_bits_forward_and_backward():
    model, x = block()

    def step():
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return [loss.detach().clone(), *(parameter.grad.clone() for parameter in model.parameters())]

    plain = step()
    with tap.trace(model) as names:
        named = step()
    with tap.trace(model, hashes=True) as hashed:
        tapped = step()
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(plain, named, tapped))
    # Holding tensors for a while must not change what autograd does with them.
    assert [event.name for event in names.events] == [event.name for event in hashed.events]


def test_the_model_gets_its_memory_back():
    model, x = block()
    with torch.no_grad():
        model(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        with tap.trace(model, hashes=True):
            model(x)
        assert torch.cuda.memory_allocated() == before


def test_a_storage_that_is_emptied_past_any_operator_is_counted_not_read():
    x = torch.ones(1000, device="cuda")
    with tap.trace(hashes=True) as trace:
        y = x + 1
        y.untyped_storage().resize_(0)
    assert trace.counts["lost"] == 1
    assert trace.recorded.record("aten::add.Tensor").hash is None


def test_a_large_tensor_that_is_not_new_is_read_at_once():
    old = torch.ones(1 << 20, device="cuda")
    with tap.trace(hashes=True) as trace:
        old.view(1024, 1024)
        old.untyped_storage().resize_(0)  # as FSDP does with parameters that it gathered
    assert trace.counts["lost"] == 0
    assert trace.recorded.record("aten::view").stats["min"] == 1


def test_views_of_a_large_tensor_that_waits_wait_too():
    old = torch.ones(1 << 20, device="cuda")
    with tap.trace(hashes=True) as trace:
        new = old + 1
        new[::2]
        new.untyped_storage().resize_(0)
    records = {record.key: record for record in trace.recorded.records}
    assert records["aten::add.Tensor@in/0"].stats["max"] == 1
    assert records["aten::add.Tensor"].hash is None and records["aten::slice.Tensor"].hash is None
    assert trace.counts["lost"] == 2


def test_the_same_bytes_in_another_shape_are_read_once():
    x = torch.randn(64, 96, device="cuda")
    with tap.trace(hashes=True) as trace:
        y = x + 1
        y.view(96, 64)
        torch.ops.aten._unsafe_view(y, [-1])
        y.t()
        y.mul_(2)
        y.view(96, 64)
    seen = {record.key: record.hash for record in trace.recorded.records}
    assert all(seen.values()) and trace.counts["lost"] == 0
    assert seen["aten::view"] == seen["aten::_unsafe_view"] == seen["aten::add.Tensor"]
    assert seen["aten::t"] != seen["aten::add.Tensor"]
    assert seen["aten::view::call2"] == seen["aten::mul_.Tensor"] != seen["aten::add.Tensor"]
    with tap.trace(hashes=True) as on_host:
        x.cpu().add(1).view(96, 64)
    assert on_host.recorded.record("aten::view").hash == seen["aten::view"]


def test_what_only_the_innermost_operators_read_has_its_hash():
    a, b = torch.randn(8, 4, device="cuda"), torch.randn(4, 8, device="cuda")
    with tap.trace(hashes=True, view="leaf") as trace:
        torch.matmul(a, b)
    assert trace.counts["lost"] == 0
    assert all(record.hash is not None for record in trace.recorded.records)


def test_complex_views_that_are_read_as_conjugates():
    x = torch.randn(8, dtype=torch.complex64, device="cuda")
    with tap.trace(hashes=True) as on_device:
        torch.view_as_real(x.conj().resolve_conj())
    x = x.cpu()
    with tap.trace(hashes=True) as on_host:
        torch.view_as_real(x.conj().resolve_conj())
    assert [r.hash for r in on_device.recorded.records] == [r.hash for r in on_host.recorded.records]
