"""A property that is computed once per object: what functools has takes a lock at each first use, up to Python 3.11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class once(Generic[Owner, Value]):  # noqa: N801 (a decorator, used as functools' own)
    """Computes a value when it is first asked for and keeps it in the object, where Python finds it before this.

    Two threads that ask at the same moment may both compute it: it must follow from the object alone.
    """

    def __init__(self, compute: Callable[[Owner], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type[Owner], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Owner]) -> once[Owner, Value]: ...
    @overload
    def __get__(self, instance: Owner, owner: type[Owner]) -> Value: ...
    def __get__(self, instance: Any, owner: type[Owner]) -> Any:
        """Compute the value; the next look no longer comes here."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
