package org.yuzuri;

import android.content.Context;
import android.graphics.Canvas;
import android.os.Bundle;
import android.util.AttributeSet;
import android.view.GestureDetector;
import android.view.KeyEvent;
import android.view.MotionEvent;
import android.view.ScaleGestureDetector;
import android.view.View;
import android.view.accessibility.AccessibilityNodeInfo;
import android.view.accessibility.AccessibilityNodeInfo.AccessibilityAction;

/**
 * The chart as a view: touch, keyboard and screen readers; {@link ChartPainter} draws it. Pinching zooms,
 * dragging pans, a tap sets the cursor, a double tap shows the whole run.
 */
public final class ChartView extends View {
    /** Called when the user changes the view. */
    interface Listener {
        void viewportChanged();
    }

    private final ChartPainter painter;
    /** The time range and the edges of the last drawing. */
    private final Line line;
    private final GestureDetector gestures;
    private final ScaleGestureDetector pinch;

    private Run run;
    private Viewport viewport = new Viewport();
    private Listener listener;

    public ChartView(Context context, AttributeSet attributes) {
        super(context, attributes);
        painter = new ChartPainter(context);
        line = painter.line;
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

    @Override
    protected void onDraw(Canvas canvas) {
        painter.draw(canvas, getWidth(), getHeight(), run, viewport);
    }

    // --- touch ---

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
            // A tap on the cursor removes it.
            if (viewport.cursorUs >= 0 && Math.abs(line.x(viewport.cursorUs) - event.getX()) < painter.dp * 16) {
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

    // --- keyboard and screen readers ---

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

    /** A description of the chart for screen readers. */
    @Override
    public CharSequence getContentDescription() {
        Trace main = ChartPainter.main(run, viewport);
        if (main == null) {
            return getContext().getString(R.string.chart) + ". " + getContext().getString(R.string.chart_empty);
        }
        Series rate = ChartPainter.rate(run, main);
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
