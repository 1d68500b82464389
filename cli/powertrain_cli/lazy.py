"""Verbs that are imported when they are called, so that `powertrain --help` and completion stay fast."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from powertrain_cli.errors import MissingExtraError


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, the line that help shows for it (the first of its own help), and the module that mounts it.

    The module has a function `mount(root)`, or a Typer of its own under the name `app`.
    """

    name: str
    help: str
    module: str
    app: str | None = None
    # The extra that brings the module, where the product itself does not hold it.
    extra: str | None = None
    # The heading under which help lists it.
    group: str = "Cluster"

    def load(self) -> Any:
        """Import the verb's module and return its command."""
        root = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
        root.callback()(lambda: None)  # makes it a group even if the module mounts one verb only
        try:
            module = import_module(self.module)
        except ModuleNotFoundError as error:
            if self.extra is None or error.name != self.module.partition(".")[0]:
                raise
            raise MissingExtraError(
                f"`powertrain {self.name}` needs the extra {self.extra!r}: "
                f"pip install '.[{self.extra}]' or `make setup` in a checkout"
            ) from error
        if self.app:
            root.add_typer(getattr(module, self.app), name=self.name)
        else:
            module.mount(root)
        return typer.main.get_group(root).commands[self.name]


def group_of(verbs: tuple[Verb, ...]) -> type[TyperGroup]:
    """Return a group class whose verbs, added as placeholders by `add_placeholders`, load when they are resolved."""
    by_name = {verb.name: verb for verb in verbs}

    class LazyGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            return name, by_name[name].load() if name in by_name else command, rest

    return LazyGroup


def add_placeholders(app: typer.Typer, verbs: tuple[Verb, ...]) -> None:
    """Add each verb by name and help line."""
    for verb in verbs:
        app.command(verb.name, help=verb.help, rich_help_panel=verb.group)(lambda: None)
