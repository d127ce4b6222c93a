"""All that a search for counterfactuals can be told beside k, budget and seed.

``ChangeArguments`` names the keyword arguments that the methods of the explainer have in common, and says what they
mean; ``ChangeOptions`` holds them checked. The methods, the command line and the server pass this value on, and its
defaults are theirs.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, cast, get_args

from ironrule.errors import InputError, describe_value
from ironrule.explain.options import as_list, parse_names, parse_ranges
from ironrule.model.joint_model import parse_margin
from ironrule.model.target import Target, parse_target
from ironrule.other_packages import build_keyword_error
from ironrule.rule.cost import DEFAULT_COST, Cost, parse_cost
from ironrule.rule.counterfactual import Goal
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value
from ironrule.space.space import as_constraint

if TYPE_CHECKING:
    from ironrule.oracles.protocol import UserOracle

CounterfactualAlgorithm = Literal["auto", "exact", "geco"]
COUNTERFACTUAL_ALGORITHMS: tuple[str, ...] = get_args(CounterfactualAlgorithm)
_Method = TypeVar("_Method", bound=Callable[..., Any])


class ChangeLimits(TypedDict, total=False):
    """What counterfactuals may change a feature to."""

    permitted_range: Mapping[str, Sequence[Value]] | None
    """Lowest and highest value, or the list of categories, by feature."""

    constraints: Sequence[str | Constraint]
    """Constraints on top of the explainer's own, such as ``"cf.age >= x.age"``."""


class ChangeGoal(TypedDict, total=False):
    """What counterfactuals must reach, and which is nearest."""

    cost: Cost | str
    """What nearest means: ``"fewest"`` changes and then least distance, or another sum over the changed features."""

    target: Any
    """The outcome to reach instead of the desired one: classes, a threshold, or a band of scores."""

    margin: float
    """Each stays desired although scores move by that."""

    models: Sequence[Any]
    """Further models that must desire each as well."""


class ChangeArguments(ChangeLimits, ChangeGoal, total=False):
    """What counterfactuals may change a feature to, and what they must reach."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ChangeOptions:
    """How counterfactuals are searched, and what they may change; raises InputError for what cannot be used."""

    algorithm: CounterfactualAlgorithm | UserOracle = "auto"
    features_to_vary: Sequence[str] | str = "all"
    permitted_range: Mapping[str, Sequence[Value]] | None = None
    constraints: Sequence[str | Constraint] = ()
    cost: Cost = DEFAULT_COST
    target: Target | None = None
    margin: float = 0.0
    models: Sequence[Any] = ()

    def __post_init__(self) -> None:
        searches = not isinstance(self.algorithm, (str, type)) and callable(getattr(self.algorithm, "find", None))
        if not searches and self.algorithm not in COUNTERFACTUAL_ALGORITHMS:
            raise InputError(
                expected=f"algorithm must be one of {', '.join(COUNTERFACTUAL_ALGORITHMS)}",
                got=describe_value(self.algorithm),
                hint="or pass an object such as GrowingSpheres()",
                code="unknown-algorithm",
            )
        if self.features_to_vary != "all":
            names = parse_names("features_to_vary", self.features_to_vary)
            object.__setattr__(self, "features_to_vary", names)
        object.__setattr__(self, "permitted_range", parse_ranges(self.permitted_range))
        object.__setattr__(self, "cost", parse_cost(self.cost))
        object.__setattr__(self, "target", parse_target(self.target))
        object.__setattr__(self, "margin", parse_margin(self.margin))
        object.__setattr__(self, "models", parse_models(self.models))
        object.__setattr__(self, "constraints", tuple(map(as_constraint, as_list(self.constraints))))

    @classmethod
    def from_arguments(
        cls,
        features_to_vary: Sequence[str] | str = "all",
        algorithm: CounterfactualAlgorithm | UserOracle = "auto",
        **options: Unpack[ChangeArguments],
    ) -> ChangeOptions:
        """The options that the arguments of a method mean."""
        unchecked: dict[str, Any] = dict(options)  # the value checks them when it is made
        return cls(algorithm=algorithm, features_to_vary=features_to_vary, **unchecked)

    @property
    def goal(self) -> Goal:
        """What must be reached, as results say it."""
        return Goal(self.target, self.margin, len(self.models))

    @property
    def is_robust(self) -> bool:
        """Whether counterfactuals must stay desired under more than the model as it is."""
        return self.margin > 0 or len(self.models) > 0

    def without_goal(self) -> ChangeOptions:
        """The options without what is to be reached, for a context whose desired outcome that is."""
        return replace(self, target=None, margin=0.0, models=())

    @property
    def may_extend_domains(self) -> bool:
        """Whether they may be searched for in other domains than those of the explainer."""
        limits = bool(self.permitted_range or self.constraints)
        return self.target is not None or self.is_robust or bool(self.cost.steps) or limits

    @property
    def oracle(self) -> UserOracle | None:
        """The oracle that was passed as the algorithm; None for one by name."""
        return None if isinstance(self.algorithm, str) else self.algorithm

    @property
    def names(self) -> tuple[str, ...] | None:
        """The features that may vary; None for all."""
        return None if isinstance(self.features_to_vary, str) else tuple(self.features_to_vary)

    def to_kwargs(self) -> dict[str, Any]:
        """The same by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def fingerprint(self) -> str:
        """A hash of all of it."""
        parts = self.to_kwargs() | {"constraints": [str(constraint) for constraint in self.constraints]}
        parts["models"] = len(self.models)  # what they decide is part of what a context is known by
        return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def expand_options(arguments: Any) -> Callable[[_Method], _Method]:
    """Give a method with ``**options: Unpack[arguments]`` a signature that names them one by one, with their defaults.

    So help and editors show them, and a name that is none of them is refused as in any other call.
    """
    defaults = {field.name: field.default for field in fields(ChangeOptions)}
    names = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind)
        for name, kind in _list_annotations(arguments).items()
    }

    def decorate(method: _Method) -> _Method:
        plain = inspect.signature(method)
        own = [parameter for parameter in plain.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        known = {parameter.name for parameter in own} | names.keys()

        @functools.wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs.keys() - known:
                raise build_keyword_error(method.__qualname__, name, known)
            return method(*args, **kwargs)

        checked.__signature__ = plain.replace(parameters=[*own, *names.values()])  # type: ignore[attr-defined]
        return cast(_Method, checked)

    return decorate


def _list_annotations(arguments: Any) -> dict[str, str]:
    """The types of the keys of a TypedDict, as they are written."""
    kinds = arguments.__annotations__.items()
    return {name: getattr(kind, "__forward_arg__", kind) for name, kind in kinds}


def parse_models(models: Any) -> tuple[Any, ...]:
    """Further models that must give the desired outcome; raises InputError unless they come in a list."""
    if models is None:
        return ()
    if not isinstance(models, (list, tuple)):
        got = describe_value(models) if isinstance(models, (str, bytes)) else type(models).__name__
        raise InputError(expected="models must be a list of further models", got=got)
    return tuple(models)
