"""Checks of the soak: slopes, the page's table and account, recordings."""

import json
import math
import statistics
import urllib.parse
import urllib.request

DAY_S = 86400
# The line is fitted through the medians of this many intervals: single values are correlated in
# time, medians hardly.
STRETCHES = 48


def slope(times_s, values):
    """Theil-Sen estimator: the median of all pairwise slopes, with a 95 % interval by Kendall's
    statistic (Sen 1968, corrected for ties). Per second; `None` for fewer than ten values.

    That interval assumes values that vary about a line. Memory also moves in steps and stays there:
    a buffer grows once, and one step in the middle would be a slope for certain. So the interval
    begins no higher than that of the mean step from one interval to the next."""
    if len(values) < 10:
        return None
    if len(values) > STRETCHES:
        edges = [len(values) * n // STRETCHES for n in range(STRETCHES + 1)]
        cut = [slice(a, b) for a, b in zip(edges, edges[1:])]
        times_s = [statistics.median(times_s[c]) for c in cut]
        values = [statistics.median(values[c]) for c in cut]
    n = len(values)
    slopes = sorted((values[j] - values[i]) / (times_s[j] - times_s[i]) for i in range(n) for j in range(i + 1, n))
    ties = sum(count * (count - 1) * (2 * count + 5) for count in (values.count(v) for v in set(values)))
    sigma = math.sqrt(max(n * (n - 1) * (2 * n + 5) - ties, 0) / 18)
    reach = 1.96 * sigma
    low = max(math.floor((len(slopes) - reach) / 2), 0)
    high = min(math.ceil((len(slopes) + reach) / 2), len(slopes) - 1)
    steps = [(b - a) / (t - s) for a, b, s, t in zip(values, values[1:], times_s, times_s[1:])]
    least_mean_step = statistics.mean(steps) - 1.96 * statistics.stdev(steps) / math.sqrt(len(steps))
    return statistics.median(slopes), min(slopes[low], least_mean_step), slopes[high]


def judge_slope(found, max_per_day):
    """Returns held or failed if the whole interval is on one side of the limit, otherwise
    undecided."""
    if found is None:
        return "undecided"
    _, low, high = (per_s * DAY_S for per_s in found)
    return "held" if high < max_per_day else "failed" if low > max_per_day else "undecided"


class Page:
    """The page as a browser accesses it: at the printed address, whose fragment contains the
    token."""

    def __init__(self, url):
        root, _, fragment = url.partition("#")
        self.root = root.rstrip("/")
        self.headers = {}
        if token := dict(urllib.parse.parse_qsl(fragment)).get("token"):
            self.headers["Authorization"] = f"Bearer {token}"
        self.open("/", 10).read()

    def open(self, path, seconds):
        return urllib.request.urlopen(urllib.request.Request(self.root + path, headers=self.headers), timeout=seconds)

    def session(self, seconds):
        return json.load(self.open("/api/session", seconds))

    def look(self, seconds=20):
        """Reads the complete table and the account: (identities, rows, account)."""
        stream = self.open("/api/live", seconds)
        rows = account = None
        name = ""
        with stream:
            for line in stream:
                text = line.decode().rstrip("\n")
                if text.startswith("event:"):
                    name = text[6:].strip()
                elif text.startswith("data:") and name == "rows" and rows is None:
                    message = json.loads(text[5:])
                    rows = message if message["all"] else rows
                elif text.startswith("data:") and name == "status":
                    account = json.loads(text[5:])
                if rows is not None and account is not None:
                    return rows["flows"], rows["rows"], account
        raise OSError("the page ended the stream before it gave the table")


# Column indices of a row (crates/yuzuri-web/src/fields.rs).
ROW_ID, ROW_CLOSED = 0, 21


def open_flows(rows):
    """Cookies of the rows that the page shows as open."""
    return {int(row[ROW_ID], 16) for row in rows if row[ROW_CLOSED] is None}


class Ghosts:
    """Flows that a table shows but the kernel no longer has. A close in progress, or one that a
    stopped process reports late, does not count: only a flow that persists for longer than
    `timeout_s` does."""

    def __init__(self, timeout_s):
        self.timeout_s, self.since, self.most, self.looks, self.compared, self.found = timeout_s, {}, 0, 0, 0, set()

    def look(self, now_s, shown, there):
        missing = shown - there
        self.since = {flow: self.since.get(flow, now_s) for flow in missing}
        self.found |= {flow for flow, since in self.since.items() if now_s - since > self.timeout_s}
        self.most = max(self.most, len(missing))
        self.looks += 1
        self.compared += len(shown)


def account_of(rows):
    """(seen, kept, lost) of the last account in a recording's rows, and its time."""
    last, sums = None, None
    for row in rows:
        if row["kind"] != "account":
            continue
        if row["mono_ns"] != last:
            last, sums = row["mono_ns"], [0, 0, 0]
        for place, field in enumerate(("seen", "kept", "lost")):
            sums[place] += row.get(field) or 0
    return last, sums
