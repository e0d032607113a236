"""`ttap diff` of quantized runs: decoded values, by the tolerance of the format."""

import csv

import browser
import numpy as np
import pytest
import safetensors.numpy
import tensortap as tap
from ttap_command import read_json, run


def test_a_quantized_run_against_its_high_precision_one(runs):
    result = run("diff", runs("weights"), runs("quantized"), "--filter", "calm|wide|tokens")
    assert result.returncode == 0, result.stdout
    assert "2 tensors are quantized in A or B: decoded values were compared" in result.stdout
    assert "11 parts of quantized tensors, which are compared as a whole" not in result.stdout
    assert "payload" not in result.stdout


def test_json_and_csv_say_what_was_decoded(runs, tmp_path):
    table = tmp_path / "diff.csv"
    report, code = read_json("diff", runs("weights"), runs("quantized"), "--csv", table)
    assert code == 0
    assert (report["parts_a"], report["parts_b"], report["decoded"]) == (0, 11, 3)
    tensors = {tensor["key"]: tensor for tensor in report["passes"][0]["tensors"]}
    assert set(tensors) == {
        "model.calm@param/weight",
        "model.spiky@param/weight",
        "model.wide@param/weight",
        "model.other@param/weight",
        "model.tokens",
        "model.kept",
    }
    calm = tensors["model.calm@param/weight"]
    assert calm["verdict"] == "within tolerance"
    assert calm["note"] == "B decoded from nvfp4"
    assert calm["tolerance"]["source"] == "nvfp4 default"
    assert calm["quantized_b"].startswith("NVFP4, blocks of 16 along rows")
    assert "quantized_a" not in calm
    rows = {row["key"]: row for row in csv.DictReader(table.open())}
    assert (rows["model.wide@param/weight"]["quantized_a"], rows["model.wide@param/weight"]["quantized_b"]) == (
        "",
        "mxfp8_e4m3",
    )


def test_python_says_the_same(runs):
    found = tap.diff(str(runs("weights")), str(runs("quantized")))
    calm = found["model.calm@param/weight"]
    assert (calm.verdict, calm.note) == ("within tolerance", "B decoded from nvfp4")
    assert calm.quantized_b.startswith("NVFP4")
    assert calm.quantized_a is None
    assert not any("payload" in tensor.key for tensor in found.tensors)


@pytest.fixture(scope="module")
def driver():
    if not (browser.BINARY and browser.DRIVER):
        pytest.skip("needs chromium and chromedriver: apt-get install chromium-driver")
    driver = browser.start()
    yield driver
    driver.quit()


def test_the_report_page_shows_a_quantized_tensor(driver, runs, tmp_path):
    page_path = tmp_path / "diff.html"
    assert run("diff", runs("weights"), runs("quantized"), "--html", page_path).returncode == 0
    page = browser.Page(driver, page_path)
    page.open("model.calm@param/weight")
    assert "NVFP4, blocks of 16 along rows, scales E4M3" in page.text("#detail .facts")
    page.drawn("#detail .codes")
    page.drawn("#detail .scales")
    assert page.js("return document.querySelector('#detail .codes').data[0].y.length") == 16
    assert page.js("return document.querySelector('#detail .codes').data[0].y.reduce((a, b) => a + b)") == 2048
    assert page.js("return document.querySelector('#detail .scales').data[0].z.length") == 32
    # The scale of a block before its values, and a line where it ends.
    assert len(page.texts("#detail .blocks tbody tr")) == 4
    assert page.js("return document.querySelectorAll('#detail .blocks tbody tr:first-child .right-border').length") == 1
    assert page.texts("#detail .blocks tbody tr:first-child .scale")[0].startswith("×0.1")
    page.click("#close")
    page.open("model.wide@param/weight")
    page.drawn("#detail .codes")
    assert "MXFP8 (E4M3), blocks of 32 along rows, scales E8M0" in page.text("#detail .facts")
    page.click("#close")
    page.open("model.tokens")
    assert not page.driver.find_elements("css selector", "#detail .blocks")
    assert page.console() == []


def test_the_ranked_table_as_a_page(driver, runs, tmp_path):
    page_path = tmp_path / "quant.html"
    result = run("check", runs("weights"), "--quant", "nvfp4,mxfp8", "--html", page_path, "--details", "2")
    assert result.returncode == 1
    assert f"page: {page_path}" in result.stdout
    page = browser.Page(driver, page_path)
    assert page.text("#sentence").startswith("2 of 3 tensors suffer; model.wide@param/weight loses 44 %")
    keys = ["model.wide@param/weight", "model.spiky@param/weight", "model.calm@param/weight"]
    assert page.texts("#ranked .key-cell") == keys
    assert page.texts("#recipes tbody th") == ["nvfp4", "mxfp8_e4m3"]
    assert page.texts("#recipes tbody td:nth-child(2)") == ["2 of 3", "0 of 3"]
    assert not page.driver.find_elements("css selector", "#not-listed")
    spiky = page.texts("#ranked tbody[data-key='model.spiky@param/weight'] .harmed")
    assert spiky == ["nvfp4", "93.8 %"]
    assert "model.kept" in page.text("#unjudged")
    page.click("#suffering")
    page.shown("2 tensors")
    page.search("spiky")
    page.shown("1 tensor")
    page.click("#ranked .key-cell button")
    page.drawn("#pictures .codes")
    page.drawn("#pictures .scales")
    assert page.text("#picture-key") == "model.spiky@param/weight"
    assert page.requests() == [page.url]
    page.search("calm")
    page.click("#suffering")
    page.shown("1 tensor")
    # Pictures were asked for the worst two.
    assert not page.driver.find_elements("css selector", "#ranked .key-cell button")
    assert page.console() == []


def test_a_page_says_that_it_lists_the_worst_only(driver, tmp_path):
    calm = {f"calm.{i}": np.full((1, 16), i + 1, np.float32) for i in range(5_003)}
    safetensors.numpy.save_file(calm, tmp_path / "many.safetensors")
    page_path = tmp_path / "many.html"
    assert run("check", tmp_path / "many.safetensors", "--quant", "nvfp4", "--html", page_path).returncode == 0
    page = browser.Page(driver, page_path)
    assert page.text("#not-listed").startswith(
        "Listed are the 5,000 worst tensors. 3 that fare better are only counted"
    )
    assert page.texts("#recipes tbody td:nth-child(2)") == ["0 of 5,003"]
    assert page.console() == []


def test_a_page_that_cannot_be_written_is_an_error(runs):
    result = run("check", runs("weights"), "--quant", "nvfp4", "--html", "/no/such/folder/quant.html")
    assert result.returncode == 2
    assert "name a file in a folder that exists" in result.stderr
