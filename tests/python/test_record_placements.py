"""How DTensors are spread is kept beside the passes, and nothing of it reaches the model."""

import subprocess
import sys

import pytest
import tensortap as tap
import torch
import torch.distributed as dist
from torch import nn


@pytest.fixture(scope="module")
def mesh():
    """A mesh of this process alone."""
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    dist.destroy_process_group()


class Spreads(nn.Module):
    """Gives what it is given as a DTensor with these placements."""

    def __init__(self, mesh, *placements):
        super().__init__()
        self.mesh, self.placements = mesh, placements

    def forward(self, x):
        from torch.distributed.tensor import DTensor

        return DTensor.from_local(x, self.mesh, self.placements, run_check=False)


def placements(run):
    (rank,) = tap.open(run).ranks
    return rank.placements


def test_the_mesh_the_place_in_it_and_the_placements_are_kept(mesh, tmp_path):
    from torch.distributed.tensor import Replicate, Shard

    model = nn.Sequential(Spreads(mesh, Shard(1), Replicate()), nn.Identity())
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(2, 3))
    first = {
        "mesh_shape": [1, 1],
        "mesh_dim_names": ["dp", "tp"],
        "coordinate": [0, 0],
        "placements": ["Shard(1)", "Replicate()"],
        "global_shape": [2, 3],
    }
    assert placements(tmp_path) == {"0/_local_tensor": first, "1/_local_tensor": first}


def test_a_pass_that_is_spread_otherwise_is_kept_beside_the_first(mesh, tmp_path):
    from torch.distributed.tensor import Partial, Replicate, Shard

    model = nn.Sequential(Spreads(mesh, Shard(0), Replicate()))
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(2))
        model(torch.ones(5))  # another shape is no other spread
        model[0].placements = (Partial(), Partial("avg"))
        model(torch.ones(2))
    entry = placements(tmp_path)["0/_local_tensor"]
    assert entry["placements"] == ["Shard(0)", "Replicate()"]
    assert entry["global_shape"] == [2]
    assert {number: other["placements"] for number, other in entry["passes"].items()} == {
        "2": ["Partial(sum)", "Partial(avg)"]
    }


def test_it_is_there_when_a_pass_has_ended(mesh, tmp_path):
    from torch.distributed.tensor import Replicate

    model = nn.Sequential(Spreads(mesh, Replicate(), Replicate()))
    with tap.record(model, tmp_path, report=False):
        model(torch.ones(2))
        assert list(placements(tmp_path)) == ["0/_local_tensor"]


def test_a_second_recording_keeps_what_the_first_has_learned(mesh, tmp_path):
    from torch.distributed.tensor import Replicate

    for name in ("first", "second"):
        model = nn.Sequential(Spreads(mesh, Replicate(), Replicate()))
        with tap.record({name: model}, tmp_path, append=True, report=False):
            model(torch.ones(2))
    assert list(placements(tmp_path)) == ["first.0/_local_tensor", "second.0/_local_tensor"]


def test_calls_roles_and_further_names_have_keys_of_their_own(mesh, tmp_path):
    from torch.distributed.tensor import Replicate

    shared = Spreads(mesh, Replicate(), Replicate())
    model = nn.ModuleDict({"a": shared, "b": shared, "c": nn.Identity()})
    model.forward = lambda x: (model["c"](model["a"](x)), model["b"](x))
    with tap.record(model, tmp_path, roles=("in", "out"), report=False):
        model(torch.ones(2))
    (rank,) = tap.open(tmp_path).ranks
    recorded = [key for key in rank.passes[0] if key.endswith("/_local_tensor")]
    assert set(recorded) <= set(rank.placements)
    assert {"a/_local_tensor", "b::call2/_local_tensor", "c@in/0/_local_tensor"} <= set(recorded)


def test_what_cannot_be_written_does_not_reach_the_model(mesh, tmp_path, capsys):
    from torch.distributed.tensor import Replicate

    model = nn.Sequential(Spreads(mesh, Replicate(), Replicate()))
    with tap.record(model, tmp_path) as recording:
        (recording.rank_directory / "placements.json").mkdir()
        assert model(torch.ones(2)).to_local().tolist() == [1, 1]
    assert "placements.json could not be written" in capsys.readouterr().err
    assert not list(recording.rank_directory.glob("*.partial"))
    assert "0/_local_tensor" in tap.open(tmp_path).ranks[0].passes[0]


def test_nothing_is_imported_for_it(tmp_path):
    program = f"""
import sys, torch, tensortap as tap
before = "torch.distributed.tensor" in sys.modules
model = torch.nn.Linear(2, 2)
with tap.record(model, {str(tmp_path)!r}, report=False):
    model(torch.ones(2).to_sparse().to_dense())
assert ("torch.distributed.tensor" in sys.modules) == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
