"""The server under the soak: clients that leave, kills and restarts; then every answer that was given is looked up.

One audit log outlives many servers. Clients ask for single rows and batches, open event streams, send half requests and
leave at random moments, while the server is killed (-9), terminated or interrupted, and started again. At the end every
answer that a client has read must be in the log with the same hash, and the chain must be whole.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.soak.subject import Disturbance
from ironrule.server.audit.log import AuditLog

CLIENTS = 4
ENDINGS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
END_SECONDS = 60.0  # for a server that was asked to end


@dataclass(slots=True)
class Heard:
    """What the clients have read and done."""

    answers: list[tuple[int, str]] = field(default_factory=list)  # the number of a record, and its hash
    batch_records: list[int] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)  # answers with a status of 500


def start_server(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A server on the bundled data in a folder, and its address."""
    command = [sys.executable, "-P", "-m", "ironrule", "serve", "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("IRONRULE_TOKEN")}
    server = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://[^/\s]+", line):
            threading.Thread(target=server.stderr.read, daemon=True).start()  # so that the pipe is never full
            return server, found[0]
    raise RuntimeError(f"the server did not start; it ended with {server.wait()}")


def ask_row(client: httpx.Client, row: int, heard: Heard) -> None:
    """Ask for one row, and note what was answered."""
    answer = client.post("/api/explain", json={"row": row})
    if answer.status_code == 200:
        heard.answers.append((answer.json()["number"], answer.json()["hash"]))
    elif answer.status_code == 500:
        heard.failures.append(answer.text)
    heard.events[f"status {answer.status_code}"] += 1


def ask_batch(client: httpx.Client, rows: list[int], heard: Heard) -> None:
    """Ask for a batch and wait for it, or cancel it; its lines are answers too."""
    name = client.post("/api/jobs/batch", json={"rows": rows}).json()["job"]
    with client.stream("GET", f"/api/jobs/{name}/events") as stream:
        for place, _ in enumerate(stream.iter_lines()):
            if place > len(rows):
                client.delete(f"/api/jobs/{name}")
                break
    result = client.get(f"/api/jobs/{name}").json()["result"] or []
    heard.batch_records += [line["explanation"] for line in result if line["explanation"] is not None]
    heard.events["batches"] += 1


def leave_early(root: str, row: int, rng: random.Random) -> None:
    """Send a request, or a part of one, and leave without reading the answer."""
    address, body = urlsplit(root), json.dumps({"row": row}).encode()
    head = "POST /api/explain HTTP/1.1", "Host: localhost", "Content-Type: application/json"
    whole = "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
    with socket.create_connection((address.hostname, address.port), timeout=30) as line:
        line.sendall(whole[: rng.randint(1, len(whole))])
        time.sleep(rng.random() * 0.1)


def run_client(root: str, rows: list[int], heard: Heard, stop: threading.Event, seed: str) -> None:
    """One client, until the server is gone or it is told to stop."""
    rng = random.Random(seed)
    with httpx.Client(base_url=root, timeout=60, trust_env=False) as client:
        while not stop.is_set():
            try:
                kind = rng.random()
                if kind < 0.6:
                    ask_row(client, rng.choice(rows), heard)
                elif kind < 0.9:
                    heard.events["left early"] += 1
                    leave_early(root, rng.choice(rows), rng)
                else:
                    ask_batch(client, rng.sample(rows, 10), heard)
            except (httpx.TransportError, OSError):
                heard.events["connections lost"] += 1
                return


class ServerSubject:
    """A server with its clients, ended again and again; its log must have every answer that a client has read."""

    name = "server"

    def __init__(self) -> None:
        self._heard = Heard()

    def prepare(self, folder: Path) -> None:
        """Where the log is; the first server makes it."""
        self._folder = folder

    def disturb(self, rng: random.Random) -> Disturbance:
        """Run a server with its clients for some seconds, then end it in one of the ways."""
        server, root = start_server(self._folder)
        stop, clients, failures = threading.Event(), list[threading.Thread](), len(self._heard.failures)
        try:
            listed = httpx.get(f"{root}/api/applicants?outcome=undesired&size=200", timeout=60, trust_env=False).json()
            rows = [one["row"] for one in listed["applicants"]]
            for seed in [f"{rng.random()}" for _ in range(CLIENTS)]:
                clients.append(threading.Thread(target=run_client, args=(root, rows, self._heard, stop, seed)))
                clients[-1].start()
            time.sleep(rng.uniform(1.0, 6.0))
            ending, began = rng.choice(ENDINGS), time.monotonic()
            server.send_signal(ending)
            server.wait(END_SECONDS)
            taken = time.monotonic() - began
        finally:
            stop.set()
            server.kill()
            server.wait()
            for client in clients:
                client.join()
        faults = tuple(f"status 500: {text[:200]}" for text in self._heard.failures[failures:])
        return Disturbance(ending.name, None if ending == signal.SIGKILL else taken, faults)

    def conclude(self) -> list[str]:
        """Answers that are not in the log as they were given, and what is wrong with the log."""
        log = AuditLog(f"sqlite:///{self._folder}/ironrule-audit.sqlite", create=False)
        kept = {record.number: record.hash for record in log.records()}
        found = log.verify()
        log.close()
        heard = self._heard
        lost = [number for number, said in heard.answers if kept.get(number) != said]
        lost += [number for number in heard.batch_records if number not in kept]
        print(f"server: {len(heard.answers) + len(heard.batch_records)} answers, {len(kept)} records", flush=True)
        return [f"record {number} is not as it was given" for number in lost] + (
            [] if found.flaw is None else [found.flaw]
        )
