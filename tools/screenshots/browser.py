"""The browser that draws pictures, and how they are kept small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parents[2] / "docs"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Chromium, which is closed in the end."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def shrink_picture(path: Path, colours: int, max_height: int | None = None) -> None:
    """Store a picture with few colours, which takes a quarter of the room; of a high one its beginning."""
    picture = Image.open(path).convert("RGB")
    if max_height is not None:
        picture = picture.crop((0, 0, picture.width, min(picture.height, max_height)))
    picture.quantize(colours).save(path, optimize=True)
