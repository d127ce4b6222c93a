"""Load: many users at once on the bundled model, for a minute. Errors, waiting times, and whether memory stays flat.

    python -m benchmarks.load [--users 50] [--seconds 60]

The server is a process of its own. Every user does what people do: looks at a page of the list, searches, opens an
applicant, asks for an explanation by the form, reads it, tries a what-if, asks the API, and pauses for a moment in
between. Waiting times include everything until the last byte. Memory is the resident set of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

PAUSE_SECONDS = 0.5


@dataclass(slots=True)
class Seen:
    """What the users met with: kinds of request, seconds each took, and what went wrong."""

    waits: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds since the start, MiB


async def ask(
    client: httpx.AsyncClient, seen: Seen, kind: str, method: str, path: str, **body: object
) -> httpx.Response:
    """One request, timed."""
    started = time.perf_counter()
    try:
        answer = await client.request(method, path, follow_redirects=True, **body)  # type: ignore[arg-type]
        if answer.status_code != 200:
            seen.errors.append(f"{kind}: {answer.status_code}")
    except httpx.HTTPError as error:
        seen.errors.append(f"{kind}: {type(error).__name__}")
        answer = httpx.Response(599)
    seen.waits.setdefault(kind, []).append(time.perf_counter() - started)
    return answer


async def user(root: str, rows: list[int], seen: Seen, end: float, seed: int) -> None:
    """One user, until the time is over."""
    rng = random.Random(seed)
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(base_url=root, timeout=60, limits=limits, trust_env=False) as client:
        await asyncio.sleep(rng.random() * 2)
        while time.monotonic() < end:
            row, number = rng.choice(rows), None
            steps: list[tuple[str, str, str, dict[str, object]]] = [
                ("list", "GET", f"/applicants?outcome=undesired&page={rng.randint(1, 10)}", {}),
                ("search", "POST", "/applicants", {"data": {"text": f"age in years >= {rng.randint(20, 60)}"}}),
                ("applicant", "GET", f"/applicants/{row}", {}),
                ("explain", "POST", f"/applicants/{row}/explain", {"data": {}}),
                ("what-if", "POST", f"/applicants/{row}/what-if", {"data": {"f1": str(rng.choice([12, 24, 36]))}}),
                ("counterfactuals", "POST", "/api/counterfactuals", {"json": {"row": row, "k": 2}}),
                ("explain (API)", "POST", "/api/explain", {"json": {"row": row}}),
            ]
            for kind, method, path, body in steps:
                answer = await ask(client, seen, kind, method, path, **body)
                if kind == "explain" and (found := re.search(r"/explanations/(\d+)", str(answer.url))):
                    number = found[1]
                if time.monotonic() > end:
                    return
                await asyncio.sleep(PAUSE_SECONDS * (0.5 + rng.random()))
            if number is not None:
                await ask(client, seen, "report", "GET", f"/explanations/{number}/report.html")


async def watch(process: int, seen: Seen, end: float) -> None:
    """Look at the server's memory every second."""
    started = time.monotonic()
    while time.monotonic() < end:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        seen.memory.append((time.monotonic() - started, pages * os.sysconf("SC_PAGE_SIZE") / 2**20))
        await asyncio.sleep(1)


async def load(root: str, process: int, users: int, seconds: float) -> Seen:
    """All users at once."""
    async with httpx.AsyncClient(base_url=root, timeout=60, trust_env=False) as client:
        listed = (await client.get("/api/applicants?outcome=undesired&size=200")).json()["applicants"]
        rows = [one["row"] for one in listed]
        for row in rows[:10]:  # so that everything is compiled
            await client.post("/api/explain", json={"row": row})
            await client.post("/api/counterfactuals", json={"row": row, "k": 2})
    seen, end = Seen(), time.monotonic() + seconds
    await asyncio.gather(watch(process, seen, end), *(user(root, rows, seen, end, seed) for seed in range(users)))
    return seen


def quantile(values: list[float], share: float) -> float:
    """The value below which a share of all lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def report(seen: Seen, seconds: float) -> str:
    """A table per kind of request, then errors and memory."""
    every = [wait for waits in seen.waits.values() for wait in waits]
    lines = ["| request | number | median s | p95 s | longest s |", "|---|--:|--:|--:|--:|"]
    for kind, waits in [*seen.waits.items(), ("all", every)]:
        figures = (quantile(waits, 0.5), quantile(waits, 0.95), max(waits))
        lines.append(f"| {kind} | {len(waits):,} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |")
    third = [mib for at, mib in seen.memory if seconds / 3 <= at < seconds * 2 / 3]
    last = [mib for at, mib in seen.memory if at >= seconds * 2 / 3]
    memory = (
        f"{third[0]:.0f} MiB after a third of the time, {last[-1]:.0f} MiB at the end, {max(third + last):.0f} at most"
    )
    return "\n".join([*lines, "", f"Errors: {len(seen.errors)} {sorted(set(seen.errors))}. Memory: {memory}."])


def main() -> None:
    """Serve, load, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ironrule", "serve", "--port", "0"]
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            root = next(found[0] for line in server.stderr if (found := re.search(r"http://[^/\s]+", line)))
            print(report(asyncio.run(load(root, server.pid, options.users, options.seconds)), options.seconds))
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
