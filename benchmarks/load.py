"""Load: many users at once on the bundled model, for a minute. Errors, waiting times, and whether memory stays flat.

    python -m benchmarks.load [--users 50] [--seconds 60]
    python -m benchmarks.load --beside-batches [--seconds 60]

With ``--beside-batches`` one user asks for single rows, one after the other, first alone and then while two batches of
10,000 rows of another user run. The model is a forest on 20,000 rows that all differ: no row is explained twice.

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


TOKENS = {name: f"load-{name}-0123456789abcdef" for name in ("single", "batches")}
BATCH_ROWS = 10_000


def write_forest(folder: Path) -> list[str]:
    """A forest and 20,000 different rows, as files; gives the options that serve them."""
    import numpy as np
    import pandas as pd
    import skops.io
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 100, (20_000, 8)), columns=[f"f{place}" for place in range(8)])
    paid = (table.f0 + table.f1 - table.f2 + rng.integers(0, 60, len(table)) > 110).astype(int)
    forest = RandomForestClassifier(10, max_depth=5, random_state=0).fit(table, paid)
    skops.io.dump(forest, folder / "forest.skops")
    table.to_csv(folder / "rows.csv", index=False)
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
    tokens.chmod(0o600)
    trusted = ["--trust", "sklearn.tree._tree.Tree"]
    return ["--model", "forest.skops", "--data", "rows.csv", "--desired", "1", *trusted, "--tokens", "tokens"]


async def list_rows(client: httpx.AsyncClient) -> list[int]:
    """All rows with the undesired outcome."""
    rows: list[int] = []
    for page in range(1, 1000):
        params: dict[str, str | int] = {"outcome": "undesired", "size": 200, "page": page}
        listed = (await client.get("/api/applicants", params=params)).json()
        rows += [one["row"] for one in listed["applicants"]]
        if page >= listed["pages"]:
            return rows
    return rows


async def ask_single_rows(client: httpx.AsyncClient, seen: Seen, kind: str, rows: list[int], seconds: float) -> None:
    """Single rows, one after the other, for some time."""
    end = time.monotonic() + seconds
    for row in rows:
        await ask(client, seen, kind, "POST", "/api/explain", json={"row": row})
        if time.monotonic() > end:
            return


async def compare_beside_batches(root: str, seconds: float) -> str:
    """Single rows alone, then the same rows beside two batches of another user."""
    seen = Seen()
    single, batches = (
        httpx.AsyncClient(base_url=root, timeout=120, trust_env=False, headers={"authorization": f"Bearer {token}"})
        for token in TOKENS.values()
    )
    async with single, batches:
        rows = await list_rows(batches)
        for row in rows[-10:]:  # so that everything is compiled
            await single.post("/api/explain", json={"row": row})
        await ask_single_rows(single, seen, "alone", rows, seconds)
        sent = [{"rows": part[:BATCH_ROWS]} for part in (rows, rows[::-1])]
        started = [(await batches.post("/api/jobs/batch", json=body)).json()["job"] for body in sent]
        await asyncio.sleep(1)
        await ask_single_rows(single, seen, "beside two batches", rows, seconds)
        jobs = [(await batches.get(f"/api/jobs/{name}")).json() for name in started]
    lines = ["| single rows | number | median s | p95 s | longest s |", "|---|--:|--:|--:|--:|"]
    for kind, waits in seen.waits.items():
        figures = (quantile(waits, 0.5), quantile(waits, 0.95), max(waits))
        lines.append(f"| {kind} | {len(waits):,} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |")
    ratio = quantile(seen.waits["beside two batches"], 0.95) / quantile(seen.waits["alone"], 0.95)
    states = ", ".join(f"{job['state']}, {job['progress']['rows_done']:,} rows done" for job in jobs)
    rows_sent = " and ".join(f"{len(body['rows']):,}" for body in sent)
    end = f"p95: {ratio:.2f} times. Errors: {len(seen.errors)} {sorted(set(seen.errors))}. "
    return "\n".join([*lines, "", f"{end}Batches of {rows_sent} rows at the end: {states}."])


def main() -> None:
    """Serve, load, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--beside-batches", action="store_true", help="single rows beside batches of another user")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = write_forest(Path(folder)) if options.beside_batches else []
        command = [sys.executable, "-m", "ironrule", "serve", "--port", "0", *files]
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            root = next(found[0] for line in server.stderr if (found := re.search(r"http://[^/\s]+", line)))
            if options.beside_batches:
                print(asyncio.run(compare_beside_batches(root, options.seconds)))
                return
            print(report(asyncio.run(load(root, server.pid, options.users, options.seconds)), options.seconds))
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
