"""Load an ONNX file as the class that reads it."""

from __future__ import annotations

from pathlib import Path

from ironrule.errors import InputError
from ironrule.model.wrappers.networks import OnnxNetwork
from ironrule.model.wrappers.onnx_files import load_onnx_file
from ironrule.model.wrappers.onnx_models import OnnxModel, ends_in_read_step


def load_onnx_model(source: str | Path | bytes) -> OnnxModel | OnnxNetwork:
    """A file as whichever class reads it: an OnnxModel by its last step, an OnnxNetwork of the classes 0 and 1 by its
    scores, or an OnnxModel that is asked.
    """
    if ends_in_read_step(load_onnx_file(source)):
        return OnnxModel(source)
    try:
        return OnnxNetwork(source)
    except InputError as error:
        try:
            return OnnxModel(source)
        except InputError:
            raise error from None
