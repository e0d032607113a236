"""`ttap show` of quantized tensors, and of what a format would make of others."""

import pytest
from ttap_command import read_json, run


def test_what_four_bits_would_make_of_a_tensor(runs):
    result = run("show", runs("weights"), "model.wide@param/weight", "--quant", "nvfp4")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert "as nvfp4 (NVFP4, blocks of 16 along rows, scales E4M3, global scale 0.0003609)" in lines
    assert "  underflow  44 %                  overflow      0 %" in lines
    codes = lines.index("codes (2048 values)")
    assert [line.split()[0] for line in lines[codes + 1 : codes + 17]] == [
        *("0xf", "0xe", "0xd", "0xc", "0xb", "0xa", "0x9", "0x8"),
        *("0x0", "0x1", "0x2", "0x3", "0x4", "0x5", "0x6", "0x7"),
    ]
    grid = lines.index("values (blocks of 1 × 16, the scale of each before it)")
    assert lines[grid + 1].startswith("  0  |  ×0.162 ")
    assert lines[grid + 1].count("|") == 2
    scales = next(i for i, line in enumerate(lines) if line.startswith("scales (32 × 4, "))
    assert lines[scales + 1] == "  ####"
    assert lines[scales + 16] == "  ...."


def test_json_has_the_whole_picture(runs):
    shown, code = read_json("show", runs("weights"), "model.calm@param/weight", "--quant", "mxfp8")
    assert code == 0
    assert shown["what_if"] is True
    quant = shown["quant"]
    assert quant["words"] == "MXFP8 (E4M3), blocks of 32 along rows, scales E8M0"
    assert (quant["rows"], quant["columns"], quant["block_rows"], quant["block_columns"]) == (32, 64, 1, 32)
    assert len(quant["codes"]) == 256
    assert sum(quant["codes"]) == sum(bin["count"] for bin in quant["code_bins"]) == 2048
    assert (quant["scales"]["rows"], quant["scales"]["columns"]) == (32, 2)
    assert len(quant["scales"]["cells"]) == 64
    assert max(quant["scales"]["cells"]) == quant["scale_max"] == 2**-9
    assert quant["against"]["sqnr_db"] == pytest.approx(26, abs=1)
    grid = quant["grid"]
    for before, after in zip(grid["before"], grid["values"], strict=True):
        assert abs(before - after) <= quant["against"]["max_error"]
    worst = quant["worst"][0]
    assert abs(worst["before"] - worst["after"]) == pytest.approx(quant["against"]["max_error"])


def test_without_quantizing_there_is_no_picture(runs):
    shown, _ = read_json("show", runs("weights"), "model.calm@param/weight")
    assert (shown["what_if"], shown["quant"]) == (False, None)


def test_the_grid_begins_at_the_index(runs):
    shown, _ = read_json("show", runs("weights"), "model.calm@param/weight", "--quant", "nvfp4", "--index", "30,-16")
    assert shown["quant"]["grid"]["rows"] == [30, 31]
    assert shown["quant"]["grid"]["columns"] == [48, 49, 50, 63]


@pytest.mark.parametrize(
    ("key", "recipe", "message"),
    [
        ("model.calm@param/weight", "fp5", "--quant: no quantized format is called 'fp5'"),
        ("model.tokens", "nvfp4", "--quant: a tensor of i64 is not quantized"),
    ],
)
def test_what_cannot_be_quantized_is_said(runs, key, recipe, message):
    result = run("show", runs("weights"), key, "--quant", recipe)
    assert result.returncode == 2
    assert message in result.stderr


# ---- what is quantized already ----


def test_a_quantized_tensor_says_how_and_shows_its_blocks(runs):
    result = run("show", runs("quantized"), "model.calm@param/weight")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    words = next(line for line in lines if line.startswith("  quantized"))
    assert "NVFP4, blocks of 16 along rows, scales E4M3, global scale " in words
    assert words.endswith(", from torchao")
    assert "values [:, :] (decoded)" in lines
    assert "codes (2048 values)" in lines
    assert any(line.startswith("scales (32 × 4, ") for line in lines)
    assert "against the high-precision tensor" not in result.stdout


def test_its_error_is_told_against_the_high_precision_run(runs):
    words = ["show", runs("quantized"), "model.calm@param/weight", "--against", runs("weights")]
    shown, code = read_json(*words)
    assert code == 0
    assert (shown["decoded"], shown["what_if"]) == (True, False)
    would_be, _ = read_json("show", runs("weights"), "model.calm@param/weight", "--quant", "nvfp4")
    assert shown["quant"]["against"] == would_be["quant"]["against"]
    assert shown["quant"]["codes"] == would_be["quant"]["codes"]
    assert shown["quant"]["grid"]["before"] == would_be["quant"]["grid"]["before"]
    assert "against the high-precision tensor (2048 values)" in run(*words).stdout


def test_the_twin_of_a_dump_lies_beside_it(runs):
    shown, _ = read_json("show", runs("dumped"), "model.fc@activation/quantized")
    assert shown["quant"]["against"]["sqnr_db"] == pytest.approx(26, abs=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against", "{weights}", "model.other@param/weight"], "no high-precision tensor 'model.other@param/weight'"),
        (["--against", "{weights}", "model.tokens"], "--against: 'model.tokens' is not quantized"),
        (["--quant", "fp8", "model.calm@param/weight"], "--quant: 'model.calm@param/weight' is quantized already"),
        (["--against", "/no/such/run", "model.calm@param/weight"], "--against: no such file or directory"),
    ],
)
def test_what_makes_no_sense_is_said(runs, words, message):
    *options, key = [word.format(weights=runs("weights")) for word in words]
    result = run("show", runs("quantized"), key, *options)
    assert result.returncode == 2
    assert message in result.stderr


def test_ls_marks_what_is_quantized(runs):
    result = run("ls", runs("quantized"))
    lines = result.stdout.splitlines()
    assert "quantized" in lines[2].split()
    row = next(line for line in lines if line.startswith("model.wide@param/weight "))
    assert row.split()[1:3] == ["f32", "mxfp8_e4m3"]
    listed, _ = read_json("ls", runs("quantized"))
    groups = {tensor["key"]: tensor["group"] for tensor in listed["passes"][0]["tensors"]}
    assert groups["model.calm@param/weight"]["format"]["name"] == "nvfp4"
    assert groups["model.calm@param/weight"]["parts"] == ["payload", "scale", "global_scale"]
    assert groups["model.calm@param/weight/payload"] is None
    assert "quantized" not in run("ls", runs("weights")).stdout
