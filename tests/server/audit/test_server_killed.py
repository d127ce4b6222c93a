"""A server that is killed in the middle of its work has every answered request in its log, and no half one."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx

from ironrule.server.audit.log import AuditLog
from processes import process
from waiting import PATIENCE


def ask_until_closed(root: str, rows: list[int], heard: list[tuple[int, str]]) -> None:
    """Ask until the connection breaks; keeps what was answered."""
    with httpx.Client(base_url=root, timeout=PATIENCE, trust_env=False) as client:
        for row in rows * 1000:
            try:
                answer = client.post("/api/explain", json={"row": row})
            except httpx.TransportError:
                return
            heard.append((answer.json()["number"], answer.json()["hash"]))


def test_what_was_answered_before_a_kill_is_in_the_log_and_nothing_is_half(tmp_path: Path) -> None:
    heard: list[tuple[int, str]] = []
    with process(tmp_path, "--workers", "4") as (server, root):
        with httpx.Client(base_url=root, timeout=PATIENCE, trust_env=False) as client:
            found = client.get("/api/applicants", params={"outcome": "undesired", "size": 100}).json()["applicants"]
            rows = [one["row"] for one in found]
            client.post("/api/explain", json={"row": rows[0]})  # so that everything is compiled
            name = client.post("/api/jobs/batch", json={"rows": rows * 50}).json()["job"]
            askers = [threading.Thread(target=ask_until_closed, args=(root, rows[n:], heard)) for n in range(4)]
            for asker in askers:
                asker.start()
            while len(heard) < 40:
                job = client.get(f"/api/jobs/{name}").json()
        assert job["state"] == "running"
        server.kill()
        for asker in askers:
            asker.join(PATIENCE)
    log = AuditLog(f"sqlite:///{tmp_path}/ironrule-audit.sqlite", create=False)
    kept = {record.number: record for record in log.records()}
    whole = log.verify()
    log.close()
    assert (whole.flaw, whole.count) == (None, len(kept))
    assert all(kept[number].hash == said for number, said in heard)
    assert all(record.document["rules"] for record in kept.values())
    assert len(kept) >= len(heard) + job["progress"]["rows_done"]
