"""The page in a real browser: no network, no error, nothing wider than the screen."""

from __future__ import annotations

import pytest

from rnnbench.report.page import write_report
from tests.report.made_up import EXPERIMENT, MISSING, SKIPPED, quick

# Contrast of every text against the paper, by the formula of WCAG 2.
LEAST_CONTRAST = """() => {
  const light = c => c.map(v => v / 255).map(v => v <= .03928 ? v / 12.92
    : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const paper = light(rgb(getComputedStyle(document.body).backgroundColor));
  return Math.min(...[...document.querySelectorAll('p,h1,h2,h3,a,td,th,code,li,span,summary')]
    .map(e => light(rgb(getComputedStyle(e).color)))
    .map(ink => (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05)));
}"""


@pytest.fixture(scope="module")
def page_url(tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    paths = write_report(quick(), out, experiment=EXPERIMENT, skipped=SKIPPED, missing=MISSING)
    return paths[0].as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_alone_and_fits(browser, page_url, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints, asked = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_url)
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(LEAST_CONTRAST) >= 4.5
    assert page.locator("h1").inner_text() == EXPERIMENT.title
    # By keyboard from a number to the runs it is made of, without any script.
    number = page.locator(".lead .desk td a, .lead .phone td a").locator("visible=true").first
    number.focus()
    page.keyboard.press("Enter")
    runs = page.locator(number.get_attribute("href"))
    assert runs.locator("article").count() == 3 and runs.locator("tbody tr").count() == 3 * 8
    runs.locator("td").first.wait_for(state="visible", timeout=10_000)
    page.wait_for_function(
        "id => Math.abs(document.querySelector(id).getBoundingClientRect().top) < 100",
        arg=number.get_attribute("href"),
    )
    page.close()


def test_what_is_folded_opens_for_a_link_and_for_a_printer(browser, page_url):
    page = browser.new_page()
    page.goto(f"{page_url}#trust")
    assert page.locator("details.part[open]").count() == 1
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.part:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.part[open]").count() == 1
    page.close()


def test_figures_and_tables_can_be_taken_away(browser, page_url, tmp_path):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(page_url)
    for words, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as found:
            page.locator("figure button", has_text=words).first.click()
        found.value.save_as(tmp_path / words)
        assert (tmp_path / words).read_bytes().startswith(start)
    page.locator("button.copy").locator("visible=true").first.click()
    page.wait_for_function("document.querySelector('button.copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()").startswith("| implementation |")
    context.close()
