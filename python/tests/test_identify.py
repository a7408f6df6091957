"""Results for flows whose sender is known."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import captures
import pyarrow
import pytest
import yuzuri

ROUNDS = ["start_ns", "end_ns", "window", "predicted", "acked", "acks", "rtt_first_us", "rtt_min_us", "rtt_max_us", "rtt_last_us",
          "rtt_mean_us", "sent", "retransmitted", "ece", "limits"]
TURNS = ["at_ns", "over_ns", "cause", "before", "after", "round", "undone"]


@pytest.fixture(scope="module")
def flow(reno: Path) -> yuzuri.Flow:
    (flow,) = yuzuri.identify(reno)
    return flow


def test_reno_is_named(flow: yuzuri.Flow) -> None:
    assert (flow.source, flow.destination) == ("192.0.2.1:443", "198.51.100.7:50000")
    assert flow.name in flow.set
    assert "reno" in flow.set
    assert "cubic" not in flow.set
    assert flow.because is None
    assert flow.capture_point == "sender"
    assert flow.evidence
    assert flow.mss_bytes == captures.MSS
    assert flow.initial_window == pytest.approx(10, abs=1)
    assert flow.seconds == pytest.approx(30, abs=1)
    assert float(flow.beta) == flow.beta.median == pytest.approx(0.5, abs=0.05)
    assert flow.beta.low <= flow.beta.median <= flow.beta.high
    assert flow.beta.count > 3


def test_cubic_is_named(cubic: Path) -> None:
    (flow,) = yuzuri.identify(str(cubic))
    assert flow.name == flow.set[0] == "cubic"
    assert flow.file == str(cubic)
    assert flow.beta.median == pytest.approx(0.7, abs=0.05)


def test_candidates_come_best_first(flow: yuzuri.Flow) -> None:
    probabilities = list(flow.candidates.values())
    assert len(probabilities) > 10
    assert probabilities == sorted(probabilities, reverse=True)
    # The remaining probability is that of an unknown algorithm.
    assert 0.5 < sum(probabilities) < 1
    assert flow.probability == probabilities[0] == flow.candidates[flow.name]


def test_rounds_hold_what_was_sent(flow: yuzuri.Flow, reno_packets: list) -> None:
    assert isinstance(flow.rounds, pyarrow.Table)
    assert flow.rounds.column_names == ROUNDS
    assert len(flow.rounds) == flow.round_count
    rounds = flow.rounds.to_pydict()
    assert rounds["start_ns"] == sorted(rounds["start_ns"])
    assert captures.START_NS <= rounds["start_ns"][0] < rounds["end_ns"][-1] <= captures.START_NS + 32e9
    data = sum(packet[1] for packet in reno_packets)
    assert flow.segments == data
    assert sum(rounds["sent"]) + sum(rounds["retransmitted"]) == pytest.approx(data, rel=0.02)
    assert sum(rounds["retransmitted"]) == flow.retransmitted > 0
    # The capture is the sender's: RTTs range from an empty queue to a full one.
    assert flow.min_rtt_us == pytest.approx(50_000, rel=0.05)
    assert max(filter(None, rounds["rtt_max_us"])) == pytest.approx(100_000, rel=0.1)
    assert 60 < flow.window_greatest == max(rounds["window"]) < 200


def test_the_foreseen_window_is_near_and_has_gaps(flow: yuzuri.Flow) -> None:
    pairs = list(zip(flow.rounds["window"].to_pylist(), flow.rounds["predicted"].to_pylist()))
    known = [(window, predicted) for window, predicted in pairs if predicted is not None]
    assert len(pairs) > len(known) > len(pairs) / 2
    assert sum(abs(window - predicted) for window, predicted in known) / len(known) < 3


def test_turns(flow: yuzuri.Flow) -> None:
    assert flow.reductions.column_names == TURNS
    assert len(flow.reductions) == flow.losses > 5
    assert set(flow.reductions["cause"].to_pylist()) == {"recovery"}
    for reduction in flow.reductions.to_pylist():
        assert reduction["at_ns"] < reduction["over_ns"]
        assert reduction["after"] < reduction["before"]
        assert flow.rounds["start_ns"][reduction["round"]].as_py() >= reduction["at_ns"]


def test_rounds_have_their_limits(flow: yuzuri.Flow) -> None:
    limits = flow.rounds["limits"].to_pylist()
    assert {word for words in limits for word in words} <= {"application", "receiver", "recovery"}
    assert sum("recovery" in words for words in limits) >= flow.losses


def test_to_dict_is_json(flow: yuzuri.Flow) -> None:
    plain = json.loads(json.dumps(flow.to_dict(), allow_nan=False))
    assert plain["name"] == flow.name
    assert plain["beta"]["median"] == flow.beta.median
    assert plain["rounds"]["window"] == flow.rounds["window"].to_pylist()
    assert list(plain["reductions"]) == TURNS
    few = flow.to_dict(rounds=False)
    assert few == {name: value for name, value in flow.to_dict().items() if name not in ("rounds", "reductions")}


def test_a_flow_can_be_pickled(flow: yuzuri.Flow) -> None:
    again = pickle.loads(pickle.dumps(flow))
    assert again == flow
    assert again.rounds.equals(flow.rounds)
    assert again.reductions.equals(flow.reductions)


def test_short_flows_are_left_out(reno: Path, flow: yuzuri.Flow) -> None:
    assert yuzuri.identify(reno, min_segments=flow.segments + 1) == []
    assert len(yuzuri.identify(reno, min_segments=flow.segments)) == 1


def test_a_flow_that_is_too_short_has_no_name(tmp_path: Path) -> None:
    short = captures.write(tmp_path / "short.pcap", captures.download(captures.Reno(), seconds=0.12))
    (flow,) = yuzuri.identify(short, min_segments=1)
    assert flow.name is None
    assert flow.set == []
    assert "rounds" in flow.because or "initial window" in flow.because


def test_without_pyarrow_columns_are_lists(reno: Path, flow: yuzuri.Flow) -> None:
    program = """
import json, sys
sys.modules["pyarrow"] = None
import yuzuri
(flow,) = yuzuri.identify(sys.argv[1])
try:
    yuzuri.table(sys.argv[1])
    error = None
except ImportError as failed:
    error = str(failed)
print(json.dumps([flow.rounds, flow.reductions, flow.to_dict(), error]))
"""
    done = subprocess.run([sys.executable, "-c", program, reno], check=True, stdout=subprocess.PIPE, timeout=120)
    rounds, reductions, plain, error = json.loads(done.stdout)
    assert rounds == flow.rounds.to_pydict()
    assert reductions == flow.reductions.to_pydict()
    assert plain["rounds"] == rounds
    assert "pip install pyarrow" in error
