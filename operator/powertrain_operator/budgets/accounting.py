"""How a board counts against a cap: by its share, by what it draws idle, by what it could draw, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from powertrain.api.v1alpha1 import BoardState, PowerShare, ShareStatus
from powertrain.sharing import Demand

# Idle readings waver, and a window may be seen a little later than it was drawn.
IDLE_FACTOR, IDLE_EXTRA_W = 1.1, 0.5
# An idle board keeps its share while that is within these bounds of its power.
IDLE_KEPT = (1.02, 1.3)
IDLE_KEPT_W = 1.0
# Readings of a governed board so much above its share are more than noise: something else draws there.
NOISE_FACTOR = 1.03


@dataclass(frozen=True)
class Board:
    """One board of a budget, as its PowerNode, its Node and its job say."""

    name: str
    state: BoardState
    most_w: float  # what it could draw at most, by its job's limits or the catalogue
    share: PowerShare | None = None  # as written in the spec
    confirmed_share: ShareStatus | None = None  # as confirmed in the status
    idle_w: float | None = None  # the highest of its recent readings without a job
    drawn_w: float | None = None
    is_silent: bool = False
    is_writable: bool = True  # it has a PowerNode
    is_unsure: bool = False  # a write of the share may still be under way
    floor_w: float = 0.0  # what its job needs at least
    demand: Demand | None = None  # what its job could do with how many watts
    job: str = ""
    session: str = ""
    priority: int = 0
    came: tuple[str, ...] = ()  # orders jobs of one priority
    is_stopping: bool = False
    has_session: bool = False  # an envelope is written, or the agent still serves one: the job may draw
    reason: str = field(default="", compare=False)

    @property
    def is_confirmed(self) -> bool:
        """Say whether the agent keeps the very share that was written last."""
        share, confirmed_share = self.share, self.confirmed_share
        return (
            share is not None
            and confirmed_share is not None
            and (confirmed_share.revision, confirmed_share.watts) == (share.revision, share.watts)
        )

    @property
    def idle_allowance_w(self) -> float | None:
        """Return what a board without a job gets: its idle power with a margin; None while that is not known."""
        return None if self.idle_w is None else IDLE_FACTOR * self.idle_w + IDLE_EXTRA_W

    @property
    def reserved_w(self) -> float:
        """Return what the board may draw by all that was ever written for it and not yet taken back for certain."""
        share, confirmed_share = self.share, self.confirmed_share
        if share is None:
            allowance_w = None if self.has_session else self.idle_allowance_w
            return self.most_w if allowance_w is None else allowance_w
        if self.is_confirmed:
            return share.watts
        return max(share.watts, share.reserved_watts, confirmed_share.watts if confirmed_share is not None else 0.0)

    @property
    def counted_w(self) -> float:
        """Return what the board counts with: what is reserved, or what it was seen to draw beyond that."""
        if self.state is BoardState.OFF:
            return 0.0
        if self.state is BoardState.UNMANAGED:
            return self.most_w
        reserved_w = self.reserved_w
        if not self.has_session:
            return max(reserved_w, self.idle_w or 0.0)
        drawn_w = self.drawn_w or 0.0
        return max(reserved_w, drawn_w) if drawn_w > NOISE_FACTOR * reserved_w else reserved_w

    @property
    def resting_w(self) -> float:
        """Return what the board takes without a job; as long as that is not known, what it counts with.

        A share that is near enough stays: each change is a write.
        """
        idle_w, allowance_w, share = self.idle_w, self.idle_allowance_w, self.share
        if self.is_fixed or idle_w is None or allowance_w is None:
            return self.counted_w
        if share is not None and IDLE_KEPT[0] * idle_w <= share.watts <= IDLE_KEPT[1] * idle_w + IDLE_KEPT_W:
            return share.watts
        return allowance_w

    @property
    def waiting_w(self) -> float:
        """Return what the board takes while its job waits for power: no more than its lowest mode would.

        That bounds it also as long as nobody has seen the board idle.
        """
        return min(self.resting_w, self.floor_w) if self.floor_w > 0 and not self.is_fixed else self.resting_w

    @property
    def is_fixed(self) -> bool:
        """Say whether nothing that is written changes what it counts with: no agent is there to take it."""
        return self.is_silent or not self.is_writable or self.state in (BoardState.OFF, BoardState.UNMANAGED)


def total_counted_w(boards: Iterable[Board]) -> float:
    """Return what boards count with together."""
    return sum(board.counted_w for board in boards)
