"""tap.quant.record(format="pt"): a file for each tensor."""

import json
import os
import shutil

import pytest
import tensortap as tap
import torch
from dumped_training import Mlp, by_hand, config, train
from quantized import decode, encode, format_of, same_bits
from tensortap.quant.dump.files import file_name
from torch import nn

YAML = """
linear_layers:
  enabled: True
  layers:
    layer_name_regex_pattern: .*(fc1|fc2)
  transformer_engine:
    DumpTensors:
      enabled: True
      tensors_struct:
        - tensor: activation
          high_precision_tensor: True
          quantized_tensor: True
          dump_quantized_internals: True
          recipe: nvfp4
          start_step: 1
          end_step: 5
          freq: 2
        - tensor: weight
          high_precision_tensor: True
          quantized_tensor: False
          start_end_list: [[0, 0], [4, 5]]
        - tensor: wgrad
          high_precision_tensor: True
          freq: 3
"""


def load(path):
    return torch.load(path, weights_only=True)


def files_of(folder):
    return {
        step.name: sorted(path.name for path in step.iterdir())
        for step in sorted((folder / "rank_0").iterdir())
        if step.is_dir()
    }


def test_a_training_loop_with_gradient_accumulation(tmp_path):
    torch.manual_seed(7)
    model = Mlp()
    with tap.quant.record(model, tmp_path, YAML, format="pt", report=False, strict=True) as dump:
        batches, weights = train(model, steps=7, microbatches=3, after_step=dump.step)

    scheduled = {"activation": {1, 3, 5}, "weight": {0, 4, 5}, "wgrad": {0, 3, 6}}
    expected = {}
    for step in range(7):
        names = [
            f"{layer}_{tensor}_microbatch{microbatch}.pt"
            for layer in ("fc1", "fc2")
            for tensor, steps in scheduled.items()
            for microbatch in range(1 if tensor == "weight" else 3)
            if step in steps
        ]
        if names:
            expected[f"iter_{step:06d}"] = sorted(names)
    assert files_of(tmp_path) == expected
    assert sum(len(names) for names in expected.values()) == 18 + 6 + 18

    for step in range(7):
        for microbatch, x in enumerate(batches[step]):
            had = by_hand(weights[step], x)
            for layer in had:
                for tensor in ("activation", "weight", "wgrad"):
                    path = tmp_path / f"rank_0/iter_{step:06d}" / f"{layer}_{tensor}_microbatch{microbatch}.pt"
                    if path.exists():
                        read = load(path)
                        assert torch.equal(read["high_precision"], had[layer][tensor]), path
                        assert (read["layer"], read["tensor"], read["step"], read["microbatch"]) == (
                            layer, tensor, step, microbatch,
                        )  # fmt: skip


def test_the_quantized_side_is_plain_tensors_that_decode_to_what_the_recipe_makes(tmp_path):
    torch.manual_seed(1)
    model, x = Mlp(), torch.randn(5, 32)
    given = config(["activation"], "fc1", recipe="nvfp4", dump_quantized_internals=True, quantized_tensor=True)
    with tap.quant.record(model, tmp_path, given, format="pt", report=False):
        model(x)
    read = load(tmp_path / "rank_0/iter_000000/fc1_activation_microbatch0.pt")
    assert "high_precision" not in read
    quantized, made = read["quantized"], format_of("nvfp4")
    payload, scale, factor, _ = encode(x, made)
    assert torch.equal(quantized["payload"], payload)
    assert torch.equal(quantized["scale"].view(torch.uint8), scale.view(torch.uint8))
    assert torch.equal(quantized["global_scale"], factor)
    assert same_bits(quantized["decoded"], decode(made, x.shape, payload, scale, factor))
    assert json.loads(quantized["format"])["name"] == "nvfp4"
    # What is inside, as plain numbers: a scale for each block, a value for each code.
    assert quantized["block_scales"].shape == (5, 2) and quantized["code_values"].shape == x.shape
    assert set(quantized["code_values"].abs().unique().tolist()) <= {0, 0.5, 1, 1.5, 2, 3, 4, 6}
    scaled = quantized["code_values"] * quantized["block_scales"].repeat_interleave(16, dim=1)
    assert torch.equal(scaled, quantized["decoded"])
    for value in (*read.values(), *quantized.values()):
        assert type(value) in (torch.Tensor, str, int, dict)


def test_internals_are_there_on_request_only(tmp_path):
    model = Mlp()
    with tap.quant.record(model, tmp_path, config(["weight"], "fc1", recipe="mxfp8"), format="pt", report=False):
        model(torch.randn(2, 32))
    read = load(tmp_path / "rank_0/iter_000000/fc1_weight_microbatch0.pt")
    assert set(read["quantized"]) == {"payload", "scale", "format", "decoded"}
    assert type(read["high_precision"]) is torch.Tensor and torch.equal(read["high_precision"], model.fc1.weight)


def test_a_view_is_written_without_the_rest_of_its_storage(tmp_path):
    model = nn.Sequential(nn.Linear(4, 2))
    whole = torch.randn(10_000, 4)
    with tap.quant.record(model, tmp_path, config(["activation"]), format="pt", report=False):
        model(whole[3:5])
    path = tmp_path / "rank_0/iter_000000/0_activation_microbatch0.pt"
    assert path.stat().st_size < 4_000
    assert torch.equal(load(path)["high_precision"], whole[3:5])


def test_a_layer_that_is_called_several_times_in_a_microbatch(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.fc(x))

    model, x = Twice(), torch.randn(2, 3)
    with tap.quant.record(model, tmp_path, config(["activation", "wgrad"]), format="pt", report=False):
        for _ in range(2):
            model(x).sum().backward()
    names = [
        f"fc_{tensor}_microbatch{m}{again}.pt"
        for tensor in ("activation", "wgrad")
        for m in range(2)
        for again in ("", "_call2")
    ]
    assert files_of(tmp_path) == {"iter_000000": sorted(names)}
    folder = tmp_path / "rank_0/iter_000000"
    second = load(folder / "fc_activation_microbatch1_call2.pt")
    assert torch.equal(second["high_precision"], model.fc(x)) and second["call"] == 2
    # Each call has its own gradient, and together they are what the weight got in this microbatch.
    parts = [load(folder / f"fc_wgrad_microbatch0{again}.pt")["high_precision"] for again in ("", "_call2")]
    assert not torch.equal(*parts)
    assert torch.allclose(2 * sum(parts), model.fc.weight.grad)


# ---- names ----


def test_names_that_only_differ_in_what_is_escaped_do_not_meet(tmp_path):
    names = ["a_b", "a/b", "a b", "a%2Fb", "a:b", "A_b", "a_b_weight", "ä", "a\\b"]
    model = nn.ModuleDict()
    for name in names:
        model.add_module(name, nn.Linear(2, 2))
    holder = nn.Module()
    holder.forward = lambda x: [layer(x) for layer in model.values()]
    holder.layers = model
    given = config(["weight", "output"], recipe=None)
    with tap.quant.record(holder, tmp_path, given, format="pt", report=False):
        holder(torch.randn(1, 2))
    folder = tmp_path / "rank_0/iter_000000"
    read = [load(path) for path in folder.iterdir()]
    assert len(read) == 2 * len(names)
    assert {each["layer"] for each in read} == {f"layers.{name}" for name in names}
    for each in read:
        if each["tensor"] == "weight":
            assert torch.equal(each["high_precision"], model[each["layer"].removeprefix("layers.")].weight)


def test_file_names_are_told_apart_and_fit():
    assert file_name("a.b", "weight", 0, 1) == "a.b_weight_microbatch0.pt"
    assert file_name("a/b c", "weight", 3, 2) == "a%2Fb%20c_weight_microbatch3_call2.pt"
    long = ["x" * 300 + tail for tail in ("1", "2")] + ["x" * 150, "x" * 151]
    made = {file_name(name, "activation", 0, 1) for name in long}
    assert len(made) == 4 and all(len(name) <= 200 for name in made)
    tricky = ["a", "a_weight", "a_weight_microbatch0", "a_microbatch0", "a%", "a%25", "a~"]
    made = [file_name(n, t, m, c) for n in tricky for t in ("weight", "output") for m in (0, 1) for c in (1, 2)]
    assert len(set(made)) == len(made)


# ---- nothing is overwritten ----


def test_a_directory_that_holds_these_steps_already_is_refused(tmp_path):
    model, x = Mlp(), torch.randn(2, 32)
    with tap.quant.record(model, tmp_path, config(["output"]), format="pt", report=False) as dump:
        for _ in range(3):
            model(x)
            dump.step()
    with pytest.raises(FileExistsError, match=r"holds a dump of step 0 already: .* pass first_step=3 to go on"):
        tap.quant.record(model, tmp_path, config(["output"]), format="pt", report=False)
    assert not model.fc1._forward_hooks
    with tap.quant.record(model, tmp_path, config(["output"]), format="pt", first_step=3, report=False) as dump:
        model(x)
        assert dump.step() == 4
    assert list(files_of(tmp_path)) == [f"iter_{step:06d}" for step in range(4)]


def test_a_file_of_another_process_stays(tmp_path):
    model, x = Mlp(), torch.randn(2, 32)
    with tap.quant.record(model, tmp_path, config(["output"], "fc1"), format="pt", report=False) as dump:
        path = tmp_path / "rank_0/iter_000000/fc1_output_microbatch0.pt"
        path.parent.mkdir()
        path.write_text("mine")
        model(x)
    assert path.read_text() == "mine"
    assert "is there already, and stays as it is" in str(dump.coverage["notes"])
    assert json.loads((tmp_path / "rank_0/coverage.json").read_text())["source"] == dump.coverage


def test_a_directory_that_is_gone_at_the_end_is_said_and_not_raised(tmp_path):
    model = Mlp()
    dump = tap.quant.record(model, tmp_path / "dump", config(["output"]), format="pt", report=False)
    shutil.rmtree(tmp_path / "dump")
    model(torch.randn(2, 32))
    with pytest.warns(UserWarning, match=r"coverage\.json could not be written"):
        dump.close()
    assert not dump.recording and not model.fc1._forward_hooks
    assert "could not be written" in str(dump.coverage["notes"])


def test_a_group_that_cannot_be_decoded_is_saved_as_its_parts(tmp_path):
    class Quantized(nn.Module):
        def __init__(self):
            super().__init__()
            codes, zeros = torch.ones(8, 32, dtype=torch.int8), torch.ones(3, 1, dtype=torch.int8)
            self.weight = nn.Parameter(codes, requires_grad=False)
            self.weight_scale = nn.Parameter(torch.rand(8, 1))
            self.weight_zero_point = nn.Parameter(zeros, requires_grad=False)  # there are eight rows

        def forward(self, x):
            return x

    model = nn.Sequential(Quantized())
    with tap.quant.record(model, tmp_path, config(["weight"], "0"), format="pt", report=False) as dump:
        model(torch.ones(2))
    read = load(tmp_path / "rank_0/iter_000000/0_weight_microbatch0.pt")["quantized"]
    assert torch.equal(read["payload"], model[0].weight) and torch.equal(read["scale"], model[0].weight_scale)
    assert set(read) == {"payload", "scale", "zero_point", "format"}
    assert "zero point" in str(dump.coverage)


def test_the_rank_is_in_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    model = Mlp()
    with tap.quant.record(model, tmp_path, config(["output"]), format="pt", report=False) as dump:
        model(torch.randn(2, 32))
    assert os.listdir(tmp_path) == ["rank_3"] and dump.rank_directory == tmp_path / "rank_3"
    with tap.quant.record(model, tmp_path / "b", config(["output"]), format="pt", ranks="0-1", report=False) as dump:
        assert not dump.recording and dump.step() == 1
    assert not (tmp_path / "b").exists()


def test_the_report_at_the_end(tmp_path, capfd):
    model = Mlp()
    with tap.quant.record(model, tmp_path, config(["output"]), format="pt"):
        model(torch.randn(2, 32))
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("tensortap: 1 pass, 2 tensors, ")
    assert lines[1] == (
        "  no quantized output of fc1, fc2: the layer does not show it quantized; the config may name a `recipe`"
    )
    assert lines[-1] == f"  all of it: {tmp_path / 'rank_0/coverage.json'}"


def test_our_own_reader_reads_them(tmp_path):
    model, x = Mlp(), torch.randn(2, 32)
    with tap.quant.record(model, tmp_path, config(["weight"], "fc1", recipe="fp8"), format="pt", report=False):
        model(x)
    read = tap.load_pass(tmp_path / "rank_0/iter_000000/fc1_weight_microbatch0.pt")
    assert torch.equal(read["high_precision"], model.fc1.weight)
    assert list(read) == ["high_precision", *(f"quantized/{name}" for name in ("payload", "scale", "decoded"))]
