"""Jobs: progress by server-sent events, cancel, batches, and a queue that is not endless."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_examples import DENIED, GRANTED, Gate, build_gated_model, open_client, open_connection, open_server

from ironrule.server.audit.log import AuditLog
from ironrule.server.errors import ApiError
from ironrule.server.jobs import UNFINISHED, FairQueue, Job, JobQueue
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits
from waiting import PATIENCE, wait_until


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Gate, httpx.Client]]:
    """A server whose model waits at a gate: two workers, and one more may wait."""
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path, ServerLimits(workers=2, queued_jobs=1)) as client:
        try:
            gate.asked.clear()
            yield gate, client
        finally:
            gate.open.set()


def wait_for_job(client: httpx.Client, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/api/jobs/{name}").json()
        return job if job["state"] in ("done", "failed", "cancelled") else None

    return wait_until(look, "the end of the job")


def read_events(client: httpx.Client, name: str) -> list[tuple[str, dict[str, Any]]]:
    text = client.get(f"/api/jobs/{name}/events").text
    pairs = [block.split("\n", 1) for block in text.strip().split("\n\n") if block.startswith("event: ")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in pairs]


def find_denied_row(client: httpx.Client) -> int:
    row: int = client.get("/api/applicants", params={"outcome": "undesired"}).json()["applicants"][0]["row"]
    return row


def test_a_job_ends_with_the_number_of_its_record(client: httpx.Client) -> None:
    started = client.post("/api/jobs/explain", json={"row": DENIED})
    assert started.status_code == 202
    job = wait_for_job(client, started.json()["job"])
    assert (job["state"], job["error"]) == ("done", None)
    assert client.get(f"/api/explanations/{job['result']}").json()["row"] == DENIED


def test_a_job_that_fails_says_why(client: httpx.Client) -> None:
    job = wait_for_job(client, client.post("/api/jobs/explain", json={"row": GRANTED}).json()["job"])
    assert (job["state"], job["result"], job["error"]["code"]) == ("failed", None, "row-not-denied")


def test_progress_comes_as_events_and_the_last_one_ends(client: httpx.Client) -> None:
    body = {"row": DENIED, "algorithm": "genetic", "evaluations": 60_000}
    told = read_events(client, client.post("/api/jobs/explain", json=body).json()["job"])
    kinds = [kind for kind, _ in told]
    assert kinds[-1] == "end"
    assert set(kinds[:-1]) == {"progress"}
    assert told[-1][1]["state"] == "done"
    evaluations = [job["progress"]["evaluations"] for _, job in told]
    assert evaluations == sorted(evaluations)
    assert any(job["progress"]["best_weight"] is not None for _, job in told)


def test_a_job_that_runs_is_cancelled_and_gives_the_best_it_has(slow: tuple[Gate, httpx.Client]) -> None:
    gate, client = slow
    row = find_denied_row(client)
    gate.open.clear()
    name = client.post("/api/jobs/explain", json={"row": row}).json()["job"]
    assert gate.asked.wait(PATIENCE)
    assert client.delete(f"/api/jobs/{name}").json()["state"] == "running"
    gate.open.set()
    job = wait_for_job(client, name)
    assert job["state"] == "cancelled"
    document = client.get(f"/api/explanations/{job['result']}").json()["document"]
    assert document["statistics"]["stopped"] == "interrupted"
    assert document["rules"][0]["verdict"]["kind"] != "proven"


def test_a_queue_that_is_full_is_said_so_and_one_who_waits_can_leave(slow: tuple[Gate, httpx.Client]) -> None:
    gate, client = slow
    row = find_denied_row(client)
    gate.open.clear()
    names = [client.post("/api/jobs/explain", json={"row": row}).json()["job"] for _ in range(3)]
    full = client.post("/api/jobs/explain", json={"row": row})
    assert (full.status_code, full.json()["error"]["code"], full.headers["retry-after"]) == (
        429,
        "too-many-requests",
        "1",
    )
    waiting = next(name for name in names if client.get(f"/api/jobs/{name}").json()["state"] == "waiting")
    assert client.delete(f"/api/jobs/{waiting}").json()["state"] == "cancelled"
    assert read_events(client, waiting)[-1][1]["result"] is None
    assert client.post("/api/jobs/explain", json={"row": row}).status_code == 202
    gate.open.set()
    states = {wait_for_job(client, name)["state"] for name in names if name != waiting}
    assert states == {"done"}


def test_a_batch_has_a_line_per_row_and_a_record_per_explanation(german: ServedModel, tmp_path: Path) -> None:
    rows = [DENIED, GRANTED, 4, 9]
    with open_client(german, tmp_path) as client:
        job = wait_for_job(client, client.post("/api/jobs/batch", json={"rows": rows}).json()["job"])
    assert [line["row"] for line in job["result"]] == rows
    assert [line["explanation"] for line in job["result"]] == [1, None, 2, 3]
    assert job["result"][1]["error"]["code"] == "row-not-denied"
    assert (job["progress"]["rows_done"], job["progress"]["rows_total"]) == (4, 4)
    log = AuditLog(f"sqlite:///{tmp_path}/audit.sqlite")
    assert [(record.row, record.rule) for record in log.records()] == [
        (line["row"], line["rule"]) for line in job["result"] if line["explanation"]
    ]
    log.close()


def test_a_batch_can_be_cancelled_and_keeps_what_was_said(slow: tuple[Gate, httpx.Client]) -> None:
    gate, client = slow
    rows = [one["row"] for one in client.get("/api/applicants", params={"outcome": "undesired"}).json()["applicants"]]
    gate.open.clear()
    name = client.post("/api/jobs/batch", json={"rows": rows}).json()["job"]
    assert gate.asked.wait(PATIENCE)
    client.delete(f"/api/jobs/{name}")
    gate.open.set()
    job = wait_for_job(client, name)
    assert job["state"] == "cancelled"
    assert len(job["result"]) == 1 < len(rows)


def test_a_batch_has_no_more_rows_than_the_server_allows(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, ServerLimits(batch_rows=2)) as client:
        assert client.post("/api/jobs/batch", json={"rows": [1, 1, 1]}).status_code == 413


def test_old_jobs_are_forgotten(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, ServerLimits(kept_jobs=3)) as client:
        names = []
        for _ in range(5):
            names.append(client.post("/api/jobs/explain", json={"row": DENIED}).json()["job"])
            wait_for_job(client, names[-1])
        assert [client.get(f"/api/jobs/{name}").status_code for name in names] == [404, 404, 200, 200, 200]


def test_a_model_that_fails_fails_the_answer_and_not_the_server(tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path) as client:
        gate.open.wait, kept = (lambda _: 1 / 0), gate.open.wait  # type: ignore[method-assign,assignment]
        answer = client.post("/api/explain", json={"row": find_denied_row(client)})
        gate.open.wait = kept  # type: ignore[method-assign]
        assert answer.status_code == 500
        assert set(answer.json()) == {"error"}
        assert client.post("/api/explain", json={"row": find_denied_row(client)}).status_code == 200


def test_equal_rows_of_a_batch_are_explained_once_and_each_is_in_the_log(
    german: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironrule import Explainer

    whole, asked = Explainer.explain, list[Any]()

    def counting(self: Explainer, row: Any, *more: Any, **options: Any) -> Any:
        asked.append(row)
        return whole(self, row, *more, **options)

    monkeypatch.setattr(Explainer, "explain", counting)
    with open_client(german, tmp_path) as client:
        other = client.get("/api/applicants?outcome=undesired").json()["applicants"][1]["row"]
        rows = [DENIED, GRANTED, other, DENIED, GRANTED, DENIED]
        job = wait_for_job(client, client.post("/api/jobs/batch", json={"rows": rows}).json()["job"])
        records = [client.get(f"/api/explanations/{line['explanation']}").json() for line in job["result"][::3]]
    assert asked == [DENIED, GRANTED, other, GRANTED]
    assert [line["row"] for line in job["result"]] == rows
    assert [line["explanation"] for line in job["result"]] == [1, None, 2, 3, None, 4]
    assert [line["error"] is None for line in job["result"]] == [True, False, True, True, False, True]
    assert records[0]["document"] == records[1]["document"]
    assert [record["row"] for record in records] == [DENIED, DENIED]
    assert AuditLog(f"sqlite:///{tmp_path}/audit.sqlite", create=False).verify().count == 4


def test_what_was_stopped_early_is_not_handed_to_an_equal_row(german: ServedModel) -> None:
    from dataclasses import replace

    from ironrule.server.applicants import Applicants
    from ironrule.server.batch_run import EqualRows

    found = german.explainer.explain(DENIED)
    stopped = replace(found, statistics=replace(found.statistics, stopped="budget"))
    equal_rows, offered = EqualRows(Applicants.from_explainer(german.explainer), [DENIED] * 3), [stopped, found]
    given = [equal_rows.explain_once(DENIED, lambda: offered.pop(0)) for _ in range(3)]
    assert given == [stopped, found, found]
    assert equal_rows._explanations == {}  # nothing is kept for rows that will not come


ANN, BOB = "Qm9yZWQgb2YgdG9rZW5z", "V2h5IG5vdCBhbm90aGVy"


class Steps:
    """Work that notes who has done what, in order; whoever is held waits for ``go``."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go, self.begun = threading.Event(), threading.Semaphore(0)

    def row(self, name: str, held: bool = False) -> Any:
        def work(_: Job) -> str:
            self._pass(held)
            self.done.append(name)
            return name

        return work

    def batch(self, name: str, rows: int) -> Any:
        left = list(range(rows))

        def work(job: Job) -> Any:
            self._pass(True)
            if not job.cancel_requested.is_set():
                self.done.append(f"{name}{left.pop(0)}")
            return UNFINISHED if left and not job.cancel_requested.is_set() else "all"

        return work

    def _pass(self, held: bool) -> None:
        if held:
            self.begun.release()
            assert self.go.wait(PATIENCE)


@pytest.fixture
def steps() -> Iterator[Steps]:
    made = Steps()
    yield made
    made.go.set()


def test_users_have_their_turns() -> None:
    queue = FairQueue()
    for name, who in (("a", "ann"), ("b", "ann"), ("c", "ann"), ("d", "bob"), ("e", "eve"), ("f", "bob")):
        queue.put(Job(name, "explanation", who))
    taken = [found.name for _ in range(3) if (found := queue.take(lambda _: True))]
    queue.put(Job("g", "explanation", "ann"))
    taken += [found.name for _ in range(9) if (found := queue.take(lambda _: True))]
    assert taken == ["a", "d", "e", "b", "f", "c", "g"]
    queue.put(Job("h", "explanation", "ann"))
    queue.put(Job("i", "explanation", "bob"))
    assert queue.take(lambda who: who == "bob").name == "i"  # type: ignore[union-attr]
    assert len(queue) == 1


def test_a_single_row_goes_between_the_rows_of_a_batch(steps: Steps) -> None:
    jobs = JobQueue(ServerLimits(workers=1))
    batch = jobs.start("batch", steps.batch("batch ", 3), "ann", by_rows=True)
    assert steps.begun.acquire(timeout=PATIENCE)
    single = jobs.start("explanation", steps.row("single"), "ann")
    steps.go.set()
    batch.future.result(PATIENCE)
    single.future.result(PATIENCE)
    assert steps.done == ["batch 0", "single", "batch 1", "batch 2"]
    assert (batch.state, batch.result, single.state) == ("done", "all", "done")
    jobs.close()


def test_batches_leave_a_worker_for_single_rows(steps: Steps) -> None:
    jobs = JobQueue(ServerLimits(workers=2))
    batches = [jobs.start("batch", steps.batch(name, 2), "ann", by_rows=True) for name in "xy"]
    assert steps.begun.acquire(timeout=PATIENCE)
    jobs.start("explanation", steps.row("ann's own"), "ann").future.result(PATIENCE)
    jobs.start("explanation", steps.row("bob's"), "bob").future.result(PATIENCE)
    assert steps.done == ["ann's own", "bob's"]
    steps.go.set()
    for batch in batches:
        batch.future.result(PATIENCE)
    assert steps.done[2:] == ["x0", "y0", "x1", "y1"]  # they have their turns too
    jobs.close()


def test_who_holds_all_workers_does_not_hold_up_another_user(steps: Steps) -> None:
    jobs = JobQueue(ServerLimits(workers=2))
    held = [jobs.start("explanation", steps.row(f"ann {place}", held=True), "ann") for place in range(3)]
    assert steps.begun.acquire(timeout=PATIENCE)
    assert steps.begun.acquire(timeout=PATIENCE)
    jobs.start("explanation", steps.row("bob"), "bob").future.result(PATIENCE)
    assert steps.done == ["bob"]
    assert [job.state for job in held] == ["running", "running", "waiting"]
    steps.go.set()
    for job in held:
        job.future.result(PATIENCE)
    jobs.close()


def test_many_single_rows_do_not_stop_a_batch(steps: Steps) -> None:
    jobs = JobQueue(ServerLimits(workers=1))
    held = jobs.start("explanation", steps.row("first", held=True), "ann")
    batch = jobs.start("batch", steps.batch("batch ", 1), "ann", by_rows=True)
    singles = [jobs.start("explanation", steps.row("single"), "ann") for _ in range(30)]
    steps.go.set()
    for job in (held, batch, *singles):
        job.future.result(PATIENCE)
    assert steps.done.index("batch 0") <= 12
    jobs.close()


def test_a_full_queue_is_full_for_its_user_alone(steps: Steps) -> None:
    jobs = JobQueue(ServerLimits(workers=1, queued_jobs=2))
    for _ in range(3):
        jobs.start("explanation", steps.row("ann", held=True), "ann")
    with pytest.raises(ApiError) as refused:
        jobs.start("explanation", steps.row("ann"), "ann")
    assert refused.value.status == 429
    jobs.start("explanation", steps.row("bob"), "bob").future.result(PATIENCE)
    assert steps.done == ["bob"]
    jobs.close()


def test_a_batch_that_has_not_begun_can_be_cancelled(steps: Steps) -> None:
    jobs = JobQueue(ServerLimits(workers=1))
    first, second = (jobs.start("batch", steps.batch(name, 1), "ann", by_rows=True) for name in "xy")
    assert steps.begun.acquire(timeout=PATIENCE)
    jobs.cancel(second)
    assert (first.state, second.state, second.future.cancelled()) == ("running", "cancelled", True)
    steps.go.set()
    first.future.result(PATIENCE)
    third = jobs.start("batch", steps.batch("z", 1), "ann", by_rows=True)
    third.future.result(PATIENCE)
    assert steps.done == ["x0", "z0"]
    jobs.close()


def test_a_row_of_one_user_is_answered_beside_long_batches_of_another(german: ServedModel, tmp_path: Path) -> None:
    limits = ServerLimits(workers=2, seconds=2)
    ann, bob = ({"authorization": f"Bearer {token}"} for token in (ANN, BOB))
    with open_client(german, tmp_path, limits, tokens={ANN: "ann", BOB: "bob"}) as client:
        listed = client.get("/api/applicants?outcome=undesired&size=200", headers=ann).json()["applicants"]
        rows = ([one["row"] for one in listed] * 10_000)[:10_000]
        batches = [client.post("/api/jobs/batch", json={"rows": rows}, headers=ann).json()["job"] for _ in range(2)]
        assert client.post("/api/explain", json={"row": DENIED}, headers=bob).status_code == 200
        states = [client.delete(f"/api/jobs/{name}", headers=ann).json()["state"] for name in batches]
        assert set(states) <= {"waiting", "running", "cancelled"}  # they have not ended before


def test_a_batch_that_takes_too_long_ends_and_says_so_in_every_line(german: ServedModel, tmp_path: Path) -> None:
    with open_client(german, tmp_path, ServerLimits(batch_seconds=1e-9)) as client:
        rows = [DENIED, 4, 9]
        job = wait_for_job(client, client.post("/api/jobs/batch", json={"rows": rows}).json()["job"])
    assert job["state"] == "done"
    assert [line["row"] for line in job["result"]] == rows
    assert [line["error"] and line["error"]["code"] for line in job["result"]] == [None, *["batch-timeout"] * 2]
    assert job["result"][1]["error"]["message"].startswith("the batch has used the 1e-09 s that it may take; ")
    assert job["progress"]["rows_done"] == 3


@pytest.mark.parametrize("path", ["/api/explain", "/api/counterfactuals"])
def test_the_job_of_a_client_who_leaves_is_cancelled(tmp_path: Path, path: str) -> None:
    gate, served_model = build_gated_model()
    with open_server(served_model, tmp_path, ServerLimits(workers=1)) as (client, app):
        body = b'{"row": %d}' % find_denied_row(client)
        gate.asked.clear()
        gate.open.clear()
        try:
            with open_connection(client) as line:
                head = f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"
                line.sendall("\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body)
                assert gate.asked.wait(PATIENCE)
                (job,) = app.state.service.jobs._jobs.values()
                assert not job.cancel_requested.is_set()
            assert job.cancel_requested.wait(PATIENCE)
        finally:
            gate.open.set()
        job.future.result(PATIENCE)
        assert job.state == "cancelled"
        assert client.get("/api/model").status_code == 200
