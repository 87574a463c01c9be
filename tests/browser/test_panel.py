"""The panel in JupyterLab: it fills while its cell runs; an edited kernel is checked and reverted."""

from __future__ import annotations

import time

SETUP = """%load_ext fuselab
import torch, time
import notebook_fakes
from fuselab.toolkit import driver
driver.compile = notebook_fakes.FakeCompiled"""
DEFINE = """%%compile -q
def f(x):
    print("a side effect")
    return x.exp()"""
BUSY = """for n in range(1, 7):
    f(torch.zeros(n)); time.sleep(0.5)
done = True"""


def tab(page, name):
    page.locator(f".fl-tab[data-tab={name}]").click()


def settle(page, selector, text, limit=10_000):
    page.wait_for_function("([s, t]) => document.querySelector(s)?.textContent.includes(t)", arg=[selector, text], timeout=limit)


def test_the_panel_fills_while_a_cell_runs(open_notebook, page):
    nb = open_notebook("live.ipynb", SETUP, DEFINE, "%fuselab", BUSY)
    for i in range(3):
        nb.run(i)
    page.wait_for_selector(".fl-panel")
    assert "Nothing is compiled yet" in page.locator(".fl-page").inner_text()
    nb.start(3)
    seen = set()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        rows, prompt = page.locator(".fl-compilation").count(), nb.prompt(3)
        if prompt == "[*]:":
            seen.add(rows)
        elif rows == 6:
            break
        time.sleep(0.05)
    assert {2, 3, 4, 5} <= seen
    tab(page, "breaks")
    card = page.locator(".fl-break").first.inner_text()
    assert "line 3" in card and 'print("a side effect")' in card and "Try" in card
    assert page.outside == [] and page.errors == []


def edit(page, text):
    area = page.locator(".fl-area")
    area.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def test_an_edited_kernel_is_checked_and_reverted(open_notebook, page):
    nb = open_notebook(
        "kernel.ipynb", SETUP, DEFINE + "\nf(torch.zeros(1));", "%fuselab", "k = f.kernels['softmax_0']; print(repr(k.source))"
    )
    for i in range(3):
        nb.run(i)
    tab(page, "kernels")
    page.wait_for_function("document.querySelector('.fl-area')?.value.includes('exp(x[i])')")
    cells = page.locator(".jp-Notebook .jp-CodeCell").count()

    edit(page, "y = wrong")
    page.locator(".fl-button", has_text="Check").click()
    settle(page, ".fl-result", "differs in 64 of 64 elements")
    page.locator(".fl-button", has_text="Run").click()
    settle(page, ".fl-result", "the working kernel stays")
    assert "exp(x[i])" in nb.run(3)

    edit(page, "y = faster")
    page.keyboard.press("Control+Enter")
    settle(page, ".fl-result", "in use")
    assert "'y = faster'" in nb.run(3)
    page.locator(".fl-button", has_text="Benchmark").click()
    settle(page, ".fl-result", "1.20 times as fast")

    edit(page, "fine\nbad!")
    page.keyboard.press("Control+Enter")
    settle(page, ".fl-result", "line 2: does not build: stray '!' in program")
    assert page.locator(".fl-bad-line").inner_text().strip() == "2"
    page.keyboard.press("Shift+Enter")
    page.locator(".fl-button", has_text="Revert").focus()
    page.keyboard.press("b")
    page.keyboard.press("d")
    page.keyboard.press("d")
    assert page.locator(".jp-Notebook .jp-CodeCell").count() == cells  # JupyterLab's own keys stay out

    page.keyboard.press("Enter")
    settle(page, ".fl-result", "the original is in use")
    assert "exp(x[i])" in page.locator(".fl-area").input_value() and "exp(x[i])" in nb.run(3)
    assert page.outside == [] and page.errors == []


def test_the_panel_answers_while_a_cell_runs_and_survives_a_reload(open_notebook, page, lab):
    nb = open_notebook("busy.ipynb", SETUP, DEFINE + "\nf(torch.zeros(1));", "%fuselab", "time.sleep(12)")
    for i in range(3):
        nb.run(i)
    nb.start(3)
    page.locator(".fl-compilation").first.click()
    page.locator(".fl-inner summary", has_text="Graph").click()
    settle(page, "[data-body] pre", "y = exp(x)")
    assert nb.prompt(3) == "[*]:"
    nb.wait(3)
    nb.cell(3).locator(".jp-InputArea-editor").click()
    page.keyboard.press("Control+s")
    page.wait_for_timeout(1500)
    page.reload()
    page.wait_for_selector(".fl-compilation", timeout=60_000)
    assert page.locator(".fl-compilation").count() == 1


def test_tabs_move_with_the_keyboard(open_notebook, page):
    nb = open_notebook("keys.ipynb", SETUP, "%fuselab")
    nb.run(0), nb.run(1)
    page.locator(".fl-tab[data-tab=compilations]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.tab") == "guards"
    page.keyboard.press("End")
    assert page.locator(".fl-tab[aria-selected=true]").get_attribute("data-tab") == "kernels"
    assert page.locator(".fl-page").get_attribute("aria-labelledby") == page.locator(".fl-tab[aria-selected=true]").get_attribute("id")
