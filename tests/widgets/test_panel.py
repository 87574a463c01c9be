"""The panel's messages, without a browser."""

from __future__ import annotations

import json
import threading
import time

import notebook_fakes
import pytest
import torch

from fuselab.toolkit import events
from fuselab.widgets import base
from fuselab.widgets.panel import Panel
from fuselab.widgets.store import Store


class Spoken(Panel):
    """A panel that keeps what it sends."""

    def send(self, content, buffers=None):
        json.dumps(content)
        self.__dict__.setdefault("sent", []).append(content)

    def ask(self, kind, **content):
        before = len(self.__dict__.get("sent", []))
        self._receive(self, {"kind": kind, **content}, None)
        return self.sent[before] if len(self.__dict__.get("sent", [])) > before else None


@pytest.fixture
def kernel():
    return notebook_fakes.FakeKernel("softmax_0")


@pytest.fixture
def panel(kernel):
    store = Store().start()
    made = Spoken(store, lambda name, compile_id: kernel if name == "softmax_0" else None)
    yield made
    made.close()
    store.stop()


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def tell(panel):
    for event in notebook_fakes.story():
        events.emit(event)
    until(lambda: any("kernels" in m.get("rows", {}) for m in panel.__dict__.get("sent", [])))


def test_events_arrive_in_few_messages_from_another_thread(panel):
    for _ in range(500):
        events.emit(events.PassRan(stage="aot", name="p"))
    until(lambda: panel.__dict__.get("sent"))
    time.sleep(0.15)
    assert 1 <= len(panel.sent) <= 4


def test_hello_answers_with_everything_that_is_kept(panel):
    tell(panel)
    answer = panel.ask("hello")
    assert answer["fresh"] and len(answer["rows"]["compilations"]) == 2


def test_the_snapshot_follows_when_it_is_quiet_and_is_bounded(panel):
    for i in range(300):
        events.emit(events.PassRan(stage="aot", name=f"p{i}"))
    until(lambda: "passes" in panel.snapshot)
    assert [p["name"] for p in panel.snapshot["passes"]][-1] == "p299" and len(panel.snapshot["passes"]) == 60


def test_bodies_are_fetched(panel):
    tell(panel)
    assert panel.ask("open", table="graphs", key=1) == {"key": 1, "kind": "body", "table": "graphs",
                                                        "text": "softmax = torch.softmax(x, -1)\nsum_1 = softmax.sum()"}  # fmt: skip
    assert panel.ask("open", table="guards", key=1)["table_rows"][1][:3] == ["self.training", "constant equals", "False"]


def test_a_kernel_is_edited_checked_timed_and_reverted(panel, kernel):
    tell(panel)
    assert panel.ask("source", key=1)["source"] == notebook_fakes.SOURCE
    assert panel.ask("run", key=1, source="right")["text"].endswith("in use") and kernel.source == "right"
    refused = panel.ask("run", key=1, source="a\n!")
    assert (refused["ok"], refused["line"], refused["source"]) == (False, 2, "right")
    assert panel.ask("check", key=1, source="wrong")["ok"] is False and kernel.source == "right"
    assert "1.20 times as fast" in panel.ask("benchmark", key=1, source="right")["text"]
    assert panel.ask("revert", key=1, source="right")["source"] == notebook_fakes.SOURCE


def test_a_kernel_without_its_function_is_for_reading(panel):
    tell(panel)
    answer = panel.ask("source", key=2)
    assert answer["source"] == "add" and answer["read_only"] and "for reading only" in answer["text"]
    assert panel.ask("run", key=2, source="x")["text"] == "its function is gone, or was compiled again"


def test_an_error_in_a_handler_is_an_answer(panel, kernel):
    tell(panel)
    kernel.revert = lambda: 1 / 0
    assert panel.ask("revert", key=1, source="")["text"] == "ZeroDivisionError: division by zero"
    assert panel.ask("nonsense") is None


def test_handlers_run_one_at_a_time_and_without_gradients_on_any_thread(panel, kernel):
    tell(panel)
    seen, inside = [], []

    def benchmark():
        inside.append(1)
        seen.append((len(inside), torch.is_grad_enabled()))
        time.sleep(0.02)
        inside.pop()
        return type("Timed", (), {"text": "1 µs"})

    kernel.benchmark = benchmark
    threads = [threading.Thread(target=panel.ask, args=("benchmark",), kwargs={"key": 1, "source": ""}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(1, False)] * 4


def test_its_text_stands_beside_it(panel):
    tell(panel)
    bundle = panel._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "1 graph break" in data["text/plain"] and "application/vnd.jupyter.widget-view+json" in data


def test_closing_ends_its_thread(panel):
    panel.close()
    assert not panel._sender.is_alive()


def test_nothing_is_sent_while_the_interpreter_exits(panel):
    base.stop_all()
    assert not panel._sender.is_alive()
