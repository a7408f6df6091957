package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertTrue;

import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.os.SystemClock;
import android.view.KeyEvent;
import android.view.MotionEvent;
import android.view.View;
import android.view.accessibility.AccessibilityNodeInfo;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.annotation.Config;

/** The chart by itself: drawing, speed, touch, keyboard and screen readers. */
@RunWith(RobolectricTestRunner.class)
@Config(qualifiers = "w412dp-h892dp-port-notnight-420dpi")
public class ChartTest {
    private static final int WIDTH = 1080;
    private static final int HEIGHT = 2340;
    private static final double MAX_MS = 8;

    private static ChartView chart(Run run, Viewport viewport, int width, int height) {
        ChartView chart = new ChartView(Harness.context(), null);
        chart.show(run, viewport, null);
        chart.measure(View.MeasureSpec.makeMeasureSpec(width, View.MeasureSpec.EXACTLY),
                View.MeasureSpec.makeMeasureSpec(height, View.MeasureSpec.EXACTLY));
        chart.layout(0, 0, width, height);
        return chart;
    }

    /** One sample every 5 ms is more than any transfer of buffers produces. */
    private static Run tenMinutes() {
        return tenMinutes(5_000);
    }

    private static Run tenMinutes(int everyUs) {
        Run run = new Run(new Settings("h", 1, 64_000, 1, 600, "cubic", false), 0);
        Trace trace = new Trace(0);
        run.traces.add(trace);
        Random random = new Random(5);
        double window = 10;
        for (int i = 0; i < 600_000_000 / everyUs; i++) {
            long at = (long) i * everyUs;
            window += 0.4;
            if (window > 100 + random.nextInt(60)) {
                window *= 0.7;
                trace.retransmits.add(at, 1);
                trace.ssthresh.add(at, (float) window);
            }
            trace.cwnd.add(at, (float) window + random.nextInt(4));
            trace.rttMs.add(at, (float) window * 0.7f + random.nextInt(20));
            trace.rateMbps.add(at, 9 + random.nextFloat() * 4);
        }
        run.elapsedUs = 600_000_000;
        run.state = Run.State.SENDING;
        return run;
    }

    /** Measures the CPU time of this thread only, so that other load does not count. */
    private static double[] frames(Run run, String what) {
        Viewport viewport = new Viewport();
        viewport.showRtt = true;
        viewport.showSsthresh = true;
        viewport.cursorUs = 300_000_000;
        ChartView chart = chart(run, viewport, WIDTH, HEIGHT);
        Canvas canvas = new Canvas(Bitmap.createBitmap(WIDTH, HEIGHT, Bitmap.Config.ARGB_8888));
        java.lang.management.ThreadMXBean threads = java.lang.management.ManagementFactory.getThreadMXBean();
        int frames = 200;
        double[] ms = new double[frames];
        for (int i = -60; i < frames; i++) {
            // Each frame has new data, as during a transfer.
            long at = 600_000_000L + (i + 60) * 16_000L;
            run.traces.get(0).cwnd.add(at, 100 + i % 20);
            run.traces.get(0).rateMbps.add(at, 10);
            long began = threads.getCurrentThreadCpuTime();
            chart.draw(canvas);
            if (i >= 0) {
                ms[i] = (threads.getCurrentThreadCpuTime() - began) / 1e6;
            }
        }
        Arrays.sort(ms);
        System.out.printf("chart: %d x %d, %s, drawn by the CPU: median %.2f ms, p95 %.2f ms of %d frames%n",
                WIDTH, HEIGHT, what, ms[frames / 2], ms[frames * 95 / 100], frames);
        return ms;
    }

    @Test
    public void drawsTenMinutesInTime() {
        double[] dense = frames(tenMinutes(5_000), "120,000 samples in each of 3 series");
        double[] sparse = frames(tenMinutes(2_400_000), "250 buffers, joined by smooth lines until they get too many");
        assertTrue("the middle frame took " + dense[100] + " ms", dense[100] < MAX_MS);
        assertTrue("the middle frame took " + sparse[100] + " ms", sparse[100] < MAX_MS);
    }

    /** Counts drawing calls without drawing. */
    private static final class Counting extends Canvas {
        int bars;
        int texts;
        float lowest = Float.NEGATIVE_INFINITY;
        float highest = Float.POSITIVE_INFINITY;

        @Override
        public void drawRect(float left, float top, float right, float bottom, Paint paint) {
            bars++;
            lowest = Math.max(lowest, bottom);
            highest = Math.min(highest, top);
        }

        @Override
        public void drawLine(float x0, float y0, float x1, float y1, Paint paint) {}

        @Override
        public void drawText(char[] text, int from, int count, float x, float y, Paint paint) {
            texts++;
        }

        @Override
        public void drawText(String text, float x, float y, Paint paint) {
            texts++;
        }

        @Override
        public void drawPath(Path path, Paint paint) {}

        @Override
        public void drawCircle(float x, float y, float radius, Paint paint) {}

        @Override
        public void drawRoundRect(float left, float top, float right, float bottom, float rx, float ry, Paint paint) {}

        @Override
        public int save() {
            return 1;
        }

        @Override
        public void restoreToCount(int count) {}

        @Override
        public boolean clipRect(float left, float top, float right, float bottom) {
            return true;
        }
    }

    @Test
    public void theWorkIsThatOfTheWidthAndPeaksRemain() {
        Run run = tenMinutes();
        Viewport viewport = new Viewport();
        viewport.showRate = false;
        ChartView chart = chart(run, viewport, WIDTH, 1000);
        Counting plain = new Counting();
        chart.onDraw(plain);
        assertTrue(plain.bars + " bars for " + WIDTH + " pixels", plain.bars > WIDTH / 4 && plain.bars <= WIDTH);
        Run peak = tenMinutes();
        Trace trace = peak.traces.get(0);
        trace.cwnd.add(600_000_000, 100_000);
        trace.cwnd.add(600_000_001, 50);
        Counting with = new Counting();
        chart(peak, viewport, WIDTH, 1000).onDraw(with);
        // The scale follows the peak, so that the peak is drawn near the top and the rest at the bottom.
        assertTrue("one value of 120,000 is seen", with.lowest - with.highest > 700);
    }

    @Test
    public void drawingAllocatesNothing() {
        Viewport viewport = new Viewport();
        viewport.showRtt = true;
        viewport.showSsthresh = true;
        viewport.cursorUs = 300_000_000;
        ChartView chart = chart(tenMinutes(), viewport, WIDTH, HEIGHT);
        Counting canvas = new Counting();
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) java.lang.management.ManagementFactory.getThreadMXBean();
        long id = Thread.currentThread().getId();
        for (int i = 0; i < 2000; i++) {
            chart.onDraw(canvas);
        }
        long before = threads.getThreadAllocatedBytes(id);
        int frames = 500;
        long began = threads.getCurrentThreadCpuTime();
        for (int i = 0; i < frames; i++) {
            chart.onDraw(canvas);
        }
        System.out.printf("chart: %.2f ms of a frame are our own code%n", (threads.getCurrentThreadCpuTime() - began) / 1e6 / frames);
        long perFrame = (threads.getThreadAllocatedBytes(id) - before) / frames;
        // Robolectric itself allocates some objects for Android's native calls (paints and paths).
        long standIns = standIns(threads, id);
        System.out.printf("chart: %d bytes allocated per frame, %d of them by the stand-ins for native calls%n", perFrame, standIns);
        assertTrue(perFrame + " bytes per frame against " + standIns, perFrame <= standIns + 64);
    }

    /** The allocations of one frame's calls on paints and paths alone. */
    private static long standIns(com.sun.management.ThreadMXBean threads, long id) {
        Paint paint = new Paint();
        Path path = new Path();
        char[] text = "123".toCharArray();
        long before = 0;
        int frames = 500;
        for (int i = -2000; i < frames; i++) {
            if (i == 0) {
                before = threads.getThreadAllocatedBytes(id);
            }
            for (int n = 0; n < 60; n++) {
                paint.setColor(n);
                paint.setTextAlign(Paint.Align.LEFT);
                paint.measureText(text, 0, 3);
            }
            path.rewind();
            for (int n = 0; n < 1000; n++) {
                path.lineTo(n, n);
            }
        }
        return (threads.getThreadAllocatedBytes(id) - before) / frames;
    }

    private static void touch(View view, int action, float... xy) {
        long now = SystemClock.uptimeMillis();
        int count = xy.length / 2;
        MotionEvent.PointerProperties[] properties = new MotionEvent.PointerProperties[count];
        MotionEvent.PointerCoords[] coordinates = new MotionEvent.PointerCoords[count];
        for (int i = 0; i < count; i++) {
            properties[i] = new MotionEvent.PointerProperties();
            properties[i].id = i;
            properties[i].toolType = MotionEvent.TOOL_TYPE_FINGER;
            coordinates[i] = new MotionEvent.PointerCoords();
            coordinates[i].x = xy[2 * i];
            coordinates[i].y = xy[2 * i + 1];
            coordinates[i].pressure = 1;
            coordinates[i].size = 1;
        }
        MotionEvent event = MotionEvent.obtain(now, now, action, count, properties, coordinates, 0, 0, 1, 1, 0, 0, 0x1002, 0);
        view.onTouchEvent(event);
        event.recycle();
    }

    @Test
    public void twoFingersZoomOnePansTwoTapsShowAll() throws Exception {
        Run run = Harness.recorded();
        Viewport viewport = new Viewport();
        ChartView chart = chart(run, viewport, WIDTH, 1000);
        Harness.draw(chart);
        int second = MotionEvent.ACTION_POINTER_DOWN | 1 << MotionEvent.ACTION_POINTER_INDEX_SHIFT;
        touch(chart, MotionEvent.ACTION_DOWN, 450, 500);
        touch(chart, second, 450, 500, 650, 500);
        for (int i = 0; i <= 40; i++) {
            touch(chart, MotionEvent.ACTION_MOVE, 450 - 6 * i, 500, 650 + 6 * i, 500);
        }
        touch(chart, MotionEvent.ACTION_POINTER_UP | 1 << MotionEvent.ACTION_POINTER_INDEX_SHIFT, 210, 500, 890, 500);
        touch(chart, MotionEvent.ACTION_UP, 210, 500);
        long span = viewport.toUs(run) - viewport.fromUs(run);
        assertTrue("zoomed to " + span, !viewport.whole() && span < 30_000_000 && span > 1_000_000);
        long from = viewport.fromUs(run);
        Harness.draw(chart);
        touch(chart, MotionEvent.ACTION_DOWN, 800, 500);
        for (int i = 1; i <= 20; i++) {
            touch(chart, MotionEvent.ACTION_MOVE, 800 - 10 * i, 500);
        }
        touch(chart, MotionEvent.ACTION_UP, 600, 500);
        assertTrue("panned to later", viewport.fromUs(run) > from);
        assertEquals("as wide as before", span, viewport.toUs(run) - viewport.fromUs(run), 1);
        chart.onKeyDown(KeyEvent.KEYCODE_ESCAPE, new KeyEvent(KeyEvent.ACTION_DOWN, KeyEvent.KEYCODE_ESCAPE));
        assertTrue(viewport.whole());
    }

    @Test
    public void aCursorReadsValuesByFingerAndByKey() throws Exception {
        Run run = Harness.recorded();
        Viewport viewport = new Viewport();
        ChartView chart = chart(run, viewport, WIDTH, 1000);
        Harness.draw(chart);
        touch(chart, MotionEvent.ACTION_DOWN, 500, 500);
        for (int i = 1; i <= 20; i++) {
            touch(chart, MotionEvent.ACTION_MOVE, 500 + 5 * i, 500);
        }
        touch(chart, MotionEvent.ACTION_UP, 600, 500);
        long at = viewport.cursorUs;
        assertTrue("somewhere in the middle: " + at, at > 15_000_000 && at < 30_000_000);
        String spoken = chart.getContentDescription().toString();
        Trace trace = run.traces.get(0);
        assertTrue(spoken, spoken.contains(Quantity.time(at)));
        assertTrue(spoken, spoken.contains(Quantity.figure(trace.cwnd.at(at)) + " segments"));
        chart.onKeyDown(KeyEvent.KEYCODE_DPAD_RIGHT, new KeyEvent(KeyEvent.ACTION_DOWN, KeyEvent.KEYCODE_DPAD_RIGHT));
        assertTrue(viewport.cursorUs > at);
        assertNotEquals(spoken, chart.getContentDescription().toString());
    }

    @Test
    public void screenReadersGetASummaryAndActions() throws Exception {
        Run run = Harness.recorded();
        ChartView chart = chart(run, new Viewport(), WIDTH, 1000);
        AccessibilityNodeInfo info = AccessibilityNodeInfo.obtain();
        chart.onInitializeAccessibilityNodeInfo(info);
        String spoken = info.getContentDescription().toString();
        assertTrue(spoken, spoken.contains("congestion window now 81 segments, range 23 to 110")
                || spoken.contains("Congestion window now 81 segments, range 23 to 110"));
        assertTrue(spoken, spoken.contains("Points in time with retransmissions: "));
        List<Integer> actions = new ArrayList<>();
        for (AccessibilityNodeInfo.AccessibilityAction action : info.getActionList()) {
            actions.add(action.getId());
        }
        assertTrue(actions.containsAll(Arrays.asList(R.id.zoom_in, R.id.zoom_out, R.id.whole_run)));
        assertTrue(chart.performAccessibilityAction(R.id.zoom_in, null));
    }

    @Test
    public void marksStandWhereSegmentsWereSentAgain() throws Exception {
        Run run = Harness.recorded();
        int sum = 0;
        Series marks = run.traces.get(0).retransmits;
        for (int i = 0; i < marks.size(); i++) {
            sum += (int) marks.value(i);
        }
        assertEquals("as many as the engine's own sum at the last buffer", run.summary.totalRetrans, sum);
        Bitmap with = Harness.draw(chart(run, new Viewport(), WIDTH, 1000));
        int loss = Harness.context().getColor(R.color.loss);
        assertTrue(Harness.count(with, loss) > 200);
    }
}
