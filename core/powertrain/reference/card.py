"""ReferenceCard: what a reference was trained on, by what and how well; the JSON file beside its arrays."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from powertrain import __version__
from powertrain.modes import KNOBS
from powertrain.samples import SampleTable

SCHEMA_VERSION = 1
CARD_FILE = "reference.json"


class ReferenceError(ValueError):
    """A reference that is missing, damaged, too new or lacks a part; the message says which and what to do.

    Not the built-in of that name, which is about weak references: import it from here.
    """


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Extent(_Strict):
    """The measured range of one knob."""

    lowest: int
    highest: int
    steps: int


class ModelErrors(_Strict):
    """Mean absolute percentage errors of a model, and over which rows."""

    time_mape_pct: float
    power_mape_pct: float
    over: str


class ReferenceCard(_Strict):
    """The description of a reference. `network` is None for one without; errors are None until the part is trained."""

    schema_version: int = SCHEMA_VERSION
    name: str
    device: str | None
    workload: str
    batch_size: int
    rows: int
    data_sha256: str
    seed: int
    created_with: dict[str, str] = Field(default_factory=dict)
    space: dict[str, Extent]
    physics: ModelErrors | None = None
    network: ModelErrors | None = None
    notes: str = ""

    @property
    def version(self) -> str:
        """Return which reference of this name it is: the data it was made from, and the release that made it."""
        return f"{self.data_sha256[:12]}-{self.created_with.get('powertrain', 'unknown')}"

    @classmethod
    def of_table(
        cls, table: SampleTable, device: str | None, workload: str, seed: int, data_sha256: str
    ) -> ReferenceCard:
        """Describe a reference that is to be trained on this table (one batch size)."""
        return cls(
            name="-".join(part for part in (device, workload) if part),
            device=device,
            workload=workload,
            batch_size=table.batch_sizes()[0],
            rows=len(table),
            data_sha256=data_sha256,
            seed=seed,
            created_with={"powertrain": __version__},
            space={
                knob: Extent(lowest=int(values.min()), highest=int(values.max()), steps=len(set(values.tolist())))
                for knob, values in zip(KNOBS, table.matrix.T, strict=True)
            },
        )

    def write(self, directory: Path) -> None:
        """Write the card into a reference's folder."""
        (directory / CARD_FILE).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> ReferenceCard:
        """Read the card of a reference's folder."""
        path = directory / CARD_FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ReferenceError(f"{directory}: not a reference, it has no {CARD_FILE}") from None
        except (OSError, ValueError) as error:
            raise ReferenceError(f"{path}: can't be read ({error})") from None
        version = data.get("schema_version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise ReferenceError(
                f"{path}: schema version {version} is newer than this powertrain reads ({SCHEMA_VERSION}); upgrade it"
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise ReferenceError(f"{path}: {where}: {first['msg']}") from None
