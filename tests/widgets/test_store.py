"""The rows behind the panel: live, bounded, JSON-able, from any thread."""

from __future__ import annotations

import json
import threading

import notebook_fakes

from fuselab.toolkit import events
from fuselab.toolkit import events as ev
from fuselab.toolkit.report import Report
from fuselab.widgets import text
from fuselab.widgets.store import QUEUED, Store


def told(*happened: ev.Event, limit: int = 300) -> Store:
    store = Store(limit)
    for event in happened:
        store.hear(event)
    return store


def test_changes_are_what_is_new_or_was_filled_in_since_the_last_time():
    store = told(ev.FrameSeen(function="f", file="a.py", line=1, compile_id=7))
    assert [row["result"] for row in store.changes()["compilations"]] == ["running"]
    assert store.changes() == {}
    store.hear(ev.CompileFinished(function="f", result="compiled", stages=(("capture", 0.5),), compile_id=7))
    (row,) = store.changes()["compilations"]
    assert (row["key"], row["result"], row["said"], row["stages"]) == (1, "compiled", "500 ms", [["capture", 0.5, "500 ms"]])


def test_everything_is_json_and_big_texts_stay_behind():
    store = told(*notebook_fakes.story())
    sent = json.dumps(store.all())
    assert "y[i] = exp(x[i])" not in sent and "softmax = torch.softmax" not in sent
    assert store.body("kernels", 1) == {"text": notebook_fakes.SOURCE}
    assert store.body("graphs", 1)["text"].startswith("softmax = torch.softmax(x, -1)")
    assert store.body("guards", 1)["table"][0] == ["x", "tensor match", "float32 tensor of size (4, 64)", "nets/model.py:13"]


def test_rows_say_what_the_report_says():
    rows = told(*notebook_fakes.story()).all()
    (broken,) = rows["breaks"]
    assert (broken["place"], broken["source"], broken["carets"]) == ("nets/model.py:14", "if x.sum() > 0:", "   ^^^^^^^^^^^")
    assert broken["reason"] == "The branch depends on the values of a tensor."
    assert rows["recompilations"][0]["relied_on"] == "nets/model.py:13"
    assert [k["state_said"] for k in rows["kernels"]] == ["built in 210 ms", "from the cache"]


def test_texts_are_made_only_when_opened():
    made = []
    store = told(ev.GraphCaptured(function="f", nodes=1, inputs=1, text=lambda: made.append(1) or "graph"))
    store.changes(), store.all()
    assert not made
    assert store.body("graphs", 1) == {"text": "graph"} and made == [1]


def test_it_keeps_the_latest_rows_only():
    store = told(*(ev.PassRan(stage="aot", name=f"p{i}") for i in range(10)), limit=4)
    assert [p["name"] for p in store.changes()["passes"]] == ["p6", "p7", "p8", "p9"]
    assert [p["name"] for p in store.all(most=2)["passes"]] == ["p8", "p9"]
    assert store.body("passes", 1) == {"text": "this is no longer kept"}


def test_a_flood_does_not_grow_the_queue():
    store = told(*(ev.PassRan(stage="aot", name="p") for i in range(3 * QUEUED)))
    assert len(store._queue) <= QUEUED


def test_listening_starts_and_stops():
    store = Store().start().start()
    events.emit(ev.PassRan(stage="aot", name="seen"))
    assert store.ready.is_set() and [p.name for p in store.rows("passes")] == ["seen"]
    store.stop()
    events.emit(ev.PassRan(stage="aot", name="unseen"))
    assert [p.name for p in store.rows("passes")] == ["seen"] and not events.listening()


def test_events_of_many_threads_all_arrive():
    store = Store(limit=0).start()
    taken: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: [events.emit(ev.PassRan(stage="s", name=f"{n}-{i}")) for i in range(200)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += [p["name"] for p in store.changes().get("passes", [])]
    taken += [p["name"] for p in store.changes().get("passes", [])]
    store.stop()
    assert sorted(taken) == sorted(f"{n}-{i}" for n in range(4) for i in range(200))


def test_the_text_panel_is_the_report_of_the_same_rows():
    store = told(*notebook_fakes.story())
    assert str(text.panel(store)).splitlines()[1] == Report(notebook_fakes.story()).summary
    assert str(text.panel(Store())) == "fuselab: nothing compiled yet; call it once."


def test_a_kernel_row_follows_its_kernel():
    store = told(*notebook_fakes.story())

    def state():
        return store.all()["kernels"][0]["state"]

    for action, wanted in (("edit", "edited"), ("check", "edited"), ("revert", "built"), ("stale", "stale")):
        store.hear(ev.KernelEdited(kernel="softmax_0", action=action, compile_id=1))
        assert state() == wanted
