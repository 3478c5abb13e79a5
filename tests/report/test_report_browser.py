"""Pages in a browser: accessible, no network access, no errors, nothing wider than the screen."""

from __future__ import annotations

import subprocess
import tarfile

import pytest

from rnnbench.report.content import Content
from rnnbench.report.page import write_report
from tests.report.made_up import EXPERIMENT, MISSING, QUICK, quick, write_site

# The lowest contrast of any text against the background, by the formula of WCAG 2.
LEAST_CONTRAST = """() => {
  const light = c => c.map(v => v / 255).map(v => v <= .03928 ? v / 12.92
    : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const rgb = color => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const background = light(rgb(getComputedStyle(document.body).backgroundColor));
  return Math.min(...[...document.querySelectorAll('p,h1,h2,h3,a,td,th,code,li,span,summary')]
    .map(e => light(rgb(getComputedStyle(e).color)))
    .map(text => (Math.max(text, background) + .05) / (Math.min(text, background) + .05)));
}"""
SERIOUS = """() => axe.run(document, {resultTypes: ['violations']}).then(found =>
  found.violations.filter(v => ['serious', 'critical'].includes(v.impact))
    .map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 120)).join(' | ')))"""


CUT_TABLES = """() => [...document.querySelectorAll('.scroll')]
  .filter(e => e.scrollWidth > e.clientWidth)
  .map(e => e.ariaLabel || e.getAttribute('aria-labelledby'))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = write_site(tmp_path_factory.mktemp("site"))
    content = Content(quick(), QUICK, missing=MISSING)
    write_report(content, out / "quick")
    return out


@pytest.fixture(scope="module")
def page_url(site):
    return (site / "quick/report.html").as_uri()


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axe")
    try:
        command = ["npm", "pack", "axe-core@4", "--silent"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"cannot get axe-core from npm: {type(error).__name__}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


# Each width and each scheme; the colours do not depend on the width.
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", ["quick/report.html", "six/report.html"])
def test_pages_are_self_contained_and_fit_the_screen(browser, site, name, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    errors, requested = [], []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.goto((site / name).as_uri())
    assert errors == [] and all(url.startswith(("file:", "data:")) for url in requested)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert width > 390 or page.evaluate(CUT_TABLES) == []
    assert "…" not in "".join(page.locator("figure svg text").all_text_contents())
    assert page.evaluate(LEAST_CONTRAST) >= 4.5
    page.close()


# The part of the first screen in which an element ends that is shown.
END_OF = """selector => [...document.querySelectorAll(selector)].filter(e => e.offsetParent)
  .map(e => e.getBoundingClientRect().bottom / innerHeight)[0]"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_has_the_answer_a_chart_and_what_to_do_next(
    browser, page_url, width, height
):
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(page_url)
    what_next = ".next" if width == 390 else ".conditions div:last-child code:last-child"
    for selector in (".fast", ".rankings li", "figure", what_next):
        assert page.evaluate(END_OF, selector) <= 1, selector
    assert "use(model" in page.locator(what_next).inner_text()
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", ["six/report.html"])
def test_pages_are_accessible(browser, site, axe, name, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto((site / name).as_uri())
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_number_leads_to_its_runs_by_keyboard(browser, page_url, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(page_url)
    assert page.locator("h1").inner_text() == EXPERIMENT.title
    number = page.locator(".lead .desk td a, .lead .phone td a").locator("visible=true").first
    number.focus()
    page.keyboard.press("Enter")
    place = str(number.get_attribute("href")).removeprefix("#")
    runs = page.locator(f'[id="{place}"]')
    assert runs.locator("article").count() == 3 and runs.locator("tbody tr").count() == 3 * 8
    runs.locator("td").first.wait_for(state="visible", timeout=10_000)
    page.wait_for_function(
        "id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 100",
        arg=place,
    )
    page.close()


def test_folded_content_opens_for_links_and_for_printing(browser, page_url):
    page = browser.new_page()
    page.goto(f"{page_url}#trust")
    assert page.locator("details.part[open]").count() == 3  # time and accuracy are always open
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.part:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.part[open]").count() == 3  # time and accuracy are always open
    page.close()


def test_figures_can_be_downloaded_and_tables_copied(browser, page_url, tmp_path):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(page_url)
    for file_format, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            page.locator("figure button", has_text=file_format).first.click()
        download.value.save_as(tmp_path / file_format)
        assert (tmp_path / file_format).read_bytes().startswith(start)
    page.locator("button.copy").locator("visible=true").first.click()
    page.wait_for_function("document.querySelector('button.copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()").startswith("| implementation |")
    context.close()


SHOWN = """(region, column) => [...region.querySelectorAll('tbody tr:not([hidden])')]
  .filter(row => row.querySelector('.stub'))
  .map(row => row.cells[column].textContent.trim())"""


def test_tables_are_sorted_by_keyboard(browser, page_url):
    page = browser.new_page()
    page.goto(page_url)
    region = page.locator(".lead .desk").first
    heads = region.locator("thead th:has(button.sort)")
    assert heads.count() == region.locator("tbody tr:has(.stub) >> nth=0 >> th, td").count()
    as_written = region.evaluate(SHOWN, 1)
    head = heads.nth(1)  # the first speed-up
    assert "number" in str(head.get_attribute("class"))
    ways = []
    for _ in range(3):
        head.locator("button").focus()
        page.keyboard.press("Enter")
        ways.append((head.get_attribute("aria-sort"), region.evaluate(SHOWN, 1)))
    values = sorted(as_written, key=lambda text: float(text.rstrip("×† ")))
    assert ways == [("ascending", values), ("descending", values[::-1]), (None, as_written)]

    heads.nth(0).locator("button").click()
    names = [text.split()[0] for text in region.evaluate(SHOWN, 0)]
    assert names == sorted(names)
    heads.nth(1).locator("button").click()
    assert [head.get_attribute("aria-sort") for head in heads.all()].count("ascending") == 1
    page.close()


def test_rows_without_a_value_come_last_in_both_directions(browser, site):
    page = browser.new_page()
    page.goto((site / "six/report.html").as_uri())
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = 0
    for region in page.locator(".scroll:has(tbody td.number)").locator("visible=true").all():
        for column, head in enumerate(region.locator("thead th:has(button.sort)").all()):
            texts = region.evaluate(SHOWN, column)
            if region.locator("tbody").count() > 1 or "–" not in texts:
                continue
            for _ in range(2):
                head.locator("button").click()
                texts = region.evaluate(SHOWN, column)
                missing = texts.count("–")
                assert texts[len(texts) - missing :] == ["–"] * missing
            found += 1
    assert found
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_are_filtered_by_words_in_them_or_their_heading(browser, site, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((site / "six/report.html").as_uri())
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    grouped = page.locator(".filter:has(+ .scroll .group)").locator("visible=true").first
    region = page.locator(".filter:has(+ .scroll .group) + .scroll").locator("visible=true").first
    every = region.locator("tbody tr:has(.stub)")
    whole = every.count()
    heading = region.locator(".group").first.inner_text()
    field = grouped.get_by_role("searchbox", name="Filter the rows of")
    field.fill(heading.upper())
    shown = every.locator("visible=true").count()
    assert 0 < shown < whole
    assert region.locator(".group").locator("visible=true").all_inner_texts() == [heading]
    assert grouped.get_by_role("status").inner_text() == f"{shown} of {whole} rows"
    field.fill("no such words")
    assert every.locator("visible=true").count() == 0
    field.fill("")
    assert every.locator("visible=true").count() == whole
    assert grouped.get_by_role("status").inner_text() == ""
    page.close()


def test_without_scripts_the_page_has_no_control_that_does_nothing(browser, page_url):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_url)
    assert page.locator("button, input").locator("visible=true").count() == 0
    assert page.locator(".answer .fast").inner_text()
    assert page.locator(".lead .desk thead th").first.inner_text() == "implementation"
    context.close()
