package org.yuzuri;

import android.graphics.Canvas;
import android.graphics.Paint;
import android.graphics.Path;

/**
 * Draws series into a rectangle. Where values are closer than three pixels, each narrow column is drawn
 * as one vertical bar from its minimum to its maximum, connected to its neighbour, so that no peak is
 * lost and the cost depends on the width only; elsewhere values are connected by a line. Drawing does not
 * allocate.
 */
final class Line {
    /** Distance between values, in pixels, below which columns are drawn. */
    private static final int DENSE_DISTANCE = 3;
    /** Distance between values, in pixels, from which corners are rounded. */
    private static final int ROUND_DISTANCE = 4;

    private final Path path = new Path();
    /** Column width, whole pixels. */
    private final int column;

    float left;
    float top;
    float width;
    float height;
    long fromUs;
    long toUs;
    private double scaleX;

    Line(int column) {
        this.column = Math.max(column, 1);
    }

    void frame(float left, float top, float width, float height, long fromUs, long toUs) {
        this.left = left;
        this.top = top;
        this.width = width;
        this.height = height;
        this.fromUs = fromUs;
        this.toUs = Math.max(toUs, fromUs + 1);
        scaleX = width / (double) (this.toUs - fromUs);
    }

    float x(long us) {
        return left + (float) ((us - fromUs) * scaleX);
    }

    float y(float value, double most) {
        return top + height - (float) (value / most * height);
    }

    /** The index of the first visible value; includes the value before it, where the visible line starts. */
    int first(Series series) {
        return Math.max(series.firstAt(fromUs, 0) - 1, 0);
    }

    int end(Series series, int first) {
        return Math.min(series.firstAt(toUs + 1, first) + 1, series.size());
    }

    private boolean dense(int count) {
        return (long) count * DENSE_DISTANCE > (long) width;
    }

    /** Draws a series. Keeps the paint's width and sets its anti-aliasing and line joins. */
    void draw(Canvas canvas, Series series, double most, Paint paint, boolean steps) {
        int from = first(series);
        int to = end(series, from);
        if (dense(to - from)) {
            // Vertical edges on whole pixels need no anti-aliasing.
            paint.setAntiAlias(false);
            paint.setStyle(Paint.Style.FILL);
            columns(canvas, series, from, to, most, paint);
            paint.setStyle(Paint.Style.STROKE);
            paint.setAntiAlias(true);
        } else {
            join(series, from, to, most, steps);
            // Round corners are visible if there are few values, and expensive if there are many.
            paint.setStrokeJoin((to - from) * ROUND_DISTANCE < (int) width ? Paint.Join.ROUND : Paint.Join.BEVEL);
            canvas.drawPath(path, paint);
        }
    }

    private void join(Series series, int from, int to, double most, boolean steps) {
        path.rewind();
        boolean gap = true;
        float lastY = 0;
        for (int i = from; i < to; i++) {
            float value = series.value(i);
            if (!(value >= 0 && value < Float.POSITIVE_INFINITY)) {
                gap = true;
                continue;
            }
            float x = x(series.timeUs(i));
            float y = y(value, most);
            if (gap) {
                path.moveTo(x, y);
            } else if (steps) {
                // A threshold is valid until it changes.
                path.lineTo(x, lastY);
                path.lineTo(x, y);
            } else {
                path.lineTo(x, y);
            }
            gap = false;
            lastY = y;
        }
    }

    private void columns(Canvas canvas, Series series, int from, int to, double most, Paint paint) {
        float half = paint.getStrokeWidth() / 2;
        float before = Float.NaN;
        int i = from;
        for (int n = 0; i < to; n++) {
            int next = endOf(series, n, i, to);
            float high = before;
            float low = before;
            // A column without a value shows the last one.
            if (next > i) {
                high = y(series.max(i, next), most);
                low = y(series.min(i, next), most);
                // Extend the bar to the end of the previous one.
                high = before < high ? before : high;
                low = before > low ? before : low;
                before = y(series.value(next - 1), most);
                i = next;
            }
            // NaN or infinity is a gap.
            if (low - high >= 0 && low - high < Float.POSITIVE_INFINITY) {
                float x = columnX(n);
                canvas.drawRect(x, high - half, x + column, low + half, paint);
            }
        }
    }

    /**
     * The end of a column's values. Values before the first column belong to it, values after the last
     * one to the last.
     */
    private int endOf(Series series, int n, int from, int to) {
        return (n + 1) * column >= (int) width ? to : Math.min(series.firstAt(columnEnd(n), from), to);
    }

    private float columnX(int n) {
        return (int) left + Math.min(n * column, Math.max((int) width - column, 0));
    }

    private long columnEnd(int n) {
        return fromUs + (long) ((n + 1) * column / scaleX);
    }

    /**
     * Fills the area below a series if its values are far enough apart; below a dense band a fill would
     * show nothing.
     */
    void fill(Canvas canvas, Series series, double most, Paint paint) {
        int from = first(series);
        int to = end(series, from);
        if (to - from < 2 || dense(to - from)) {
            return;
        }
        path.rewind();
        float foot = top + height;
        float lastX = Float.NaN;
        for (int i = from; i < to; i++) {
            float value = series.value(i);
            if (value >= 0 && value < Float.POSITIVE_INFINITY) {
                float x = x(series.timeUs(i));
                if (Float.isNaN(lastX)) {
                    path.moveTo(x, foot);
                }
                path.lineTo(x, y(value, most));
                lastX = x;
            }
        }
        if (!Float.isNaN(lastX)) {
            path.lineTo(lastX, foot);
            path.close();
            canvas.drawPath(path, paint);
        }
    }

    /** Draws a dot for each value if there are few. */
    void dots(Canvas canvas, Series series, double most, Paint paint, float radius) {
        int from = first(series);
        int to = end(series, from);
        if ((to - from) * radius * 8 > width) {
            return;
        }
        for (int i = from; i < to; i++) {
            float value = series.value(i);
            if (!Float.isNaN(value)) {
                canvas.drawCircle(x(series.timeUs(i)), y(value, most), radius, paint);
            }
        }
    }

    /** The maximum visible value; 0 if there is none. */
    float most(Series series) {
        int from = first(series);
        return Math.max(series.max(from, end(series, from)), 0);
    }
}
