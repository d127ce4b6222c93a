"""Jobs: progress by server-sent events, cancel, batches, and a queue that is not endless."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_examples import DENIED, GRANTED, Gate, build_gated_model, open_client

from ironrule.server.audit.log import AuditLog
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits


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
    for _ in range(600):
        job: dict[str, Any] = client.get(f"/api/jobs/{name}").json()
        if job["state"] in ("done", "failed", "cancelled"):
            return job
        time.sleep(0.05)
    raise AssertionError("the job does not end")


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
    assert gate.asked.wait(30)
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
    assert gate.asked.wait(30)
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
    from ironrule.server.service import EqualRows

    found = german.explainer.explain(DENIED)
    stopped = replace(found, statistics=replace(found.statistics, stopped="budget"))
    equal_rows, offered = EqualRows(Applicants.from_explainer(german.explainer), [DENIED] * 3), [stopped, found]
    given = [equal_rows.explain_once(DENIED, lambda: offered.pop(0)) for _ in range(3)]
    assert given == [stopped, found, found]
    assert equal_rows._explanations == {}  # nothing is kept for rows that will not come
