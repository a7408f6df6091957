package org.yuzuri;

import android.content.Context;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;
import android.graphics.Typeface;
import android.util.TypedValue;

/**
 * Draws the chart: time on the x axis, the congestion window on the left axis, the throughput on the
 * right one, optionally ssthresh (left axis) and the round-trip time (own labels at the same grid lines),
 * and marks for retransmissions.
 */
final class ChartPainter {
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

    private final int cwndColour;
    private final int cwndText;
    private final int rateColour;
    private final int rateText;
    private final int rateArea;
    private final int ssthreshColour;
    private final int rttColour;
    private final int rttText;
    private final int lossColour;
    private final int focusColour;
    private final int gridColour;
    private final int muted;
    private final int panel;
    private final int[] flowColours;
    private final String cwndTitle;
    private final String rateTitle;
    private final String rttTitle;
    private final String empty;
    /** One pixel at 160 dpi. */
    final float dp;
    /** The time range and the edges of the last drawing. */
    final Line line;
    private final float small;

    private int width;
    private int height;
    private Run run;
    private Viewport viewport;
    private android.text.StaticLayout emptyLayout;

    ChartPainter(Context context) {
        cwndColour = context.getColor(R.color.cwnd);
        cwndText = context.getColor(R.color.cwnd_text);
        rateColour = context.getColor(R.color.rate);
        rateText = context.getColor(R.color.rate_text);
        rateArea = context.getColor(R.color.rate_area);
        ssthreshColour = context.getColor(R.color.ssthresh);
        rttColour = context.getColor(R.color.rtt);
        rttText = context.getColor(R.color.rtt_text);
        lossColour = context.getColor(R.color.loss);
        focusColour = context.getColor(R.color.focus);
        gridColour = context.getColor(R.color.grid);
        muted = context.getColor(R.color.muted);
        panel = context.getColor(R.color.panel);
        flowColours = context.getResources().getIntArray(R.array.flows);
        cwndTitle = context.getString(R.string.cwnd) + " [" + context.getString(R.string.unit_segments) + "]";
        rateTitle = context.getString(R.string.unit_mbps);
        rttTitle = context.getString(R.string.rtt) + " [" + context.getString(R.string.unit_ms) + "]";
        empty = context.getString(R.string.chart_empty);
        dp = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_DIP, 1, context.getResources().getDisplayMetrics());
        line = new Line(Math.round(dp));
        small = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, 11, context.getResources().getDisplayMetrics());
        lines.setStyle(Paint.Style.STROKE);
        lines.setStrokeJoin(Paint.Join.ROUND);
        lines.setStrokeCap(Paint.Cap.ROUND);
        text.setTypeface(Typeface.DEFAULT);
        text.setFontFeatureSettings("tnum");
        text.setTextSize(small);
        grid.setStrokeWidth(Math.max(Math.round(dp), 1));
    }

    /** The trace whose values are shown: the selected one, or the only one. */
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

    /** Whether only the windows of many flows are drawn. */
    private boolean many(Trace main) {
        return run != null && run.watch() && main == null;
    }

    /** Draws a run, or a message that there is none, at this size. */
    void draw(Canvas canvas, int width, int height, Run run, Viewport viewport) {
        this.width = width;
        this.height = height;
        this.run = run;
        this.viewport = viewport;
        Trace main = main(run, viewport);
        if (run == null || run.traces.isEmpty()) {
            drawEmpty(canvas);
        }
        boolean many = many(main);
        float titleRoom = small * 1.25f;
        float top = dp * 10 + titleRoom;
        float bottom = height - dp * 8 - small * 1.35f;
        int divisions = Math.max(Math.min((int) ((bottom - top) / (small * 3.4f)), 5), 2);
        fitAxes(main, divisions);
        float digit = text.measureText("0");
        float left = dp * 10 + Math.max(windowAxis.widest(label), 2) * digit + dp * 5;
        float right = width - dp * 10 - (many ? 0 : Math.max(rateAxis.widest(label), 2) * digit + dp * 5);
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

    private int flowColour(int index) {
        return flowColours[index % flowColours.length];
    }

    private void fitAxes(Trace main, int divisions) {
        // The frame of the last drawing has the width; only the time range is set here.
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
            canvas.drawText(rateTitle, width - dp * 10, titleY, text);
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
            // Show the unit once, at the last label without room for another.
            boolean last = s + step > toS + step * 1e-6;
            if (last && label[Math.max(length - 3, 0)] != ':') {
                label[length++] = ' ';
                label[length++] = 's';
            }
            boolean end = x > line.left + line.width - small;
            text.setTextAlign(end ? Paint.Align.RIGHT : Paint.Align.CENTER);
            canvas.drawText(label, 0, length, end ? Math.min(x + small, width - dp * 6) : x, base, text);
        }
    }

    /** The third scale is drawn inside the chart, over the curves, on its own background. */
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

    /**
     * A triangle at the top for each retransmission, as densely as can be distinguished; with a faint
     * line below it if there are few.
     */
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
        // The time, in a label at the foot of the cursor.
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
        int room = (int) (width * 0.7f);
        if (room < 10 || run != null && run.running()) {
            return;
        }
        if (emptyLayout == null || emptyLayout.getWidth() != room) {
            android.text.TextPaint paint = new android.text.TextPaint(text);
            paint.setTextSize(small * 1.3f);
            paint.setColor(muted);
            paint.setTextAlign(Paint.Align.LEFT);
            emptyLayout = android.text.StaticLayout.Builder.obtain(empty, 0, empty.length(), paint, room)
                    .setAlignment(android.text.Layout.Alignment.ALIGN_CENTER).build();
        }
        canvas.save();
        canvas.translate((width - room) / 2f, (height - emptyLayout.getHeight()) / 2f - small);
        emptyLayout.draw(canvas);
        canvas.restore();
    }
}
