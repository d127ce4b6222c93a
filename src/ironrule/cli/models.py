"""Model files: skops by default, which loads only types that are trusted; ONNX, which holds no code; pickle and joblib
only on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ironrule.cli.existing import existing
from ironrule.errors import InputError, IronruleError, MissingExtraError, OutcomeError

PICKLES = (".pkl", ".pickle", ".joblib")


def read_model(path: Path, trust: Sequence[str] = (), trust_pickle: bool = False) -> Any:
    """The model in a file; raises InputError if it cannot be had, or not without trusting it first."""
    existing(path, "model file", "check the path, or save one: skops.io.dump(model, 'model.skops')")
    ending = path.suffix.lower()
    if ending == ".skops":
        return _read_skops(path, trust)
    if ending == ".onnx":
        return _read_onnx(path)
    if ending not in PICKLES:
        raise InputError(
            expected=f"the model file must end in one of .skops, .onnx, {', '.join(PICKLES)}", got=repr(path.name)
        )
    if not trust_pickle:
        raise InputError(
            f"{path.name} is a pickle, and loading one can run any code that its author put in it",
            hint="add --trust-pickle if you trust it, or have the model saved as .skops",
            code="untrusted-pickle",
        )
    return _read_pickle(path)


def _read_skops(path: Path, trust: Sequence[str]) -> Any:
    try:
        from skops import io
    except ImportError:
        raise MissingExtraError("skops", "skops", "reading a .skops file") from None
    try:
        untrusted = sorted(set(io.get_untrusted_types(file=path)) - set(trust))
        if not untrusted:
            return io.load(path, trusted=list(trust))
    except Exception as error:  # a broken file fails in as many ways as there are bytes
        raise _unreadable(path, error) from error
    raise InputError(
        f"{path.name} has types that are not trusted: {', '.join(untrusted)}",
        hint=f"if you trust them, add --trust {' '.join(untrusted)}",
        code="untrusted-types",
    )


def _read_onnx(path: Path) -> Any:
    """A classifier of the classes 0 and 1."""
    from ironrule.model import OnnxNetwork

    try:
        return OnnxNetwork(path)
    except IronruleError:
        raise
    except Exception as error:  # as with any broken file
        raise _unreadable(path, error) from error


def _read_pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)
    except (Exception, SystemExit) as error:  # a pickle can raise whatever it likes, and can end the program
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> InputError:
    text = str(error).strip().partition("\n")[0]
    return InputError(f"cannot load the model in {path.name}: {type(error).__name__}: {text}")


def desired_of(labels: Sequence[str] | None, model: Any) -> Any:
    """The desired classes, given as strings, in the model's own type; raises OutcomeError for an unknown one."""
    if labels is None:
        return None
    known = getattr(model, "classes_", None)
    if known is None:
        return tuple(_number_or_text(label) for label in labels)
    by_text = {str(label): label for label in known}
    unknown = [label for label in labels if label not in by_text]
    if unknown:
        raise OutcomeError(expected=f"the desired class must be one of {', '.join(by_text)}", got=repr(unknown[0]))
    return tuple(by_text[label] for label in dict.fromkeys(labels))


def _number_or_text(label: str) -> Any:
    for number in (int, float):
        try:
            return number(label)
        except ValueError:
            continue
    return label
