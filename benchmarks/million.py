"""Paging over a million rows: how long the pages of the server take, behind a decision tree on synthetic data.

    python -m benchmarks.million [--rows 1000000]

The server runs in a thread; every request is made ten times after one that is not counted, and the median told.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

import httpx
import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from ironrule.server.app import bind_socket, build_server, create_app
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerSettings

SIZES = (3, 50, 1000, 20)


def subject_of(rows: int) -> ServedModel:
    """Twelve columns of whole numbers, and a tree that has learned on some of the rows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"f{j}": rng.integers(0, SIZES[j % 4], rows) for j in range(12)})
    wanted = np.where(table.f1 + table.f3 + table.f2 / 20 > 60, "yes", "no")
    some = slice(0, min(rows, 100_000))
    model = DecisionTreeClassifier(max_depth=7, random_state=0).fit(table[some], wanted[some])
    return ServedModel.from_model(model, table, f"{rows:,} rows", desired="yes")


def median(ask: Callable[[], httpx.Response]) -> float:
    """Milliseconds."""
    ask()
    taken = []
    for _ in range(10):
        started = time.perf_counter()
        assert ask().status_code in (200, 303)
        taken.append(time.perf_counter() - started)
    return 1000 * statistics.median(taken)


def measured(client: httpx.Client) -> dict[str, float]:
    """Every kind of page."""
    search = client.post("/applicants", data={"text": "f1 >= 30 and f3 < 5"}).headers["location"]
    row = client.get("/applicants.json?outcome=undesired").json()["applicants"][0]["row"]
    number = client.post("/api/explain", json={"row": row}).json()["number"]
    return {
        "first page": median(lambda: client.get("/applicants")),
        "last page of one outcome": median(lambda: client.get("/applicants?outcome=undesired&page=99999")),
        "search by conditions": median(lambda: client.post("/applicants", data={"text": "f1 >= 30 and f3 < 5"})),
        "search by a word": median(lambda: client.post("/applicants", data={"text": "17"})),
        "page of what was found": median(lambda: client.get(f"{search}&page=1000")),
        "applicant": median(lambda: client.get(f"/applicants/{row}")),
        "explain": median(lambda: client.post("/api/explain", json={"row": row})),
        "explanation": median(lambda: client.get(f"/explanations/{number}")),
    }


def main() -> None:
    """Serve, measure, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(port=0, audit=f"sqlite:///{folder}/audit.sqlite")
        server, listening = (
            build_server(create_app(subject_of(parser.parse_args().rows), settings)),
            bind_socket(settings),
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        root = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx.Client(base_url=root, timeout=60, trust_env=False) as client:
            for name, milliseconds in measured(client).items():
                print(f"| {name} | {milliseconds:.0f} |")
        server.should_exit = True
        thread.join()
        listening.close()


if __name__ == "__main__":
    main()
