"""The registry of model families."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.fuzz import boosted, exchanged, hostile, learned, written
from benchmarks.fuzz.data import Rng
from benchmarks.fuzz.drawing import draw_subject
from benchmarks.fuzz.recipes import Recipe
from benchmarks.fuzz.subjects import Subject


@dataclass(frozen=True, slots=True)
class Family:
    """One family: its name, how a subject is drawn, the libraries that it needs, and how often it has its turn."""

    name: str
    draw: Callable[[Rng], Subject]
    libraries: tuple[str, ...] = ()
    every: int = 1  # it has a case in every round whose number this divides

    @property
    def lacking(self) -> str | None:
        """Why the family cannot be drawn here; None if it can."""
        absent = [name for name in self.libraries if importlib.util.find_spec(name) is None]
        return f"{' and '.join(absent)} not installed" if absent else None


def registry() -> dict[str, Family]:
    """All families by name."""
    families = [_of_recipe(recipe) for recipe in (*learned.RECIPES, *boosted.RECIPES)]
    subjects = (*written.SUBJECTS, *exchanged.SUBJECTS, *hostile.SUBJECTS)
    families += [Family(name, draw, libraries) for name, draw, libraries in subjects]
    return {family.name: family for family in families}


def _of_recipe(recipe: Recipe) -> Family:
    return Family(recipe.name, lambda rng: draw_subject(rng, recipe), recipe.libraries, recipe.every)
