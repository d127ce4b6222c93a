"""Whether an object is of a library's own class, with that library's own methods.

A reader looks at what a model was fitted to (trees, coefficients, tables), not at the code that uses it. That tells
what the model decides only if the code is the library's. A subclass may override ``predict``; a method may have been
assigned on one object, or on the class. All three are found here:

- the class must be the one that stands under its own name in its own module, and that module must be the library's;
- no attribute of the object may hide a method of its class;
- every method of the class and of its bases must be defined in a module of a library that is known here. Wrappers
  (``functools.wraps``, scikit-learn's ``available_if``, properties, class methods) are looked through, and a function's
  module is that of its global names, which no wrapper can copy.

What a fitted object holds (members of an ensemble, boosters, label encoders, losses) is looked at in the same way.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import numpy as np

from ironrule.model.protocol import Unreadable

LIBRARIES = frozenset(("sklearn", "xgboost", "lightgbm", "catboost", "_catboost", "interpret", "pygam", "ironrule"))
COMPILED_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
# Methods that no answer of a fitted model depends on; tools for tracking experiments replace some of them.
IGNORED_METHODS = frozenset(("fit", "fit_predict", "fit_transform", "partial_fit", "score", "__init__", "__repr__"))
HEAP_TYPE_FLAG = 1 << 9  # the flag of classes whose attributes can be set: those made in Python, not compiled ones
# An unfitted template, or what a selection of columns was made by.
TEMPLATE_ATTRIBUTES = frozenset(("estimator_",))


def get_library_class_name(thing: Any, library: str) -> str:
    """The name of an object's class if that is the library's own; empty for any other class, and for subclasses."""
    if library not in LIBRARIES:  # the checks below would pass over its objects
        raise ValueError(f"{library!r} must be in LIBRARIES before its models are read")
    kind = type(thing)
    return kind.__name__ if _get_root_package(kind.__module__) == library and _is_registered(kind) else ""


def require_own_methods(*things: Any, deep: bool = True) -> None:
    """Raise Unreadable unless these objects are of their libraries' own classes and have their libraries' own methods;
    and with ``deep`` the library objects, too, that they were fitted to hold.
    """
    seen_objects: set[int] = set()
    seen_classes: set[type] = set()
    pending = list(things)
    while pending:  # objects still to be looked at: those that were passed, then what they hold
        thing = pending.pop()
        if id(thing) in seen_objects or not _is_of_library(type(thing)):
            continue
        seen_objects.add(id(thing))
        if type(thing) not in seen_classes:
            seen_classes.add(type(thing))
            _require_own_class(type(thing))
        _require_no_hidden_method(thing)
        pending += _iterate_fitted(thing) if deep else ()


def require_same_labels(listed: Any, answered: Any) -> None:
    """Raise Unreadable unless the classes that a model lists are those that it answers with."""
    if np.asarray(listed).tolist() != np.asarray(answered).tolist():
        raise Unreadable("the classes that the model lists (classes_) were replaced: it answers with other labels")


def _is_of_library(kind: type) -> bool:
    """Whether a class is a library's or derives from one."""
    return any(_get_root_package(base.__module__) in LIBRARIES for base in kind.__mro__)


def _get_root_package(module: str) -> str:
    return module.partition(".")[0]


def _is_registered(kind: type) -> bool:
    """Whether a class is the one that its module has under its name."""
    registered: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        registered = getattr(registered, name, None)
    return registered is kind


def _require_own_class(kind: type) -> None:
    base = next(base for base in kind.__mro__ if _get_root_package(base.__module__) in LIBRARIES)
    if base is not kind or not _is_registered(kind):
        raise Unreadable(
            f"{kind.__name__} is a subclass of {base.__name__} and may decide otherwise, so what it was fitted to does "
            f"not tell what it decides; pass an object of the library's own class to have it read"
            if base is not kind
            else f"{kind.__name__} is not the class of that name in {kind.__module__}; load the model again"
        )
    for each in kind.__mro__:  # of classes that were made in Python, and may have been changed since
        if each.__flags__ & HEAP_TYPE_FLAG and _get_root_package(each.__module__) not in sys.stdlib_module_names:
            for name, attribute in vars(each).items():
                if name not in IGNORED_METHODS and not _is_library_attribute(attribute, each):
                    _raise_replaced(name, kind)


def _raise_replaced(name: str, kind: type) -> None:
    raise Unreadable(
        f"the {name} of this {kind.__name__} was replaced, so what it was fitted to does not tell what it decides; "
        f"pass a model with the methods of its library to have it read"
    )


def _is_library_attribute(attribute: Any, owner: type) -> bool:
    """Whether an attribute of a class is no method, or one that is defined in a known library."""
    if isinstance(attribute, COMPILED_DESCRIPTORS):
        return issubclass(owner, attribute.__objclass__)
    if isinstance(attribute, type):
        return _is_known_module(attribute.__module__)
    parts = list(_iterate_functions(attribute))
    if parts:
        return all(_is_library_attribute(part, owner) for part in parts) and (
            not isinstance(attribute, FunctionType) or _is_known_module(attribute.__globals__.get("__name__", ""))
        )
    if hasattr(attribute, "__globals__"):  # a function, in Python or compiled
        return _is_known_module(attribute.__globals__.get("__name__", ""))
    if callable(attribute) or hasattr(type(attribute), "__get__"):
        own = getattr(attribute, "__module__", None) or type(attribute).__module__
        return all(map(_is_known_module, (type(attribute).__module__, own))) and not hasattr(attribute, "__self__")
    return True


def _iterate_functions(attribute: Any) -> Iterator[Any]:
    """The functions that a wrapper, a property or a descriptor calls."""
    if isinstance(attribute, property):
        yield from (part for part in (attribute.fget, attribute.fset, attribute.fdel) if part is not None)
    elif isinstance(attribute, classmethod | staticmethod):
        yield attribute.__func__
    elif isinstance(attribute, functools.cached_property | functools.partial | functools.partialmethod):
        yield attribute.func
    elif hasattr(attribute, "__wrapped__"):
        yield attribute.__wrapped__
    elif isinstance(getattr(attribute, "fn", None), FunctionType):  # scikit-learn's available_if
        yield attribute.fn


def _is_known_module(module: str | None) -> bool:
    root = _get_root_package(module or "")
    return root in LIBRARIES or root in sys.stdlib_module_names


def _require_no_hidden_method(thing: Any) -> None:
    for name in getattr(thing, "__dict__", {}):  # an attribute of the object with the name of a method hides it
        hidden = next((vars(base)[name] for base in type(thing).__mro__ if name in vars(base)), None)
        is_method = hasattr(type(hidden), "__get__") and not isinstance(hidden, functools.cached_property)
        if hidden is not None and is_method and name not in IGNORED_METHODS:
            _raise_replaced(name, type(thing))


def _iterate_fitted(thing: Any) -> Iterator[Any]:
    """The objects that an object was fitted to hold: of an estimator only private and fitted attributes, because its
    parameters are what it was to be made of.
    """
    estimator = hasattr(type(thing), "get_params")
    for name, value in getattr(thing, "__dict__", {}).items():
        if name not in TEMPLATE_ATTRIBUTES and (not estimator or name.startswith("_") or name.endswith("_")):
            yield from _iterate_library_objects(value)


def _iterate_library_objects(value: Any) -> Iterator[Any]:
    """The library objects in a value, which may be a container of containers."""
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist() if value.dtype == object else ()
    elif isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable) and isinstance(value, list | tuple | type({}.values())):
        for part in value:
            if not isinstance(part, str | int | float | None):
                yield from _iterate_library_objects(part)
    elif _is_of_library(type(value)):
        yield value
