"""The report page in Chromium: written by write_page(), used as a reader uses it."""

import copy

import browser
import pytest
import sample_report as sample
import tensortap as tap
import torch
from small_models import Model

pytestmark = pytest.mark.skipif(
    not (browser.BINARY and browser.DRIVER), reason="needs chromium and chromedriver: apt-get install chromium-driver"
)


@pytest.fixture(scope="module")
def driver():
    driver = browser.start()
    yield driver
    driver.quit()


@pytest.fixture
def show(driver, tmp_path):
    """Opens a report; nothing may have gone wrong in the page by the end of the test."""
    pages = []

    def show(report=None, **options):
        pages.append(
            browser.Page(driver, browser.write(report or sample.sample(), tmp_path / "a report.html"), **options)
        )
        return pages[-1]

    yield show
    for page in pages[-1:]:
        assert page.console() == []


def test_nothing_is_fetched_but_the_file_itself(show):
    page = show()
    page.open(sample.FAULT)
    page.drawn("#detail .heat")
    assert page.requests() == [page.url]


def test_the_verdict_stands_first_with_its_cause_and_its_evidence(show):
    page = show()
    assert page.text("#sentence") == f"The two runs part at {sample.FAULT}, which introduced the error."
    first = page.text("#first")
    assert sample.FAULT in first and "introduced" in first and "its input encoder.layer.3.output.dense agrees" in first
    assert "its input encoder.layer.3.output.dense agrees to 3e-07" in page.texts("#evidence li")


def test_a_run_without_divergence_says_so(show):
    tensors = [sample.tensor(i, f"layer.{i}", "identical", evidence="hash") for i in range(3)]
    page = show(sample.report([tensors]))
    assert page.text("#sentence") == "No tensor diverged."
    assert not page.driver.find_elements("css selector", "#first")
    page.shown("3 tensors")


def test_a_report_without_tensors_opens(show):
    page = show(sample.report([[]], first=None))
    page.shown("0 tensors")
    assert "no tensor passes the filters" in page.text("#chart")


def test_what_was_left_out_and_warnings_are_stated(show):
    page = show()
    assert page.texts("#thinned li") == ["details of 3 of 27 tensors: the introduced ones, then the largest errors"]
    assert page.texts("#warnings li") == ["--tol 'decoder' matched no tensor"]


def test_where_nothing_was_left_out_nothing_is_said(show):
    page = show(sample.report([sample.encoder()[0]]))
    assert page.texts("#notes") == [""]


def test_one_of_several_passes_is_looked_at_by_itself(show):
    passes = [sample.encoder(seed=seed)[0] for seed in (0, 1)]
    page = show(sample.report(passes))
    page.shown("116 tensors")
    page.find("#pass").send_keys("rank 0, pass 1")
    page.shown("58 of 116 tensors")
    assert page.chart("Math.min(...chart.data.flatMap(trace => trace.x))") == 58
    page.click("[data-verdict='introduced']")
    page.shown("1 of 116 tensors")
    page.click(".lines .line")
    assert page.driver.current_url.endswith("#t=1.38")
    assert "rank 0, pass 1" in page.text("#detail")


def test_a_report_of_another_version_is_not_guessed_at(driver, tmp_path):
    page = browser.Page(driver, browser.write(sample.sample() | {"version": 2}, tmp_path / "page.html"))
    assert "version 1, not 2" in page.text(".problem[role=alert]")


# ---- filters and table ----


def test_a_chip_shows_the_tensors_of_its_verdict(show):
    page = show()
    assert "21 diverged" in page.text("[data-verdict='diverged']")
    page.click("[data-verdict='shape mismatch']")
    page.shown("1 of 64 tensors")
    assert page.keys() == ["head.out"]
    page.click("[data-verdict='missing']")
    page.shown("2 of 64 tensors")
    assert page.chart("chart.data.flatMap(trace => trace.x).length") == 2, "the chart follows"
    page.click("#clear")
    page.shown("64 tensors")


def test_the_chip_of_introduced_errors_shows_those(show):
    page = show()
    page.click("[data-verdict='introduced']")
    page.shown("1 of 64 tensors")
    assert page.keys() == [sample.FAULT]


def test_search_finds_parts_of_names_in_any_case(show):
    page = show()
    page.search("LAYER.3.output")
    page.shown("2 of 64 tensors")
    assert page.keys() == ["encoder.layer.3.output.dense", sample.FAULT]


def test_search_takes_a_regex_between_slashes_and_says_when_it_is_none(show):
    page = show()
    page.search(r"/layer\.[12]\..*(query|key)$/")
    page.shown("4 of 64 tensors")
    page.search("/la(yer/")
    page.wait("return document.getElementById('search-problem').textContent")
    assert page.text("#search-problem") == "this is no regular expression"
    assert page.text("#shown") == "4 of 64 tensors", "the last good search stays"


def test_search_finds_the_name_in_b(show):
    page = show()
    page.search("was_called_else")
    page.shown("1 of 64 tensors")
    assert page.keys() == ["head.renamed"]


def test_the_table_sorts_by_a_measure_the_largest_first(show):
    page = show()
    page.click("[data-sort='max_rel']")
    values = page.texts(".lines .c-max_rel")[1:10]  # behind the tensor with NaN
    assert [float(value) for value in values] == sorted(map(float, values), reverse=True)
    page.click("[data-sort='max_rel']")
    assert page.texts(".lines .c-max_rel")[:3] == ["0", "0", "0"]


def test_arrow_keys_move_through_the_table_and_enter_opens(show):
    from selenium.webdriver.common.keys import Keys

    page = show()
    page.find(".grid").send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert page.text("#detail-key") == "embeddings.LayerNorm"
    page.find("#detail").send_keys(Keys.ESCAPE)
    page.wait("return document.getElementById('detail').hidden && document.activeElement.matches('.grid')")


def test_thousands_of_tensors_are_few_elements_and_all_within_reach(show):
    report = sample.many(5000, 3)
    page = show(report)
    page.shown("5,000 tensors")
    assert len(page.keys()) < 100
    page.js("const grid = document.querySelector('.grid'); grid.scrollTop = grid.scrollHeight")
    last = report["passes"][0]["tensors"][-1]["key"]
    page.wait("return [...document.querySelectorAll('.lines .key')].some(e => e.textContent === arguments[0])", last)
    assert page.js("return document.querySelectorAll('*').length") < 10000
    assert page.chart("chart.data.filter(t => t.name !== 'introduced').flatMap(t => t.x).length") == 5000


# ---- module tree ----


def item(path):
    return f"[role=treeitem][data-path='{path}']"


def test_the_tree_is_open_where_the_error_was_made_and_folded_elsewhere(show):
    page = show()
    assert page.find(item("encoder.layer.3.output")).get_attribute("aria-expanded") == "true"
    assert page.find(item("encoder.layer.2")).get_attribute("aria-expanded") == "false"


def test_the_tree_folds_and_unfolds(show):
    page = show()
    page.click(f"{item('encoder.layer.2')} > .tree-row > .caret")
    assert page.find(item("encoder.layer.2.attention")).is_displayed()
    page.click(f"{item('encoder.layer.2')} > .tree-row > .caret")
    assert not page.find(item("encoder.layer.2.attention")).is_displayed()
    page.click("#fold")
    assert page.js("return document.querySelectorAll('[role=treeitem][aria-expanded=true]').length") == 0


def test_the_tree_is_used_by_keys(show):
    from selenium.webdriver.common.keys import Keys

    page = show()
    page.click("#fold")
    first = page.find("[role=treeitem][tabindex='0']")
    first.send_keys(Keys.ARROW_RIGHT)
    assert first.get_attribute("aria-expanded") == "true"
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert page.driver.switch_to.active_element.text.startswith("word_embeddings")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.text("#detail-key") == "embeddings.word_embeddings"


def test_a_module_shows_what_lies_below_it(show):
    page = show()
    row = page.text(f"{item('encoder.layer.3')} > .tree-row")
    assert "1/9" in row and "0.021" in row, "its count of errors and the largest"
    page.click(f"{item('encoder.layer.3')} > .tree-row > .tree-name")
    page.shown("9 of 64 tensors")
    page.click("#under")
    page.shown("64 tensors")


def test_a_module_is_coloured_by_its_largest_error(show):
    page = show()
    color = "return getComputedStyle(document.querySelector(arguments[0] + ' > .tree-row > .swatch')).backgroundColor"
    small, large, largest = (page.js(color, item(f"encoder.layer.{i}")) for i in (2, 3, 5))
    lightness = [sum(map(int, found[4:-1].split(","))) for found in (small, large, largest)]
    assert lightness[0] > lightness[1] >= lightness[2]


def test_names_with_calls_roles_and_paths_stand_below_their_module(show):
    keys = ["a.b", "a.b::call2", "a.b@in/0", "a.c"]
    page = show(sample.report([[sample.tensor(i, key, "identical") for i, key in enumerate(keys)]]))
    page.click(f"{item('a.b')} > .tree-row > .caret")
    assert page.texts(f"{item('a.b')} [role=treeitem] .tree-name") == ["output", "::call2", "@in/0"]


# ---- chart ----


def test_the_chart_is_logarithmic_with_lanes_for_what_has_no_logarithm(show):
    page = show()
    assert page.chart("chart.layout.yaxis.type") == "log"
    ticks = dict(zip(page.chart("chart.layout.yaxis.ticktext"), page.chart("chart.layout.yaxis.tickvals")))
    points = page.chart("Object.fromEntries(chart.data.map(t => [t.name, t.y]))")
    assert points["identical"] == pytest.approx([ticks["equal"]] * 3)
    assert points["missing"] == pytest.approx([ticks["no number"]])
    assert points["diverged"][-1] == pytest.approx(ticks["NaN, Inf"])
    assert points["introduced"] == pytest.approx([0.021])
    assert page.chart("chart.layout.annotations.map(a => a.text)") == ["output.LayerNorm"]


def test_another_measure_is_drawn_when_chosen(show):
    page = show()
    page.find("#measure").send_keys("largest ULP")
    page.wait("return document.getElementById('chart').data.find(t => t.name === 'introduced').y[0] > 1000")
    assert "Steps of the coarser dtype" in page.text("#chart-note")


def test_dragging_over_the_chart_zooms(show):
    from selenium.webdriver.common.action_chains import ActionChains

    page = show()
    before = page.chart("chart._fullLayout.xaxis.range")
    area = page.find("#chart .nsewdrag")
    page.js("arguments[0].scrollIntoView({block: 'center'})", area)
    ActionChains(page.driver).move_to_element_with_offset(area, -100, 0).click_and_hold().move_by_offset(
        180, 5
    ).move_by_offset(20, 0).release().perform()
    page.wait("return document.getElementById('chart')._fullLayout.xaxis.range[0] > arguments[0] + 1", before[0])
    after = page.chart("chart._fullLayout.xaxis.range")
    assert before[0] < after[0] < after[1] < before[1]


def test_a_point_opens_its_tensor(show):
    from selenium.webdriver.common.action_chains import ActionChains

    page = show()
    area = page.find("#chart .nsewdrag")
    page.js("arguments[0].scrollIntoView({block: 'center'})", area)
    x, y = page.chart(
        "(() => { const {xaxis, yaxis} = chart._fullLayout, trace = chart.data.find(t => t.name === 'introduced');"
        " return [xaxis.l2p(trace.x[0]) - xaxis._length / 2, yaxis.d2p(trace.y[0]) - yaxis._length / 2]; })()"
    )
    ActionChains(page.driver).move_to_element_with_offset(area, round(x) - 2, round(y)).move_by_offset(2, 0).pause(
        0.3
    ).click().perform()
    page.wait("return document.getElementById('detail-key')?.textContent === arguments[0]", sample.FAULT)


# ---- a tensor ----


def test_a_tensor_shows_its_measures_tolerance_and_cause(show):
    page = show()
    page.open(sample.FAULT)
    detail = page.text("#detail")
    assert "| ≤ 1.3e-7 + 1e-5 · |a|" in detail and "f32 default" in detail
    assert "its input encoder.layer.3.output.dense agrees" in detail
    assert "axis 2, index 17: 34 % of the squared error" in detail
    assert "0.021" in page.text("[data-measure='relative']")
    assert "224,694 (14.3 %)" in page.text("[data-measure='outside']")


def test_a_tensor_shows_where_the_error_is(show):
    report = sample.sample()
    page = show(report)
    page.open(sample.FAULT)
    page.drawn("#detail .heat")
    heat = "const heat = document.querySelector('#detail .heat'); return "
    assert page.js(heat + "[heat.data[0].z.length, heat.data[0].z[0].length]") == [64, 64]
    assert "64 down × 6 right" in page.text("#detail")
    page.click("#heat-log")
    page.wait(heat + "heat.data[0].z[0][1] === arguments[0]", report["details"][0]["heat"]["cells"][1])
    page.js("Plotly.relayout(document.querySelector('#detail .heat'), {'xaxis.range': [10, 20]})")
    assert page.js(heat + "heat._fullLayout.xaxis.range") == [10, 20]


def test_packed_pictures_are_the_plain_ones(show):
    report = sample.sample()
    cells = report["details"][0]["heat"]["cells"]
    cells[5] = float("inf")
    report["details"][0]["heat"]["cells"] = sample.packed(cells)
    page = show(report)
    page.open(sample.FAULT)
    page.click("#heat-log")
    heat = "const heat = document.querySelector('#detail .heat'); return "
    page.wait(heat + "heat.data?.length === 2 && heat.data[0].zmin === 0")
    drawn = [value for row in page.js(heat + "heat.data[0].z") for value in row]
    assert drawn[5] is None
    assert drawn[:5] + drawn[6:] == pytest.approx(cells[:5] + cells[6:], rel=1e-3)


def test_a_tensor_shows_histograms_axes_and_the_worst_elements(show):
    report = sample.sample()
    page = show(report)
    page.open(sample.FAULT)
    page.wait("return document.querySelectorAll('#detail .js-plotly-plot').length === 5")
    histogram = report["details"][0]["histogram"]
    drawn = page.js("return document.querySelector('[aria-label^=Histograms]').data.map(t => [t.name, t.y])")
    assert drawn == [["A", histogram["a"]], ["B", histogram["b"]]]
    axis = "document.querySelector('[aria-label=\"Error along axis 1\"]').data[0].y"
    assert page.js(f"return {axis}") == report["details"][0]["axes"][1]["max_abs"]
    page.find("#axis-measure").send_keys("RMSE")
    page.wait(f"return {axis}[0] === arguments[0]", report["details"][0]["axes"][1]["rmse"][0])
    worst = report["details"][0]["worst"][0]
    assert page.texts("#worst tbody tr")[0].startswith(f"[{', '.join(map(str, worst['index']))}]{worst['a']:.7g}"[:-1])


def test_an_inherited_error_leads_to_where_it_came_from(show):
    for report, key in ((sample.sample(), "encoder.layer.5.output.dense"), (sample.two_ranks(), "sum")):
        page = show(report)
        page.open(key)
        page.click("#from")
        assert page.text("#detail-key") == sample.FAULT


def test_a_tensor_without_pictures_says_how_to_get_them(show):
    page = show()
    page.open("encoder.layer.5.output.dense")
    assert page.text("#no-detail").startswith("No detail kept in this page for this tensor.")
    assert page.text("#detail pre") == "ttap diff runs/reference runs/changed --html report.html --details 64"


def test_an_address_leads_to_a_tensor(show):
    page = show()
    page.open(sample.FAULT)
    assert page.driver.current_url.endswith("#t=0.38")
    page.driver.get("about:blank")
    page.driver.get(page.url + "#t=0.37")
    page.wait("return document.getElementById('detail-key')?.textContent === 'encoder.layer.3.output.dense'")


# ---- the two runs ----


def test_what_has_no_counterpart_is_listed(show):
    page = show()
    unmatched = page.texts("#unmatched li")
    assert [text.split()[0] for text in unmatched] == ["head.old_norm", "head.new_norm", "A:"]
    assert unmatched[2] == "A: rank 0, pass 4"


def test_differences_of_the_runs_are_marked(show):
    page = show()
    assert page.texts("#metadata tr.differs th") == ["≠ path", "≠ threads"]
    assert page.texts("#metadata tr[data-name='threads'] td") == ["8", "4"]
    page.click("#all-metadata")
    assert page.texts("#metadata tr[data-name='versions.torch'] td") == ["2.13.0", "2.13.0"]
    assert page.texts("#metadata tr.differs th") == ["≠ path", "≠ threads"]


def test_coverage_of_both_runs_is_shown(show):
    page = show()
    page.click("#coverage > summary")
    assert page.texts("#coverage .inner:last-child li") == ["pooler.activation (Tanh): never called"] * 2


# ---- the page itself ----


def background(page):
    return page.js("return getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_follows_the_system_and_its_button(show, dark):
    page = show(dark=dark)
    before, ink = background(page), page.chart("chart.layout.font.color")
    assert (sum(map(int, before[4:-1].split(","))) < 200) == dark
    page.click("#theme")
    page.wait("return document.getElementById('chart').layout.font.color !== arguments[0]", ink)
    assert (sum(map(int, background(page)[4:-1].split(","))) < 200) != dark
    page.click("#theme")
    page.js("localStorage.clear()")
    assert background(page) == before


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_sticks_out_sideways(show, width):
    page = show(width=width)
    page.js("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert page.js("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.open(sample.FAULT)
    page.drawn("#detail .heat")
    assert (
        page.js("const drawer = document.getElementById('detail'); return drawer.scrollWidth - drawer.clientWidth") <= 0
    )


HOSTILE = [
    "</script><img src=x onerror=window.hacked=1>",
    "<!--<script>window.hacked=1</script>",
    "<b>bold</b>.&lt;i&gt;",
    "a\"b'c`d${window.hacked=1}\\",
    "模型.层.😀.\u2028\u2029.\u202edrow",
    "a/b//c@in/../x",
    "..",
    "%{x} $x^2$ <a href='https://example.invalid/'>link</a>",
    "__proto__.constructor",
    " ",
]


def test_hostile_names_are_shown_as_the_text_they_are(show):
    measured = sample.encoder()[0][3]["measures"]
    tensors = [
        sample.tensor(
            i,
            key,
            "diverged",
            measures=measured,
            cause="introduced",
            reason=f"{key} again",
            note=key,
            parent=key,
            dtype=key,
        )
        for i, key in enumerate(HOSTILE)
    ]
    report = sample.report([tensors], sentence=HOSTILE[0], evidence=HOSTILE, thinned=HOSTILE, warnings=HOSTILE)
    report["a"] = sample.run(HOSTILE[0], versions={HOSTILE[0]: HOSTILE[1]}, argv=HOSTILE)
    report["a"]["coverage"] = {HOSTILE[0]: HOSTILE, "never_called": [{"name": HOSTILE[0], "why": HOSTILE[1]}]}
    report["passes"][0]["a"] = HOSTILE[0]
    page = show(report)
    assert page.text("#sentence") == HOSTILE[0]
    assert page.keys() == HOSTILE
    assert [text.strip() for text in page.texts("#evidence li")] == [text.strip() for text in HOSTILE]
    for line in range(len(HOSTILE)):
        page.js("document.querySelectorAll('.lines .line')[arguments[0]].click()", line)
        assert page.texts("#detail-key") == [HOSTILE[line]]
    page.js("Plotly.Fx.hover(document.getElementById('chart'), [{curveNumber: 0, pointNumber: 7}])")
    page.wait("return document.querySelector('#chart .hovertext')")
    assert page.js("return window.hacked") is None
    assert (
        page.js("return document.querySelectorAll('img, main b b, #chart a, script:not([nonce],#report)').length") == 0
    )
    assert page.requests() == [page.url]


def test_a_page_of_a_real_comparison(driver, tmp_path):
    model = Model()
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.blocks[1].up.weight[3] *= 1.5
    for name, each in (("a", model), ("b", wrong)):
        with tap.record(each, tmp_path / name, roles=["in", "out"], modules="all", report=False), torch.no_grad():
            each(torch.ones(5, 4))
    tap.diff(tmp_path / "a", tmp_path / "b").to_html(tmp_path / "page.html")
    page = browser.Page(driver, tmp_path / "page.html")
    assert page.text("#sentence") == "diverged: blocks.1.up introduced the error"
    page.search("/^blocks\\.1\\.up$/")
    page.wait("return document.getElementById('shown').textContent.startsWith('1 of ')")
    page.click(".lines .line")
    page.drawn("#detail .heat")
    detail = page.text("#detail")
    assert "introduced" in detail and "axis 1, index 3: 100 % of the squared error" in detail and "relative ≤" in detail
    assert page.console() == [] and page.requests() == [page.url]
