"""The panel in JupyterLab: it fills while its cell runs; an edited kernel is checked and reverted."""

from __future__ import annotations

import time

SETUP = """%load_ext fuselab
import torch, time"""
DEFINE = """%%compile -q --backend cpp
def f(x):
    return x * 2 + 1
y = f(torch.ones(8))"""
BUSY = """%%compile -q
def one(x):
    print("a side effect")
    return x.exp()
def two(x): return x.exp() + 2
def three(x): return x.exp() + 3
for call in (one, two, three, two):
    call(torch.ones(8)); time.sleep(1)
done = True"""
STATE = "k = next(iter(f.kernels.values())); print(k.edited, f(torch.ones(8))[0])"


def tab(page, name):
    page.locator(f".fl-tab[data-tab={name}]").click()


def settle(page, selector, text, limit=20_000):
    page.wait_for_function("([s, t]) => document.querySelector(s)?.textContent.includes(t)", arg=[selector, text], timeout=limit)


def test_the_panel_fills_while_a_cell_runs(open_notebook, page):
    nb = open_notebook("live.ipynb", SETUP, "%fuselab", BUSY)
    nb.run(0), nb.run(1)
    page.wait_for_selector(".fl-panel")
    assert "Nothing is compiled yet" in page.locator(".fl-page").inner_text()
    nb.start(2)
    seen = set()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        rows, prompt = page.locator(".fl-compilation").count(), nb.prompt(2)
        if prompt != "[*]:":
            break
        seen.add(rows)
        time.sleep(0.05)
    assert len(seen - {0}) >= 3, seen
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
    nb = open_notebook("kernel.ipynb", SETUP, DEFINE, "%fuselab", STATE)
    for i in range(3):
        nb.run(i)
    tab(page, "kernels")
    page.wait_for_function("document.querySelector('.fl-area')?.value.includes('2.0f + 1.0f')")
    cells = page.locator(".jp-Notebook .jp-CodeCell").count()
    source = page.locator(".fl-area").input_value()

    edit(page, source.replace("1.0f", "5.0f"))
    page.locator(".fl-button", has_text="Check").click()
    settle(page, ".fl-result", "8 of 8 elements")
    page.locator(".fl-button", has_text="Run").click()
    settle(page, ".fl-result", "the working kernel stays")
    assert nb.run(3).strip().endswith("False tensor(3.)")

    edit(page, source.replace("2.0f + 1.0f", "2.0f + 0.5f + 0.5f"))
    page.keyboard.press("Control+Enter")
    settle(page, ".fl-result", "in use")
    assert nb.run(3).strip().endswith("True tensor(3.)")
    page.locator(".fl-button", has_text="Benchmark").click()
    settle(page, ".fl-result", "µs")

    edit(page, "// mine\n" + source.replace("2.0f", "nothing"))
    page.keyboard.press("Control+Enter")
    settle(page, ".fl-result", "does not build")
    line = 2 + source[: source.index("2.0f")].count("\n")
    assert page.locator(".fl-bad-line").inner_text().strip() == str(line)
    page.keyboard.press("Shift+Enter")
    page.locator(".fl-button", has_text="Revert").focus()
    page.wait_for_timeout(1000)  # rows that arrive meanwhile do not take the focus away
    assert page.evaluate("document.activeElement.textContent") == "Revert"
    page.keyboard.press("b")
    page.keyboard.press("d")
    page.keyboard.press("d")
    assert page.locator(".jp-Notebook .jp-CodeCell").count() == cells  # JupyterLab's own keys stay out

    page.keyboard.press("Enter")
    settle(page, ".fl-result", "the original is in use")
    assert page.locator(".fl-area").input_value() == source and nb.run(3).strip().endswith("False tensor(3.)")
    assert page.outside == [] and page.errors == []


def test_the_panel_answers_around_a_running_cell_and_survives_a_reload(open_notebook, page, lab):
    nb = open_notebook("busy.ipynb", SETUP, DEFINE, "%fuselab", "time.sleep(6)")
    for i in range(3):
        nb.run(i)
    nb.start(3)
    page.locator(".fl-compilation").first.click()
    page.locator(".fl-inner summary", has_text="Graph").click()
    settle(
        page, "[data-body] pre", "mul = x * 2", limit=60_000
    )  # at once where JupyterLab gives the panel a subshell, else when the cell ends
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
