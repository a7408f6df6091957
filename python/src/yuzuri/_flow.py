"""What is said of a flow."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from typing import Union

    import pyarrow

    # A dict where there is no pyarrow; `Any` so that whoever has it need not ask each time.
    Columns = Union[pyarrow.Table, Any]


@dataclass(frozen=True)
class Measured:
    """A quantity measured several times; `float` gives the median."""

    median: float
    low: float
    """Lower end of a 95 % interval of the median."""
    high: float
    """Its upper end."""
    count: int
    """Measurements."""

    def __float__(self) -> float:
        return self.median


@dataclass(frozen=True)
class Flow:
    """One direction of a TCP flow: what its sender seems to run, and why. It can be pickled."""

    file: str
    """The file it was found in."""
    oddities: list[str] = field(repr=False)
    """What is odd about the file and may spoil the answer, in words."""
    source: str | None
    """Who sent, as `192.0.2.1:443` or `[2001:db8::1]:443`; None where the file does not say it."""
    destination: str | None
    """To whom."""
    name: str | None
    """The most probable congestion control by the kernel's name; None where none can be named: `because` says why."""
    candidates: dict[str, float] = field(repr=False)
    """All that were tried, with their probabilities, the best first."""
    set: list[str]
    """All that the flow does not tell apart from `name`, itself first; empty without a name."""
    because: str | None
    """Why there is no name, in words."""
    evidence: list[str] = field(repr=False)
    """Why it is `name`, in words."""
    notes: list[str] = field(repr=False)
    """What was odd about the flow and may spoil the answer, in words."""
    beta: Measured | None
    """Part of the window that was kept after a loss, 0 to 1."""
    cubic_c: Measured | None
    """C of CUBIC by least squares, segments/s³ (RFC 9438)."""
    cubic_b: Measured | None = field(repr=False)
    """b of CUBIC, s³/segment."""
    initial_window: float | None
    """Segments of the first flight."""
    capture_point: str
    """Where the flow was watched: `sender`, `receiver`, `middle`, `kernel` (of the sender itself) or `unknown`."""
    losses: int
    """Reductions of the window with a visible cause."""
    timeouts: int = field(repr=False)
    """Of these, retransmission timeouts."""
    seconds: float
    """From the first to the last round."""
    round_count: int = field(repr=False)
    """Rounds, also those of a very long flow that are not kept in `rounds`."""
    window_median: float = field(repr=False)
    """Median of the rounds' windows, segments."""
    window_greatest: float = field(repr=False)
    """The greatest, segments."""
    rtt_median_us: int | None = field(repr=False)
    """Median of the rounds' mean round-trip times, µs."""
    min_rtt_us: int | None = field(repr=False)
    """Least round-trip time, µs."""
    mss_bytes: int = field(repr=False)
    """Bytes of a full segment."""
    acked_bytes: int = field(repr=False)
    """Payload acknowledged, bytes."""
    segments: int = field(repr=False)
    """Segments with payload that were sent, again or not."""
    retransmitted: int = field(repr=False)
    """Of these, again."""
    kernel_name: str | None = field(repr=False)
    """What the sender's own kernel calls its congestion control, where the file says it."""
    rounds: Columns = field(repr=False, compare=False)
    """Round by round (one is from sending a byte to its acknowledgement): `start_ns`, `end_ns` of the capture's clock,
    `window` (most in flight, segments), `predicted` (by the best candidate; null where it foresees none), `acked`
    (segments), `acks`, `rtt_{first,min,max,last,mean}_us`, `sent`, `retransmitted`, `ece` (ACKs with ECN-Echo), `limits`
    (what held the sender back beside its window: `application`, `receiver`, `recovery`). A pyarrow Table; without pyarrow
    a dict of lists."""
    reductions: Columns = field(repr=False, compare=False)
    """The reductions: `at_ns`, `over_ns` (repaired), `cause` (`recovery`, `timeout`, `ecn`), `before` and `after`
    (segments), `round` (the first one after it), `undone` (the sender took it back)."""

    @property
    def probability(self) -> float | None:
        """Of the best candidate, named or not."""
        return next(iter(self.candidates.values()), None)

    def to_dict(self, *, rounds: bool = True) -> dict[str, Any]:
        """Everything as plain values that `json` can write; without `rounds` neither these nor the reductions."""
        plain: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name in ("rounds", "reductions"):
                if not rounds:
                    continue
                if not isinstance(value, dict):
                    value = value.to_pydict()
            elif isinstance(value, Measured):
                value = dataclasses.asdict(value)
            plain[each.name] = value
        return plain


def make(file: str, oddities: list[str], fields: dict[str, Any]) -> Flow:
    """A flow of what the compiled part says of it."""
    for name in ("beta", "cubic_c", "cubic_b"):
        if fields[name] is not None:
            fields[name] = Measured(*fields[name])
    for name in ("rounds", "reductions"):
        fields[name] = columns(fields[name])
    return Flow(file=file, oddities=oddities, **fields)


def columns(given: _native.Columns) -> Columns:
    """A pyarrow Table where pyarrow is, without copying; a dict of lists where it is not."""
    try:
        import pyarrow
    except ImportError:
        return given.to_pydict()
    return pyarrow.table(given)
