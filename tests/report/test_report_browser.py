"""The page in a browser: no network access, no errors, nothing wider than the screen."""

from __future__ import annotations

import pytest

from rnnbench.report.content import Content
from rnnbench.report.page import write_report
from tests.report.made_up import EXPERIMENT, MISSING, SKIPPED, quick

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


@pytest.fixture(scope="module")
def page_url(tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    paths = write_report(Content(quick(), EXPERIMENT, skipped=SKIPPED, missing=MISSING), out)
    return paths[0].as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_self_contained_and_fits_the_screen(browser, page_url, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    errors, requested = [], []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.goto(page_url)
    assert errors == []
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(LEAST_CONTRAST) >= 4.5
    assert page.locator("h1").inner_text() == EXPERIMENT.title
    # By keyboard from a number to its runs, without scripts.
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


def test_folded_content_opens_for_links_and_for_printing(browser, page_url):
    page = browser.new_page()
    page.goto(f"{page_url}#trust")
    assert page.locator("details.part[open]").count() == 1
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.part:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.part[open]").count() == 1
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
