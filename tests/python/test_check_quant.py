"""`ttap check --quant`: which tensors would suffer in which format."""

import json

import numpy as np
import pytest
import safetensors.numpy
from ttap_command import read_json, run


def found_of(report, key):
    return next(tensor for tensor in report["found"] if tensor["key"] == key)


def recipe_of(tensor, name):
    return next(recipe for recipe in tensor["recipes"] if recipe["recipe"] == name)


def test_the_worst_comes_first_in_words(runs):
    result = run("check", runs("weights"), "--quant", "nvfp4,mxfp8,fp8")
    assert result.returncode == 1
    keys = [line.split()[2] for line in result.stdout.splitlines() if line.startswith("   0     0  ")]
    assert keys == ["model.wide@param/weight", "model.spiky@param/weight", "model.calm@param/weight"]
    assert "model.spiky@param/weight  loses 94 % of its values to underflow in nvfp4; mxfp8_e4m3 keeps" in result.stdout
    assert "model.calm@param/weight  fits all of them: nvfp4 keeps" in result.stdout
    assert "1 tensor was not of f16, bf16, f32 or f64" in result.stdout
    assert "'model.kept' was recorded at level 'fingerprint'" in result.stdout
    assert result.stdout.endswith("2 suffer of 3 tensors of 1 pass\n")


def test_json_has_every_statistic(runs):
    report, code = read_json("check", runs("weights"), "--quant", "nvfp4,mxfp8")
    assert code == 1
    assert (report["judged"], report["suffering"], report["not_real"]) == (3, 2, 1)
    assert [recipe["recipe"] for recipe in report["quant"]] == ["nvfp4", "mxfp8_e4m3"]
    assert report["quant"][0]["usual_sqnr_db"] == pytest.approx(20.5, abs=0.5)
    spiky = found_of(report, "model.spiky@param/weight")
    assert spiky["suffers"] and spiky["words"].startswith("loses 94 % of its values to underflow in nvfp4")
    nvfp4 = recipe_of(spiky, "nvfp4")
    assert (nvfp4["harm"], nvfp4["in_use"], nvfp4["underflow"]) == ("underflow", False, 32 * 64 * 15 // 16)
    assert nvfp4["underflow_percent"] == 93.75
    assert nvfp4["overflow"] == 0
    assert nvfp4["amax"] == 768
    assert nvfp4["scale_min"] == nvfp4["scale_max"] == pytest.approx(768 / 6, rel=1e-6)
    assert nvfp4["block_dynamic_range"] == pytest.approx(nvfp4["dynamic_range"])
    assert recipe_of(spiky, "mxfp8_e4m3")["harm"] is None
    # A block of mxfp8 is one of two of nvfp4, so its own range is no smaller.
    wide = found_of(report, "model.wide@param/weight")
    assert recipe_of(wide, "mxfp8_e4m3")["block_dynamic_range"] >= recipe_of(wide, "nvfp4")["block_dynamic_range"]
    assert [trouble["key"] for trouble in report["unjudged"]] == ["model.kept"]


def test_nothing_suffers_is_fine(runs):
    result = run("check", runs("weights"), "--quant", "mxfp8", "--filter", "calm")
    assert result.returncode == 0
    assert "none suffers of 1 tensor of 1 pass" in result.stdout
    assert "4 tensors were left out by --filter 'calm'" in result.stdout


def test_the_limit_can_be_given(runs):
    words = ["check", runs("weights"), "--quant", "nvfp4", "--filter", "calm"]
    assert run(*words).returncode == 0
    result = run(*words, "--min-sqnr", "30")
    assert result.returncode == 1
    assert "keeps only 19.9 dB in nvfp4, where 20.4 dB are usual" in result.stdout


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_without_a_finite_value_nothing_fits(tmp_path, value):
    np.save(tmp_path / "lost.npy", np.full((16, 64), value, np.float32))
    result = run("check", tmp_path / "lost.npy", "--quant", "nvfp4,mxfp8")
    assert result.returncode == 1
    assert "lost  has no finite value: there is nothing to quantize" in result.stdout
    assert "exact" not in result.stdout


def test_an_unknown_format_lists_what_there_is(runs):
    result = run("check", runs("weights"), "--quant", "nvfp4,fp5")
    assert result.returncode == 2
    assert "--quant: no quantized format is called 'fp5'" in result.stderr
    for name in ["nvfp4", "mxfp8_e4m3", "fp8_block_128x128", "int4"]:
        assert name in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quant", "nvfp4", "--verify"], "--verify excludes --quant"),
        (["--min-sqnr", "20"], "--min-sqnr requires --quant"),
        (["--quant", "nvfp4", "--min-sqnr", "nan"], "--min-sqnr: nan is no limit"),
        (["--quant", "nvfp4", "--min-sqnr", "inf"], "--min-sqnr: inf is no limit"),
        (["--quant", "int8_sometimes"], "'sometimes' says nothing of int8"),
    ],
)
def test_what_makes_no_sense_is_refused(runs, words, message):
    result = run("check", runs("weights"), *words)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_format_twice_is_one(runs):
    report, _ = read_json("check", runs("weights"), "--quant", "fp8,fp8_e4m3", "--quant", "fp8")
    assert [recipe["recipe"] for recipe in report["quant"]] == ["fp8_e4m3"]


def test_a_run_in_another_format_gives_the_same(runs, tmp_path):
    source = runs("weights")
    assert run("export", source, "--format", "safetensors", "-o", tmp_path / "out").returncode == 0
    file = next((tmp_path / "out").rglob("*.safetensors"))
    ours, _ = read_json("check", source, "--quant", "nvfp4,int8")
    theirs, _ = read_json("check", file, "--quant", "nvfp4,int8")
    key = "model.wide@param/weight"
    assert found_of(ours, key)["recipes"] == found_of(theirs, key)["recipes"]


def test_what_is_not_finite_after_quantizing_comes_first(runs):
    result = run("check", runs("broken"), "--quant", "fp8", "--json")
    worst = json.loads(result.stdout)["found"][0]
    assert worst["key"] == "model.layers.1.mlp"
    assert worst["recipes"][0]["sqnr_db"] == "-inf"
    assert "3 values were not finite before" in worst["words"]


# ---- what is quantized already ----


def test_a_quantized_run_is_held_against_its_high_precision_twin(runs):
    words = ["check", runs("quantized"), "--quant", "mxfp8", "--against", runs("weights")]
    report, code = read_json(*words)
    assert code == 1
    assert report["parts"] == 3 * 3 + 2
    spiky = found_of(report, "model.spiky@param/weight")
    assert [(recipe["recipe"], recipe["in_use"]) for recipe in spiky["recipes"]] == [
        ("nvfp4", True),
        ("mxfp8_e4m3", False),
    ]
    assert spiky["words"].startswith("loses 94 % of its values to underflow in nvfp4 (in use); mxfp8_e4m3 keeps")
    # What was done is what would be done.
    would_be, _ = read_json("check", runs("weights"), "--quant", "nvfp4")
    expected = recipe_of(found_of(would_be, "model.spiky@param/weight"), "nvfp4")
    in_use = recipe_of(spiky, "nvfp4")
    for name in ["underflow", "overflow", "scale_min", "scale_max", "dynamic_range", "block_dynamic_range"]:
        assert in_use[name] == expected[name], name
    assert in_use["mse"] == pytest.approx(expected["mse"])
    assert [tensor["key"] for tensor in report["without_twin"]] == ["model.other@param/weight"]
    assert "1 quantized tensor has no high-precision twin in " in run(*words).stdout


def test_without_another_run_it_says_how_to_name_one(runs):
    result = run("check", runs("quantized"), "--quant", "mxfp8")
    assert result.returncode == 0
    assert "4 quantized tensors have no high-precision twin here: --against RUN" in result.stdout


def test_a_dump_has_its_twins_beside_it(runs):
    report, code = read_json("check", runs("dumped"), "--quant", "nvfp4")
    assert code == 0
    keys = {tensor["key"]: [recipe["recipe"] for recipe in tensor["recipes"]] for tensor in report["found"]}
    assert keys == {"model.fc@activation": ["nvfp4"], "model.fc@activation/quantized": ["mxfp8_e4m3"]}
    assert report["without_twin"] == []


def report_in(page):
    """The JSON that a page carries."""
    text = page.read_text()
    begin = text.index(">", text.index('id="report"')) + 1
    return json.loads(text[begin : text.index("</script>", begin)])


def test_a_page_of_thousands_lists_the_worst_and_counts_all(tmp_path):
    generator = np.random.default_rng(0)
    many = {f"calm.{i}": generator.normal(size=(1, 16)).astype(np.float32) for i in range(5_201)}
    safetensors.numpy.save_file(many, tmp_path / "many.safetensors")
    report, _ = read_json(
        "check", tmp_path / "many.safetensors", "--quant", "nvfp4", "--html", tmp_path / "many.html", "--details", "1"
    )
    assert len(report["found"]) == 5_201 and report["not_listed"] == {"found": 0, "without_twin": 0, "unjudged": 0}
    page = report_in(tmp_path / "many.html")
    assert (page["judged"], len(page["found"]), page["not_listed"]["found"]) == (5_201, 5_000, 201)
    assert [tensor["key"] for tensor in page["found"]] == [tensor["key"] for tensor in report["found"][:5_000]]
    assert "picture" in page["found"][0]
    # What is said of the recipe is of all tensors.
    (nvfp4,) = page["quant"]
    decibels = sorted(tensor["recipes"][0]["sqnr_db"] for tensor in report["found"])
    assert (nvfp4["judged"], nvfp4["suffering"]) == (5_201, page["suffering"])
    assert (nvfp4["lowest_sqnr_db"], nvfp4["median_sqnr_db"]) == (decibels[0], decibels[len(decibels) // 2])
