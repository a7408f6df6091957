"""Tests of the soak's checks: python3 -m unittest discover -s scripts/soak."""

import random
import unittest

from checks import DAY_S, Ghosts, account_of, judge_slope, slope


def hour(mb_per_day, noise_mb, seed):
    chance = random.Random(seed)
    times = [5.0 * n for n in range(720)]
    return times, [20 + mb_per_day * t / DAY_S + chance.uniform(-noise_mb, noise_mb) for t in times]


class Slopes(unittest.TestCase):
    def test_the_interval_holds_the_truth_as_often_as_it_says(self):
        for truth in (0.0, 0.5, 5.0):
            held = 0
            for seed in range(100):
                _, low, high = slope(*hour(truth, 0.01, seed))
                held += low * DAY_S <= truth <= high * DAY_S
            self.assertGreaterEqual(held, 88, truth)

    def test_a_leak_is_found_and_none_is_not(self):
        for seed in range(50):
            self.assertEqual(judge_slope(slope(*hour(0.2, 0.01, seed)), 1.0), "held")
            self.assertEqual(judge_slope(slope(*hour(5.0, 0.01, seed)), 1.0), "failed")

    def test_a_slope_that_is_unclear_is_undecided(self):
        # A slope exactly at the limit, with noise: one in twenty confidence intervals misses the
        # true value.
        output = [judge_slope(slope(*hour(1.0, 2.0, seed)), 1.0) for seed in range(50)]
        self.assertGreaterEqual(output.count("undecided"), 44)
        self.assertEqual(judge_slope(slope([1.0, 2.0], [1.0, 2.0]), 1.0), "undecided")

    def test_some_jumps_are_no_slope(self):
        times, values = hour(0.0, 0.01, 1)
        for place in range(0, 720, 50):
            values[place] += 30
        self.assertEqual(judge_slope(slope(times, values), 1.0), "held")

    def test_a_single_step_is_undecided_and_many_are_a_leak(self):
        times, values = hour(0.0, 0.01, 1)
        once = [value + (0.3 if n >= 360 else 0) for n, value in enumerate(values)]
        self.assertEqual(judge_slope(slope(times, once), 1.0), "undecided")
        # 6 MB a day.
        often = [value + 0.005 * (n // 15) for n, value in enumerate(values)]
        self.assertEqual(judge_slope(slope(times, often), 1.0), "failed")

    def test_what_never_moves_has_no_slope(self):
        self.assertEqual(slope([float(n) for n in range(100)], [5.0] * 100), (0.0, 0.0, 0.0))


class Tables(unittest.TestCase):
    def test_a_ghost_is_what_stays(self):
        ghosts = Ghosts(60)
        ghosts.look(0, {1, 2, 3}, {1, 2})
        ghosts.look(30, {1, 2}, {1})
        ghosts.look(60, {1, 2}, {1})
        self.assertEqual(ghosts.found, set())
        ghosts.look(91, {1, 2}, {1})
        self.assertEqual(ghosts.found, {2})
        self.assertEqual(ghosts.most, 1)

    def test_the_last_account_is_summed_over_its_rows(self):
        rows = [
            {"kind": "account", "mono_ns": 1, "seen": 9, "kept": 9},
            {"kind": "sample", "mono_ns": 2},
            {"kind": "account", "mono_ns": 3, "seen": 5, "kept": 4, "lost": 1},
            {"kind": "account", "mono_ns": 3, "seen": 7, "kept": 7},
            {"kind": "account", "mono_ns": 3, "lost": 2},
        ]
        self.assertEqual(account_of(rows), (3, [12, 11, 3]))


if __name__ == "__main__":
    unittest.main()
