"""The result for a flow."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from typing import Union

    import pyarrow

    # A dict without pyarrow. `Any` avoids a type check by every caller that has pyarrow.
    Columns = Union[pyarrow.Table, Any]


@dataclass(frozen=True)
class Measured:
    """A quantity measured several times; `float` gives the median."""

    median: float
    low: float
    """Lower end of a 95 % interval of the median."""
    high: float
    """Upper end of the interval."""
    count: int
    """Number of measurements."""

    def __float__(self) -> float:
        return self.median


@dataclass(frozen=True)
class Flow:
    """One direction of a TCP flow: the sender's most probable algorithm, and the evidence. Can be
    pickled."""

    file: str
    """The file that contains the flow."""
    anomalies: list[str] = field(repr=False)
    """Irregularities of the file that may affect the result, as sentences."""
    source: str | None
    """The sender, as `192.0.2.1:443` or `[2001:db8::1]:443`; None if the file does not contain
    it."""
    destination: str | None
    """The receiver, in the same form."""
    name: str | None
    """The kernel's name of the most probable algorithm; None if no algorithm can be named (see
    `because`)."""
    candidates: dict[str, float] = field(repr=False)
    """Probability of every algorithm tried, highest first. What is missing to 1 is that it is none
    of them."""
    set: list[str]
    """The algorithms that this flow cannot distinguish from `name`, starting with `name`; empty
    without a name."""
    because: str | None
    """Why there is no name, as a sentence."""
    evidence: list[str] = field(repr=False)
    """Why the flow is `name`, as sentences."""
    notes: list[str] = field(repr=False)
    """Irregularities of the flow that may affect the result, as sentences."""
    beta: Measured | None
    """Multiplicative decrease factor: the fraction of the window left after a loss, 0 to 1."""
    cubic_c: Measured | None
    """CUBIC's constant C (RFC 9438), fitted by least squares, segments/s³."""
    cubic_b: Measured | None = field(repr=False)
    """Coefficient b of CUBIC, s³/segment."""
    initial_window: float | None
    """Initial window: segments in the first flight."""
    capture_point: str
    """Capture point: `sender`, `receiver`, `middle`, `kernel` (the sender's own) or `unknown`."""
    losses: int
    """Window reductions with a visible cause."""
    timeouts: int = field(repr=False)
    """Reductions caused by a retransmission timeout."""
    seconds: float
    """Time from the first round to the last, s."""
    round_count: int = field(repr=False)
    """Number of rounds, including those of a very long flow that `rounds` omits."""
    window_median: float = field(repr=False)
    """Median window of the rounds, segments."""
    window_greatest: float = field(repr=False)
    """Largest window, segments."""
    rtt_median_us: int | None = field(repr=False)
    """Median of the rounds' mean RTT, µs."""
    min_rtt_us: int | None = field(repr=False)
    """Minimum RTT, µs."""
    mss_bytes: int = field(repr=False)
    """Payload of a full segment, bytes."""
    acked_bytes: int = field(repr=False)
    """Payload acknowledged, bytes."""
    segments: int = field(repr=False)
    """Segments with payload sent, including retransmissions."""
    retransmitted: int = field(repr=False)
    """Retransmitted segments."""
    kernel_name: str | None = field(repr=False)
    """The algorithm's name according to the sender's kernel, if the file contains it."""
    rounds: Columns = field(repr=False, compare=False)
    """The rounds; a round lasts from the transmission of a byte to its acknowledgement. Columns:
    `start_ns` and `end_ns` (clock of the capture), `window` (maximum in flight, segments),
    `predicted` (by the best candidate; null if it makes no prediction), `acked` (segments), `acks`,
    `rtt_{first,min,max,last,mean}_us`, `sent`, `retransmitted`, `ece` (ACKs with ECN-Echo),
    `limits` (what limited the sender besides its window: `application`, `receiver`, `recovery`). A
    pyarrow Table; without pyarrow a dict of lists."""
    reductions: Columns = field(repr=False, compare=False)
    """The reductions. Columns: `at_ns`, `over_ns` (loss repaired), `cause` (`recovery`, `timeout`,
    `ecn`), `before` and `after` (segments), `round` (the first one after it), `undone` (the sender
    undid it)."""

    @property
    def probability(self) -> float | None:
        """Probability of the best candidate, even if the flow has no name."""
        return next(iter(self.candidates.values()), None)

    def to_dict(self, *, rounds: bool = True) -> dict[str, Any]:
        """All fields as plain values for `json`; `rounds=False` omits rounds and reductions."""
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


def make(file: str, anomalies: list[str], fields: dict[str, Any]) -> Flow:
    """Builds a flow from the result of the compiled part."""
    for name in ("beta", "cubic_c", "cubic_b"):
        if fields[name] is not None:
            fields[name] = Measured(*fields[name])
    for name in ("rounds", "reductions"):
        fields[name] = columns(fields[name])
    return Flow(file=file, anomalies=anomalies, **fields)


def columns(given: _native.Columns) -> Columns:
    """A pyarrow Table (without copying), or a dict of lists if pyarrow is not installed."""
    try:
        import pyarrow
    except ImportError:
        return given.to_pydict()
    return pyarrow.table(given)
