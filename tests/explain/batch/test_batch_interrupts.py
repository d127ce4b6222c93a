"""Interruptions: wherever one falls, an interrupted row is not stored, and the batch ends as an undisturbed one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batch_examples import make_credit_explainer, make_explainer, read_contents
from ironrule import Batch, Budget, Explainer, Explanation
from ironrule.explain.batch import process_pool, run
from ironrule.results.batch_storage import InMemoryBatch
from ironrule.verdict.budget import Meter
from waiting import PATIENCE

ROWS = 4
EVERY = 5  # of the places where an interruption can fall, one in so many is tried
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "coverage": {"prefer": "coverage"},
    "changes": {"changes": True},
    "reuse": {"reuse": True},
    "genetic": {"algorithm": "genetic_cf", "budget": Budget(evaluations=2_000)},
}


@pytest.fixture(autouse=True)
def _usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def interrupting(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[list[int]]:
    """Interrupt the work where a meter is looked at for so many times, once; gives a list that counts."""
    check, count = Meter.check, [0]

    def interrupted(self: Meter, *given: int) -> None:
        count[0] += 1
        if count[0] == number:
            raise KeyboardInterrupt
        check(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Meter, "check", interrupted)
        yield count


def list_denied(explainer: Explainer) -> list[int]:
    return np.flatnonzero(~explainer.outcomes)[:ROWS].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", WAYS)
def test_wherever_an_interruption_falls_the_batch_ends_as_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 1)
    explainer, options = make_credit_explainer(), WAYS[way] | {"workers": 1}
    rows = list_denied(explainer)
    with interrupting(monkeypatch, 0) as count:
        undisturbed = _read_with_changes(explainer.explain_many(rows, **options))
    assert count[0] > 3 * ROWS
    stored = 0
    for number in range(1, count[0] + 1, EVERY):
        folder = tmp_path / str(number)
        with interrupting(monkeypatch, number), pytest.raises(KeyboardInterrupt):
            explainer.explain_many(rows, output=folder, **options)
        kept = _read_with_changes(Batch.open(folder))
        assert kept.items() <= undisturbed.items(), f"an interrupted row was stored, at {number}"
        stored += len(kept)
        if number % 3 == 1:  # all that is missing is explained by the next call
            assert _read_with_changes(explainer.explain_many(rows, output=folder, **options)) == undisturbed
    assert stored, "no row was finished before an interruption: this tests nothing"


def _read_with_changes(batch: Batch) -> dict[int, Any]:
    """What a batch says of every row, suggested changes included."""
    contents = read_contents(batch)
    return {row: (contents[row], repr(one.changes)) for row, one in zip(batch.rows, batch, strict=True)}


def test_a_batch_that_is_interrupted_again_and_again_ends_as_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    explainer, rng, interrupted = make_credit_explainer(), np.random.default_rng(0), 0
    with interrupting(monkeypatch, 0) as count:
        undisturbed = explainer.explain_many(workers=1)
    while True:
        with interrupting(monkeypatch, int(rng.integers(1, count[0] // 2))):
            try:
                batch = explainer.explain_many(workers=1, output=tmp_path / "batch")
                break
            except KeyboardInterrupt:
                interrupted += 1
    assert interrupted > 2
    assert read_contents(batch) == read_contents(undisturbed)


@pytest.mark.parametrize("options", [{}, {"prefer": "coverage"}, {"algorithm": "greedy_cf"}], ids=str)
def test_an_explanation_says_interrupted_whatever_phase_was_cut_short(options: dict[str, Any]) -> None:
    explainer = make_credit_explainer()
    row = list_denied(explainer)[0]
    whole, count = _explain(explainer, row, 0, options)
    assert whole.statistics.stopped_by != "interrupted"
    cut_short_later = 0
    for number in range(1, count + 1):
        explanation, seen = _explain(explainer, row, number, options)
        assert explanation.statistics.stopped_by == "interrupted", number
        assert seen == number, "after an interruption, nothing more was to be looked for"
        cut_short_later += explanation.statistics.stopped is None  # after the rule was found
    assert cut_short_later or "algorithm" in options


def _explain(explainer: Explainer, row: int, number: int, options: dict[str, Any]) -> tuple[Explanation, int]:
    """An explanation that is interrupted at a look at the budget, and how many looks there were."""
    count = [0]

    def interrupt(_: Meter) -> None:
        count[0] += 1
        if count[0] == number:
            raise KeyboardInterrupt

    return explainer.explain(
        row, budget=Budget(seconds=1e6, use_all_seconds=False, callback=interrupt), **options
    ), count[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_signal_ends_a_batch_after_what_is_finished_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    explainer, plain, handed_out = make_explainer(), process_pool.unwrap_result, [0]

    def press(answer: Any) -> Any:
        handed_out[0] += len(answer)
        if handed_out[0] >= 3:
            signal.raise_signal(signal.SIGINT)  # while rows are handed out, which must be written
        return plain(answer)

    monkeypatch.setattr(process_pool, "unwrap_result", press)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 1)
    monkeypatch.setattr(run, "FLUSH_SECONDS", 1e9)
    with pytest.raises(KeyboardInterrupt):
        explainer.explain_many(output=tmp_path / "batch", workers=workers)
    kept = Batch.open(tmp_path / "batch")
    assert 3 <= len(kept) < kept.counts["to_explain"]


def test_the_main_thread_is_free_while_a_row_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, begun, go_on = make_explainer(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def busy(*_: object, **__: object) -> Any:  # as in compiled code, which nothing interrupts
        threads.append(threading.current_thread())
        begun.set()
        go_on.wait(PATIENCE)
        raise RuntimeError("nobody hears of this")

    def press() -> None:
        begun.wait(PATIENCE)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    monkeypatch.setattr(Explainer, "explain", busy)
    monkeypatch.setattr(process_pool, "JOIN_SECONDS", 0.01)
    helper = threading.Thread(target=press)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        explainer.explain_many(workers=1)
    assert not go_on.is_set()
    assert threading.main_thread() not in threads
    go_on.set()
    helper.join()
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()


def test_an_error_of_the_model_ends_the_thread_that_works_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(InMemoryBatch, "add", full)
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="full"):
        make_explainer().explain_many(workers=1)
    assert not [thread for thread in threading.enumerate() if thread not in before and thread.daemon]


def test_a_flag_that_was_set_before_ends_a_batch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from ironrule.interrupts import InterruptFlag, use_interrupt_flag

    explainer, explained = make_explainer(), list[object]()
    monkeypatch.setattr(Explainer, "explain", _note(explained))
    with use_interrupt_flag(InterruptFlag()) as flag:
        flag.set()  # by a signal whose exception got lost in a library
        with pytest.raises(KeyboardInterrupt):
            explainer.explain_many(workers=1)
    assert not explained


def _note(seen: list[object]) -> Callable[..., None]:
    return lambda *given, **_: seen.append(given)
