"""Takes the pictures of docs/server.md: python docs/server/screenshots.py, with Chromium and the test extra installed.

Serves the bundled data in a folder of its own, and walks through every page at desktop and phone width. The page of a
ladder is that of boosted trees, whose rules are longer than those of the tree that is served by default.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from ironrule.cli.commands.demo import BOOSTING_ROW, DESIRED_CLASS, build_boosting_model
from ironrule.server.app import bind_socket, build_server, create_app
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerSettings

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SIZES = {"desktop": (1280, 860), "phone": (390, 844)}


def take_shot(page: Page, name: str, size: str) -> None:
    """The page as a picture, the whole of some."""
    path = HERE / f"{name}-{size}.png"
    page.wait_for_load_state("networkidle" if name != "job" else "load")
    is_whole = name in ("applicant", "explanation", "ladder", "part", "what-if")
    page.screenshot(path=path, full_page=is_whole or (name, size) == ("counterfactuals", "desktop"))
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a quarter of the size


def walk(page: Page, root: str, size: str) -> None:
    """Every page, in the order in which a user visits them."""

    def shot(name: str) -> None:
        take_shot(page, name, size)

    page.goto(f"{root}/applicants")
    page.get_by_label("Search", exact=True).fill("age in years >= 60")
    page.get_by_label("Outcome").select_option("undesired")
    page.get_by_role("button", name="Search").click()
    shot("applicants")
    page.goto(f"{root}/applicants/1")
    shot("applicant")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.wait_for_url("**/explanations/*")
    shot("explanation")
    page.get_by_role("button", name="Check the proof").click()
    page.wait_for_url("**/check")
    shot("check")
    page.go_back()
    page.get_by_role("link", name="What if").click()
    page.get_by_label("duration in month").fill("24")
    page.get_by_role("button", name="See the outcome").click()
    page.get_by_text("Then the outcome is").wait_for()
    shot("what-if")
    page.goto(f"{root}/applicants/1")
    page.get_by_text("What would have changed the outcome?").click()
    page.get_by_role("checkbox", name="duration in month").first.check()
    page.get_by_role("button", name="Find the nearest changes").click()
    page.get_by_role("button", name="Show all sets of features").click()
    page.get_by_role("heading", name="All sets of features to choose from").wait_for()
    shot("counterfactuals")
    page.goto(f"{root}/applicants/1")
    constraints = 'cf.savings_account_and_bonds == "... < 100 DM"\ncf.age_in_years <= 30'
    page.get_by_label("Only where this holds").fill(constraints)
    page.get_by_role("button", name="Explain with these settings").click()
    page.wait_for_url("**/explanations/*")
    shot("part")
    page.goto(f"{root}/applicants/4")
    page.get_by_label("Algorithm").select_option("genetic")
    page.get_by_role("button", name="Explain with these settings").click()
    page.wait_for_url("**/jobs/*")
    page.get_by_text("a candidate was found").wait_for()
    shot("job")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_url("**/explanations/*")
    shot("stopped")
    page.goto(f"{root}/explanations")
    shot("log")
    page.goto(f"{root}/api")
    shot("api")
    page.goto(f"{root}/applicants/123456")
    shot("error")
    page.goto(f"{root}/login")
    shot("login")


def visit_ladder(page: Page, root: str, size: str) -> None:
    """The page of a ladder."""
    page.goto(f"{root}/applicants/{BOOSTING_ROW}")
    page.get_by_role("button", name="Explain in a few conditions").click()
    page.wait_for_url("**/ladders/*")
    take_shot(page, "ladder", size)


@contextmanager
def serve_boosted_trees(folder: str) -> Iterator[str]:
    """The address of a server of boosted trees, which runs in a thread."""
    model, data, space, is_fresh = build_boosting_model()
    shared = {"space": space, "measure": is_fresh}
    served = ServedModel.from_model(model, data, "German credit", shared, desired=DESIRED_CLASS)
    settings = ServerSettings(port=0, audit=f"sqlite:///{folder}/boosting.sqlite")
    server, listening = build_server(create_app(served, settings)), bind_socket(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def main() -> None:
    """Serve, walk, end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ironrule", "serve", "--port", "0"]
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            root = next(found[0] for line in server.stderr if (found := re.search(r"http://[^/]+", line)))
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                for size, (width, height) in SIZES.items():
                    page = browser.new_page(viewport={"width": width, "height": height})
                    walk(page, root, size)
                    with serve_boosted_trees(folder) as boosted:
                        visit_ladder(page, boosted, size)
                    page.close()
                browser.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
