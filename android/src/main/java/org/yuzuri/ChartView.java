package org.yuzuri;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.graphics.Typeface;
import android.os.Bundle;
import android.util.AttributeSet;
import android.util.TypedValue;
import android.view.GestureDetector;
import android.view.KeyEvent;
import android.view.MotionEvent;
import android.view.ScaleGestureDetector;
import android.view.View;
import android.view.accessibility.AccessibilityNodeInfo;
import android.view.accessibility.AccessibilityNodeInfo.AccessibilityAction;

/**
 * The chart: time along x, the congestion window on the left axis, the throughput on the right one, and if wanted ssthresh
 * (left axis) and the round-trip time (own labels at the same grid lines); a mark where segments were sent again. Two
 * fingers zoom, one pans, a tap puts a cursor, two taps show the whole run.
 */
public final class ChartView extends View {
    /** Told when the user changed what is looked at. */
    interface Listener {
        void viewportChanged();
    }

    private final Paint lines = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Paint grid = new Paint();
    private final Paint fill = new Paint();
    private final Paint text = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Paint shape = new Paint(Paint.ANTI_ALIAS_FLAG);
    private final Path triangle = new Path();
    private final Axis windowAxis = new Axis();
    private final Axis rateAxis = new Axis();
    private final Axis rttAxis = new Axis();
    private final char[] label = new char[32];
    private final GestureDetector gestures;
    private final ScaleGestureDetector pinch;

    private final int cwndColour = getContext().getColor(R.color.cwnd);
    private final int cwndText = getContext().getColor(R.color.cwnd_text);
    private final int rateColour = getContext().getColor(R.color.rate);
    private final int rateText = getContext().getColor(R.color.rate_text);
    private final int rateArea = getContext().getColor(R.color.rate_area);
    private final int ssthreshColour = getContext().getColor(R.color.ssthresh);
    private final int rttColour = getContext().getColor(R.color.rtt);
    private final int rttText = getContext().getColor(R.color.rtt_text);
    private final int lossColour = getContext().getColor(R.color.loss);
    private final int focusColour = getContext().getColor(R.color.focus);
    private final int gridColour = getContext().getColor(R.color.grid);
    private final int muted = getContext().getColor(R.color.muted);
    private final int panel = getContext().getColor(R.color.panel);
    private final int[] flowColours = getResources().getIntArray(R.array.flows);
    private final String cwndTitle = getContext().getString(R.string.cwnd) + " [" + getContext().getString(R.string.unit_segments) + "]";
    private final String rateTitle = getContext().getString(R.string.unit_mbps);
    private final String rttTitle = getContext().getString(R.string.rtt) + " [" + getContext().getString(R.string.unit_ms) + "]";
    private final String empty = getContext().getString(R.string.chart_empty);
    private final float dp = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_DIP, 1, getResources().getDisplayMetrics());
    private final Line line = new Line(Math.round(dp));
    private final float small = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, 11, getResources().getDisplayMetrics());

    private Run run;
    private Viewport viewport = new Viewport();
    private Listener listener;
    private android.text.StaticLayout emptyLayout;

    public ChartView(Context context, AttributeSet attributes) {
        super(context, attributes);
        lines.setStyle(Paint.Style.STROKE);
        lines.setStrokeJoin(Paint.Join.ROUND);
        lines.setStrokeCap(Paint.Cap.ROUND);
        text.setTypeface(Typeface.DEFAULT);
        text.setFontFeatureSettings("tnum");
        text.setTextSize(small);
        grid.setStrokeWidth(Math.max(Math.round(dp), 1));
        setFocusable(true);
        gestures = new GestureDetector(context, new Fingers());
        pinch = new ScaleGestureDetector(context, new Pinch());
    }

    void show(Run run, Viewport viewport, Listener listener) {
        this.run = run;
        this.viewport = viewport;
        this.listener = listener;
        invalidate();
    }

    /** The trace whose values are read: the one looked at, or the only one. */
    static Trace main(Run run, Viewport viewport) {
        if (run == null || run.traces.isEmpty()) {
            return null;
        }
        if (!run.watch()) {
            return run.traces.get(0);
        }
        for (int i = 0; i < run.traces.size(); i++) {
            if (run.traces.get(i).id == viewport.flow) {
                return run.traces.get(i);
            }
        }
        return null;
    }

    static Series rate(Run run, Trace trace) {
        return run.total() ? run.totalMbps : trace.rateMbps;
    }

    /** Whether windows of many flows are drawn, and nothing else. */
    private boolean many(Trace main) {
        return run != null && run.watch() && main == null;
    }

    // --- drawing ---

    @Override
    protected void onDraw(Canvas canvas) {
        Trace main = main(run, viewport);
        if (run == null || run.traces.isEmpty()) {
            drawEmpty(canvas);
        }
        boolean many = many(main);
        float titleRoom = small * 1.25f;
        float top = dp * 10 + titleRoom;
        float bottom = getHeight() - dp * 8 - small * 1.35f;
        int divisions = Math.max(Math.min((int) ((bottom - top) / (small * 3.4f)), 5), 2);
        fitAxes(main, divisions);
        float digit = text.measureText("0");
        float left = dp * 10 + Math.max(windowAxis.widest(label), 2) * digit + dp * 5;
        float right = getWidth() - dp * 10 - (many ? 0 : Math.max(rateAxis.widest(label), 2) * digit + dp * 5);
        if (right - left < 10 || bottom - top < 10) {
            return;
        }
        line.frame(left, top, right - left, bottom - top, viewport.fromUs(run), viewport.toUs(run));
        drawGrid(canvas, divisions, many, main);
        if (run == null) {
            return;
        }
        int saved = canvas.save();
        canvas.clipRect(left, top - dp, right, bottom + dp);
        if (many) {
            for (int i = 0; i < run.traces.size(); i++) {
                stroke(flowColour(i), 1.6f);
                line.draw(canvas, run.traces.get(i).cwnd, windowAxis.top(), lines, false);
            }
        } else if (main != null) {
            drawTraces(canvas, main);
        }
        canvas.restoreToCount(saved);
        if (viewport.showRtt && main != null) {
            drawRttLabels(canvas, divisions);
        }
        if (viewport.cursorUs >= 0) {
            drawCursor(canvas, main);
        }
    }

    int flowColour(int index) {
        return flowColours[index % flowColours.length];
    }

    private void fitAxes(Trace main, int divisions) {
        // The frame of the last drawing has the width; only the times count here.
        line.fromUs = viewport.fromUs(run);
        line.toUs = viewport.toUs(run);
        float windows = 0;
        float rates = 0;
        float rtts = 0;
        if (run != null) {
            for (int i = 0; i < run.traces.size(); i++) {
                Trace trace = run.traces.get(i);
                if (run.watch() && main != null && trace != main) {
                    continue;
                }
                if (viewport.showCwnd || main == null) {
                    windows = Math.max(windows, line.most(trace.cwnd));
                }
                if (viewport.showSsthresh && main != null) {
                    windows = Math.max(windows, line.most(trace.ssthresh));
                }
                if (viewport.showRtt) {
                    rtts = Math.max(rtts, line.most(trace.rttMs));
                }
            }
            if (main != null) {
                rates = line.most(rate(run, main));
            }
        }
        windowAxis.fit(windows == 0 ? 40 : Math.max(windows, divisions), divisions);
        rateAxis.fit(rates == 0 ? 20 : rates, divisions);
        rttAxis.fit(rtts == 0 ? 100 : rtts, divisions);
    }

    private void drawGrid(Canvas canvas, int divisions, boolean many, Trace main) {
        float right = line.left + line.width;
        float titleY = line.top - small * 0.75f;
        text.setTextAlign(Paint.Align.LEFT);
        text.setColor(cwndText);
        canvas.drawText(cwndTitle, dp * 10, titleY, text);
        if (!many) {
            text.setTextAlign(Paint.Align.RIGHT);
            text.setColor(rateText);
            canvas.drawText(rateTitle, getWidth() - dp * 10, titleY, text);
        }
        if (viewport.showRtt && main != null) {
            text.setTextAlign(Paint.Align.CENTER);
            text.setColor(rttText);
            canvas.drawText(rttTitle, line.left + line.width / 2, titleY, text);
        }
        for (int i = 0; i <= divisions; i++) {
            float y = line.top + line.height - line.height * i / divisions;
            grid.setColor(i == 0 ? muted : gridColour);
            canvas.drawLine(line.left, y, right, y, grid);
            float base = y + small * 0.36f;
            text.setTextAlign(Paint.Align.RIGHT);
            text.setColor(cwndText);
            canvas.drawText(label, 0, windowAxis.label(i, label), line.left - dp * 5, base, text);
            if (!many) {
                text.setTextAlign(Paint.Align.LEFT);
                text.setColor(rateText);
                canvas.drawText(label, 0, rateAxis.label(i, label), right + dp * 5, base, text);
            }
        }
        drawTimes(canvas);
    }

    private void drawTimes(Canvas canvas) {
        double fromS = line.fromUs / 1e6;
        double toS = line.toUs / 1e6;
        double step = Axis.niceTime((toS - fromS) / Math.max(line.width / (small * 5.5f), 1));
        float base = line.top + line.height + small * 1.45f;
        text.setColor(muted);
        for (double s = Math.ceil(fromS / step) * step; s <= toS + step * 1e-6; s += step) {
            float x = line.x((long) (s * 1e6));
            grid.setColor(gridColour);
            canvas.drawLine(x, line.top, x, line.top + line.height, grid);
            int length = Axis.time(s, step, label);
            // The unit stands once, at the last label for which the next has no room.
            boolean last = s + step > toS + step * 1e-6;
            if (last && label[Math.max(length - 3, 0)] != ':') {
                label[length++] = ' ';
                label[length++] = 's';
            }
            boolean end = x > line.left + line.width - small;
            text.setTextAlign(end ? Paint.Align.RIGHT : Paint.Align.CENTER);
            canvas.drawText(label, 0, length, end ? Math.min(x + small, getWidth() - dp * 6) : x, base, text);
        }
    }

    /** The third scale stands inside, over the lines, on ground of its own. */
    private void drawRttLabels(Canvas canvas, int divisions) {
        text.setTextAlign(Paint.Align.RIGHT);
        text.setColor(rttText);
        shape.setColor(panel & 0xffffff | 0xe6000000);
        float right = line.left + line.width - dp * 5;
        for (int i = 1; i < divisions; i++) {
            float y = line.top + line.height - line.height * i / divisions;
            int length = rttAxis.label(i, label);
            float width = text.measureText(label, 0, length);
            canvas.drawRoundRect(right - width - dp * 3, y - small * 0.7f, right + dp * 3, y + small * 0.7f, dp * 3, dp * 3, shape);
            canvas.drawText(label, 0, length, right, y + small * 0.36f, text);
        }
    }

    private void stroke(int colour, float width) {
        lines.setColor(colour);
        lines.setStrokeWidth(width * dp);
    }

    private void drawTraces(Canvas canvas, Trace main) {
        boolean one = run.watch();
        drawRetransmits(canvas, main, one);
        if (viewport.showRate) {
            Series rate = rate(run, main);
            fill.setColor(rateArea);
            line.fill(canvas, rate, rateAxis.top(), fill);
            stroke(rateColour, 1.8f);
            line.draw(canvas, rate, rateAxis.top(), lines, false);
            shape.setColor(rateColour);
            line.dots(canvas, rate, rateAxis.top(), shape, dp * 2.2f);
        }
        int count = one ? 1 : run.traces.size();
        for (int i = 0; i < count; i++) {
            Trace trace = one ? main : run.traces.get(i);
            if (viewport.showRtt) {
                stroke(rttColour, 1.4f);
                line.draw(canvas, trace.rttMs, rttAxis.top(), lines, false);
            }
            if (viewport.showSsthresh) {
                stroke(ssthreshColour, 1.4f);
                line.draw(canvas, trace.ssthresh, windowAxis.top(), lines, true);
            }
        }
        if (viewport.showCwnd) {
            for (int i = 0; i < count; i++) {
                Trace trace = one ? main : run.traces.get(i);
                stroke(cwndColour, count > 4 ? 1.2f : 2f);
                line.draw(canvas, trace.cwnd, windowAxis.top(), lines, false);
                if (count == 1) {
                    shape.setColor(cwndColour);
                    line.dots(canvas, trace.cwnd, windowAxis.top(), shape, dp * 2.4f);
                }
            }
        }
    }

    /** A triangle at the top for each moment, as far apart as can be told apart; with a faint line below where they are few. */
    private void drawRetransmits(Canvas canvas, Trace main, boolean one) {
        shape.setColor(lossColour);
        float size = dp * 4;
        for (int n = 0; n < (one ? 1 : run.traces.size()); n++) {
            Series marks = (one ? main : run.traces.get(n)).retransmits;
            float last = Float.NEGATIVE_INFINITY;
            int first = marks.firstAt(line.fromUs, 0);
            boolean few = (marks.firstAt(line.toUs, first) - first) * size * 4 < line.width;
            int i = first;
            while (i < marks.size() && marks.timeUs(i) <= line.toUs) {
                float x = line.x(marks.timeUs(i));
                if (x - last < size) {
                    i = Math.max(marks.firstAt(line.fromUs + (long) ((last + size - line.left) / line.width * (line.toUs - line.fromUs)), i), i + 1);
                    continue;
                }
                if (few) {
                    grid.setColor(lossColour & 0xffffff | 0x30000000);
                    canvas.drawLine(x, line.top, x, line.top + line.height, grid);
                }
                triangle.rewind();
                triangle.moveTo(x - size, line.top);
                triangle.lineTo(x + size, line.top);
                triangle.lineTo(x, line.top + size * 1.5f);
                triangle.close();
                canvas.drawPath(triangle, shape);
                last = x;
                i++;
            }
        }
    }

    private void drawCursor(Canvas canvas, Trace main) {
        float x = line.x(viewport.cursorUs);
        if (x < line.left - 1 || x > line.left + line.width + 1) {
            return;
        }
        grid.setColor(focusColour);
        canvas.drawLine(x, line.top, x, line.top + line.height, grid);
        if (main != null) {
            if (viewport.showCwnd) {
                knob(canvas, x, main.cwnd.at(viewport.cursorUs), windowAxis.top(), cwndColour);
            }
            if (viewport.showRate) {
                knob(canvas, x, rate(run, main).at(viewport.cursorUs), rateAxis.top(), rateColour);
            }
            if (viewport.showSsthresh) {
                knob(canvas, x, main.ssthresh.at(viewport.cursorUs), windowAxis.top(), ssthreshColour);
            }
            if (viewport.showRtt) {
                knob(canvas, x, main.rttMs.at(viewport.cursorUs), rttAxis.top(), rttColour);
            }
        }
        // Its time, in a flag at its foot.
        int length = Axis.decimal(viewport.cursorUs / 1e6, 2, label, 0);
        label[length++] = ' ';
        label[length++] = 's';
        float half = text.measureText(label, 0, length) / 2 + dp * 5;
        float centre = Math.min(Math.max(x, line.left + half), line.left + line.width - half);
        float top = line.top + line.height + dp * 2;
        shape.setColor(focusColour);
        canvas.drawRoundRect(centre - half, top, centre + half, top + small * 1.6f, dp * 4, dp * 4, shape);
        text.setTextAlign(Paint.Align.CENTER);
        text.setColor(panel);
        canvas.drawText(label, 0, length, centre, top + small * 1.15f, text);
    }

    private void knob(Canvas canvas, float x, float value, double most, int colour) {
        if (Float.isNaN(value)) {
            return;
        }
        float y = line.y(value, most);
        shape.setColor(panel);
        canvas.drawCircle(x, y, dp * 5, shape);
        shape.setColor(colour);
        canvas.drawCircle(x, y, dp * 3.5f, shape);
    }

    private void drawEmpty(Canvas canvas) {
        int width = (int) (getWidth() * 0.7f);
        if (width < 10 || run != null && run.running()) {
            return;
        }
        if (emptyLayout == null || emptyLayout.getWidth() != width) {
            android.text.TextPaint paint = new android.text.TextPaint(text);
            paint.setTextSize(small * 1.3f);
            paint.setColor(muted);
            paint.setTextAlign(Paint.Align.LEFT);
            emptyLayout = android.text.StaticLayout.Builder.obtain(empty, 0, empty.length(), paint, width)
                    .setAlignment(android.text.Layout.Alignment.ALIGN_CENTER).build();
        }
        canvas.save();
        canvas.translate((getWidth() - width) / 2f, (getHeight() - emptyLayout.getHeight()) / 2f - small);
        emptyLayout.draw(canvas);
        canvas.restore();
    }

    // --- fingers ---

    private long moment(float x) {
        return line.width == 0 ? 0 : line.fromUs + (long) ((x - line.left) / line.width * (line.toUs - line.fromUs));
    }

    private void changed() {
        invalidate();
        if (listener != null) {
            listener.viewportChanged();
        }
    }

    @Override
    public boolean onTouchEvent(MotionEvent event) {
        if (run == null) {
            return super.onTouchEvent(event);
        }
        pinch.onTouchEvent(event);
        gestures.onTouchEvent(event);
        return true;
    }

    private final class Pinch extends ScaleGestureDetector.SimpleOnScaleGestureListener {
        @Override
        public boolean onScale(ScaleGestureDetector detector) {
            viewport.zoom(run, detector.getScaleFactor(), moment(detector.getFocusX()));
            changed();
            return true;
        }
    }

    private final class Fingers extends GestureDetector.SimpleOnGestureListener {
        @Override
        public boolean onDown(MotionEvent event) {
            return true;
        }

        @Override
        public boolean onScroll(MotionEvent down, MotionEvent now, float byX, float byY) {
            if (pinch.isInProgress()) {
                return true;
            }
            if (viewport.whole()) {
                putCursor(moment(now.getX()));
            } else {
                viewport.pan(run, (long) (byX / line.width * (line.toUs - line.fromUs)));
                changed();
            }
            return true;
        }

        @Override
        public boolean onSingleTapConfirmed(MotionEvent event) {
            // A tap on the cursor takes it away.
            if (viewport.cursorUs >= 0 && Math.abs(line.x(viewport.cursorUs) - event.getX()) < dp * 16) {
                viewport.cursorUs = -1;
                changed();
            } else {
                putCursor(moment(event.getX()));
            }
            performClick();
            return true;
        }

        @Override
        public boolean onDoubleTap(MotionEvent event) {
            viewport.showWhole();
            changed();
            return true;
        }
    }

    private void putCursor(long us) {
        viewport.cursorUs = Math.min(Math.max(us, 0), Math.max(run.endUs(), 0));
        changed();
    }

    // --- keys and screen readers ---

    @Override
    public boolean onKeyDown(int key, KeyEvent event) {
        if (run == null) {
            return super.onKeyDown(key, event);
        }
        switch (key) {
            case KeyEvent.KEYCODE_DPAD_LEFT: return moveCursor(-1);
            case KeyEvent.KEYCODE_DPAD_RIGHT: return moveCursor(1);
            case KeyEvent.KEYCODE_PLUS: case KeyEvent.KEYCODE_EQUALS: case KeyEvent.KEYCODE_NUMPAD_ADD: return zoom(1.5);
            case KeyEvent.KEYCODE_MINUS: case KeyEvent.KEYCODE_NUMPAD_SUBTRACT: return zoom(1 / 1.5);
            case KeyEvent.KEYCODE_ESCAPE:
                viewport.showWhole();
                viewport.cursorUs = -1;
                changed();
                return true;
            default: return super.onKeyDown(key, event);
        }
    }

    private boolean moveCursor(int direction) {
        long from = viewport.fromUs(run);
        long span = viewport.toUs(run) - from;
        long at = viewport.cursorUs < 0 ? from + span / 2 : viewport.cursorUs + direction * Math.max(span / 50, 1);
        putCursor(at);
        if (!viewport.whole()) {
            viewport.reveal(run, viewport.cursorUs);
        }
        announceForAccessibility(getContentDescription());
        return true;
    }

    private boolean zoom(double factor) {
        long middle = viewport.cursorUs >= 0 ? viewport.cursorUs : (viewport.fromUs(run) + viewport.toUs(run)) / 2;
        viewport.zoom(run, factor, middle);
        changed();
        return true;
    }

    /** The chart in words. */
    @Override
    public CharSequence getContentDescription() {
        Trace main = main(run, viewport);
        if (main == null) {
            return getContext().getString(R.string.chart) + ". " + empty;
        }
        Series rate = rate(run, main);
        if (viewport.cursorUs >= 0) {
            long at = viewport.cursorUs;
            return getContext().getString(R.string.chart_spoken_cursor, Quantity.time(at), spoken(main.cwnd.at(at)),
                    spoken(rate.at(at)), spoken(main.ssthresh.at(at)), spoken(main.rttMs.at(at)));
        }
        int size = main.cwnd.size();
        return getContext().getString(R.string.chart_spoken, Quantity.time(run.endUs()), spoken(main.cwnd.last()),
                spoken(main.cwnd.min(0, size)), spoken(main.cwnd.max(0, size)), spoken(rate.last()),
                spoken(rate.max(0, rate.size())), main.retransmits.size())
                + " " + getContext().getString(R.string.chart_help);
    }

    private String spoken(float value) {
        return Float.isNaN(value) || Float.isInfinite(value)
                ? getContext().getString(R.string.no_value_spoken) : Quantity.figure(value);
    }

    @Override
    public void onInitializeAccessibilityNodeInfo(AccessibilityNodeInfo info) {
        super.onInitializeAccessibilityNodeInfo(info);
        info.setContentDescription(getContentDescription());
        info.addAction(AccessibilityAction.ACTION_SCROLL_FORWARD);
        info.addAction(AccessibilityAction.ACTION_SCROLL_BACKWARD);
        info.addAction(new AccessibilityAction(R.id.zoom_in, getContext().getString(R.string.zoom_in)));
        info.addAction(new AccessibilityAction(R.id.zoom_out, getContext().getString(R.string.zoom_out)));
        info.addAction(new AccessibilityAction(R.id.whole_run, getContext().getString(R.string.whole_run)));
    }

    @Override
    public boolean performAccessibilityAction(int action, Bundle arguments) {
        if (run != null) {
            if (action == AccessibilityNodeInfo.ACTION_SCROLL_FORWARD) {
                return moveCursor(1);
            } else if (action == AccessibilityNodeInfo.ACTION_SCROLL_BACKWARD) {
                return moveCursor(-1);
            } else if (action == R.id.zoom_in) {
                return zoom(1.5);
            } else if (action == R.id.zoom_out) {
                return zoom(1 / 1.5);
            } else if (action == R.id.whole_run) {
                viewport.showWhole();
                changed();
                return true;
            }
        }
        return super.performAccessibilityAction(action, arguments);
    }
}
