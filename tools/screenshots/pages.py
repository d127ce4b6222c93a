"""The pictures of docs/server.md.

Serves the bundled data in a folder of its own, and walks through the pages as a clerk does, on a desktop and on a
phone, in light and in dark colours. The page of short rules is that of boosted trees, whose rules are longer than those
of the tree. With a few names it takes these alone, after the same walk.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Page, TimeoutError

from ironrule.cli.commands.demo import (
    BOOSTING_ROW,
    DESIRED_CLASS,
    build_boosting_model,
    build_demo_model,
)
from ironrule.data import load_german_labels
from ironrule.server.app import bind_socket, build_server, create_app
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerSettings
from ironrule.space.labels import Labels
from tools.screenshots.browser import DOCS, open_browser, shrink_picture

FOLDER = DOCS / "server"
SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
WHOLE = {"applicant", "batch", "explanation", "ladder", "new-applicant", "overview", "part", "what-if"}
DARK = {"overview-desktop", "explanation-desktop", "applicants-phone", "explanation-phone"}
LIGHT = {"overview-desktop", "overview-phone", "applicants-desktop", "applicants-phone", "search-desktop",
         "applicant-desktop", "new-applicant-desktop", "new-applicant-phone", "explanation-desktop",
         "explanation-phone", "ladder-desktop", "ladder-phone", "what-if-desktop", "counterfactuals-desktop",
         "counterfactuals-phone", "part-desktop", "batch-desktop", "batch-phone", "job-desktop", "stopped-phone",
         "explanations-desktop", "explanations-phone", "log-desktop", "check-desktop", "error-desktop"}  # fmt: skip
NAMES = frozenset(LIGHT | DARK)
ColorScheme = Literal["light", "dark"]
MAX_HEIGHT = 2600  # of a picture, in pixels: of a longer page its beginning is shown


@dataclass(frozen=True)
class Camera:
    """A page of one size in one scheme of colours, and which pictures are wanted of it."""

    page: Page
    size: str
    scheme: ColorScheme
    wanted: frozenset[str]

    def shoot(self, name: str) -> None:
        """Take a picture, if it is one of those for the documentation."""
        full = f"{name}-{self.size}"
        if full not in (DARK if self.scheme == "dark" else LIGHT) or full not in self.wanted:
            return
        path = FOLDER / f"{full}{'-dark' if self.scheme == 'dark' else ''}.png"
        self.page.wait_for_load_state("load" if name == "job" else "networkidle")
        self.page.screenshot(path=path, full_page=name in WHOLE)
        shrink_picture(path, 128, MAX_HEIGHT)


def walk(camera: Camera, root: str) -> None:
    """Every page, in the order in which a clerk visits them."""
    for visit in (visit_lists, visit_explanation, visit_forms, visit_special_rules, visit_records):
        visit(camera, root)


def visit_lists(camera: Camera, root: str) -> None:
    """A batch, the overview, the list and a search that is not understood."""
    page = camera.page
    page.goto(f"{root}/batches")
    page.get_by_role("button", name="Start").click()
    wait_for_batch(page)
    camera.shoot("batch")
    page.goto(f"{root}/overview?by=housing")
    camera.shoot("overview")
    page.goto(f"{root}/applicants")
    page.get_by_label("Search", exact=True).fill("durration >= 24")
    page.get_by_role("button", name="Search").first.click()
    camera.shoot("search")
    page.goto(f"{root}/applicants")
    page.get_by_label("Search", exact=True).fill("age >= 60")
    page.get_by_label("Sort by").select_option("score")
    page.get_by_role("button", name="Search").first.click()
    page.get_by_text("found for").wait_for()
    camera.shoot("applicants")
    page.goto(f"{root}/applicants/1")
    camera.shoot("applicant")


def wait_for_batch(page: Page) -> None:
    """Wait until a batch is done, however long, as long as its page shows that it goes on."""
    shown = ""
    while True:
        try:
            page.get_by_role("heading", name="Done").wait_for()
        except TimeoutError:
            before, shown = shown, page.get_by_role("main").inner_text()
            if shown == before:
                raise
        else:
            return


def visit_explanation(camera: Camera, root: str) -> None:
    """A rule, its check, a what-if whose value cannot be used."""
    page = camera.page
    page.goto(f"{root}/applicants/1")
    page.get_by_role("button", name="Explain", exact=True).click()
    page.wait_for_url("**/explanations/*")
    camera.shoot("explanation")
    page.get_by_role("button", name="Check the proof").click()
    page.wait_for_url("**/check")
    camera.shoot("check")
    page.go_back()
    page.get_by_role("link", name="What if").click()
    page.get_by_label("Duration (months)").fill("24")
    page.get_by_role("button", name="See the outcome").click()
    page.get_by_text("Then the outcome is").wait_for()
    camera.shoot("what-if")


def visit_forms(camera: Camera, root: str) -> None:
    """The form for a new applicant with a mistake, and the nearest changes."""
    page = camera.page
    page.goto(f"{root}/applicants/new")
    page.get_by_label("Duration (months)").fill("two years")
    page.get_by_label("Amount (DM)").fill("9000")
    page.get_by_role("button", name="Decide only").click()
    page.get_by_text("cannot be used").wait_for()
    camera.shoot("new-applicant")
    page.goto(f"{root}/applicants/1")
    page.get_by_text("What would have changed the outcome?").click()
    page.get_by_role("checkbox", name="Duration").first.check()
    page.get_by_role("button", name="Find the nearest changes").click()
    page.get_by_role("button", name="Show all sets of features").click()
    page.get_by_role("heading", name="All sets of features to choose from").wait_for()
    camera.shoot("counterfactuals")


def visit_special_rules(camera: Camera, root: str) -> None:
    """A rule under constraints, and a search that is watched and stopped."""
    page = camera.page
    page.goto(f"{root}/applicants/1")
    constraints = 'cf.savings_account_and_bonds == "... < 100 DM"\ncf.age_in_years <= 30'
    page.get_by_text("Ask for a rule with settings of your own").click()
    page.get_by_label("Only where this holds").fill(constraints)
    page.get_by_role("button", name="Explain with these settings").click()
    page.wait_for_url("**/explanations/*")
    camera.shoot("part")
    page.goto(f"{root}/applicants/4")
    page.get_by_text("Ask for a rule with settings of your own").click()
    page.get_by_label("Algorithm").select_option("genetic")
    page.get_by_role("button", name="Explain with these settings").click()
    page.wait_for_url("**/jobs/*")
    page.get_by_text("a candidate was found").wait_for()
    camera.shoot("job")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_url("**/explanations/*")
    camera.shoot("stopped")


def visit_records(camera: Camera, root: str) -> None:
    """The explanations, the log, and an error."""
    page = camera.page
    for path, name in (("explanations", "explanations"), ("log", "log"), ("applicants/123456", "error")):
        page.goto(f"{root}/{path}")
        camera.shoot(name)


def visit_short_rules(camera: Camera, root: str) -> None:
    """Short rules of boosted trees."""
    camera.page.goto(f"{root}/applicants/{BOOSTING_ROW}")
    camera.page.get_by_role("button", name="Explain in a few conditions").click()
    camera.page.wait_for_url("**/ladders/*")
    camera.shoot("ladder")


@contextmanager
def serve(served_model: ServedModel, folder: str, name: str) -> Iterator[str]:
    """The address of a server, which runs in a thread."""
    settings = ServerSettings(port=0, audit=f"sqlite:///{folder}/{name}.sqlite")
    server, listening = build_server(create_app(served_model, settings)), bind_socket(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def build_served_models() -> list[tuple[ServedModel, Callable[[Camera, str], None]]]:
    """What is served, and what is visited there."""
    model, data, space = build_demo_model()
    shared = {"space": space.with_labels(Labels.from_dict(load_german_labels()))}
    tree = ServedModel.from_model(model, data, "German credit", shared, desired=DESIRED_CLASS)
    model, data, space, is_fresh = build_boosting_model()
    more = {"space": space.with_labels(Labels.from_dict(load_german_labels())), "measure": is_fresh}
    boosting = ServedModel.from_model(model, data, "German credit", more, desired=DESIRED_CLASS)
    return [(tree, walk), (boosting, visit_short_rules)]


def take_pictures(names: frozenset[str]) -> None:
    """Serve, walk, end."""
    schemes: tuple[ColorScheme, ...] = ("light", "dark")
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        for place, (served_model, visit) in enumerate(build_served_models()):
            with serve(served_model, folder, str(place)) as root:
                for scheme in schemes:
                    for size, (width, height) in SIZES.items():
                        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                        visit(Camera(page, size, scheme, names), root)
                        page.close()
