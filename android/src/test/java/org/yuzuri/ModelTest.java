package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.Test;

/** Series, scales and quantities: code that does not need Android. */
public class ModelTest {
    @Test
    public void extremesOfRangesAreThoseOfAWalk() {
        Random random = new Random(1);
        for (int round = 0; round < 50; round++) {
            Series series = new Series();
            int count = 1 + random.nextInt(3000);
            for (int i = 0; i < count; i++) {
                series.add(i * 10L, random.nextInt(10) == 0 ? Float.NaN : random.nextInt(1000));
            }
            for (int check = 0; check < 50; check++) {
                int from = random.nextInt(count);
                int to = from + random.nextInt(count - from + 1);
                float min = Float.POSITIVE_INFINITY;
                float max = Float.NEGATIVE_INFINITY;
                for (int i = from; i < to; i++) {
                    if (!Float.isNaN(series.value(i))) {
                        min = Math.min(min, series.value(i));
                        max = Math.max(max, series.value(i));
                    }
                }
                assertEquals(min, series.min(from, to), 0);
                assertEquals(max, series.max(from, to), 0);
            }
        }
    }

    @Test
    public void aFullSeriesThinsAndKeepsItsPeaks() {
        Random random = new Random(2);
        Series series = new Series();
        int count = Series.MAX * 3 + 17;
        int[] peaks = {5, 1000, Series.MAX - 1, Series.MAX + 3, count - 2};
        for (int i = 0; i < count; i++) {
            int at = i;
            boolean peak = Arrays.stream(peaks).anyMatch(p -> p == at);
            series.add(i, peak ? 1_000_000 + i : random.nextInt(1000));
        }
        assertTrue(series.size() <= Series.MAX);
        for (int peak : peaks) {
            int at = series.firstAt(peak, 0);
            assertEquals("the peak keeps its time", peak, series.timeUs(at));
            assertEquals(1_000_000 + peak, series.value(at), 0.5);
        }
        for (int i = 1; i < series.size(); i++) {
            assertTrue("in the order of time", series.timeUs(i - 1) <= series.timeUs(i));
        }
        assertEquals(series.max(0, series.size()), series.value(series.firstAt(count - 2, 0)), 0);
    }

    @Test
    public void timesNeverGoBack() {
        Series series = new Series();
        series.add(100, 1);
        series.add(50, 2);
        assertEquals(100, series.timeUs(1));
        assertEquals(2, series.at(100), 0);
        assertTrue(Float.isNaN(series.at(99)));
    }

    @Test
    public void scalesReachWhatTheyFitAndAreRound() {
        Random random = new Random(3);
        char[] out = new char[32];
        for (int i = 0; i < 10_000; i++) {
            double most = Math.exp(random.nextDouble() * 25 - 4);
            int divisions = 2 + random.nextInt(4);
            Axis axis = new Axis();
            axis.fit(most, divisions);
            assertTrue(most + " fits under " + axis.top(), axis.top() >= most);
            assertTrue(axis.top() + " is not far above " + most, axis.top() <= Math.max(most, 1e-3) * 2.05);
            for (int line = 0; line <= divisions; line++) {
                int length = axis.label(line, out);
                double said = Double.parseDouble(new String(out, 0, length));
                assertEquals("the label says where the line is", axis.step * line, said, axis.step * 0.011 + 0.0006);
            }
        }
    }

    private static String time(double s, double step) {
        char[] out = new char[32];
        return new String(out, 0, Axis.time(s, step, out));
    }

    @Test
    public void timesOnTheAxis() {
        assertEquals("12", time(12, 5));
        assertEquals("1:30", time(90, 30));
        assertEquals("1:02:30", time(3750, 30));
        assertEquals("0.5", time(0.5, 0.5));
        assertEquals("0.25", time(0.25, 0.05));
        assertEquals("2.5", time(2.5, 2.5));
        assertEquals(60, Axis.niceTime(31), 0);
        assertEquals(7200, Axis.niceTime(5400), 0.1 + 7200);
    }

    @Test
    public void bytesAsPeopleWriteThem() {
        assertEquals(1_000_000, Quantity.bytes("1 MB"));
        assertEquals(1_000_000, Quantity.bytes("1000000"));
        assertEquals(64_000, Quantity.bytes("64k"));
        assertEquals(4 << 20, Quantity.bytes(" 4MiB "));
        assertEquals(1_500_000, Quantity.bytes("1.5mb"));
        for (String wrong : new String[] {"", "x", "-1", "1 PB", "1..2", ".", "1e9", "MB"}) {
            assertEquals(wrong, -1, Quantity.bytes(wrong));
        }
        for (long bytes : new long[] {1, 999, 1000, 64_000, 65_536, 1_000_000, 1 << 20, 4 << 20, 250_000, 1L << 30}) {
            assertEquals("what is shown can be entered", bytes, Quantity.bytes(Quantity.ofBytes(bytes)));
        }
        assertEquals("1 MB", Quantity.ofBytes(1_000_000));
        assertEquals("64 KiB", Quantity.ofBytes(65_536));
    }

    @Test
    public void timesInWords() {
        assertEquals("12.3 s", Quantity.time(12_345_678));
        assertEquals("1:00", Quantity.time(60_000_000));
        assertEquals("1:00", Quantity.time(59_999_999));
        assertEquals("1:01:01", Quantity.time(3_661_000_000L));
    }

    @Test
    public void controlsOfTheKernelsList() {
        assertEquals(Arrays.asList("reno", "cubic"), Controls.parse("reno cubic reno\n"));
        assertTrue(Controls.parse("").isEmpty());
        assertTrue(Controls.parse("-C;rm averyverylongnameindeed").isEmpty());
    }

    @Test
    public void aZoomKeepsTheMomentInPlaceAndNeverLeavesTheRun() {
        Run run = new Run(new Settings("h", 1, 1, 1, 0, "", false), 0);
        run.elapsedUs = 100_000_000;
        run.state = Run.State.DONE;
        Viewport view = new Viewport();
        view.zoom(run, 4, 25_000_000);
        assertEquals(25_000_000, view.toUs(run) - view.fromUs(run));
        double place = (25_000_000 - view.fromUs(run)) / 25e6;
        assertEquals(0.25, place, 0.001);
        Random random = new Random(4);
        for (int i = 0; i < 10_000; i++) {
            if (random.nextBoolean()) {
                view.zoom(run, Math.exp(random.nextDouble() * 4 - 2), random.nextInt(120_000_000) - 10_000_000);
            } else {
                view.pan(run, random.nextInt(200_000_000) - 100_000_000);
            }
            assertTrue(view.fromUs(run) >= 0 && view.toUs(run) <= 100_000_000 && view.fromUs(run) < view.toUs(run));
        }
        view.zoom(run, 1e-9, 0);
        assertTrue(view.whole());
    }
}
