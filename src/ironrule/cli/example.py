"""The bundled example as files, for trying the commands: data, a model, labels and a project file.

A folder with past loans, fresh loans to measure short rules on, a fitted model, labels, and the project file that names
them all. The model is that of the demo, trained on the past loans.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ironrule.cli.commands.demo import DESIRED_CLASS, make_boosting_model
from ironrule.cli.project import PROJECT_FILE, format_project
from ironrule.errors import InputError, MissingExtraError

DATA_FILE, FRESH_FILE, MODEL_FILE, LABELS_FILE = "loans.csv", "fresh.csv", "model.skops", "labels.toml"


def write_example(folder: Path) -> int:
    """Write the files into a folder, which must be new or empty; the number of a row of the data that is denied."""
    try:
        from skops import io
    except ImportError:
        raise MissingExtraError("skops", "skops", "the file of a model") from None
    from sklearn.model_selection import train_test_split

    from ironrule.data import GERMAN_TARGET, load_german

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "which has files in it" if folder.is_dir() else "which is a file"
        raise InputError(expected="the folder must be new or empty", got=f"{str(folder)!r}, {what}")
    features, target = load_german()
    past, fresh, past_target, fresh_target = train_test_split(features, target, train_size=0.5, random_state=0)
    model = make_boosting_model(list(features.select_dtypes(exclude="number").columns)).fit(past, past_target)

    folder.mkdir(parents=True, exist_ok=True)
    past.assign(**{GERMAN_TARGET: past_target}).to_csv(folder / DATA_FILE, index=False)
    fresh.assign(**{GERMAN_TARGET: fresh_target}).to_csv(folder / FRESH_FILE, index=False)
    io.dump(model, folder / MODEL_FILE)
    labels = files("ironrule.data").joinpath("german_labels.toml").read_text(encoding="utf-8")
    (folder / LABELS_FILE).write_text(labels, encoding="utf-8")
    settings = {
        "model": MODEL_FILE,
        "data": DATA_FILE,
        "target": GERMAN_TARGET,
        "desired": DESIRED_CLASS,
        "measure": FRESH_FILE,
        "labels": LABELS_FILE,
    }
    trusted = sorted(io.get_untrusted_types(file=folder / MODEL_FILE))
    (folder / PROJECT_FILE).write_text(
        format_project({**settings, **({"trust": trusted} if trusted else {})}), encoding="utf-8"
    )
    return int((model.predict(past) != DESIRED_CLASS).argmax())
