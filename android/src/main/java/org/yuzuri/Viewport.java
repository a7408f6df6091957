package org.yuzuri;

/** The visible part of a run; kept when the screen rotates. */
final class Viewport {
    private static final long MIN_SPAN_US = 20_000;
    /** The time range of an empty or new run, so that its first seconds do not scroll fast. */
    private static final long YOUNG_US = 5_000_000;

    boolean showCwnd = true;
    boolean showRate = true;
    boolean showSsthresh;
    boolean showRtt;
    /** -1: none. */
    long cursorUs = -1;
    /** The selected flow of a watch; -1: all. */
    long flow = -1;

    /** 0: the whole run. */
    private long spanUs;
    private long fromUs;
    /** Whether the view follows the growing end. */
    private boolean follow = true;

    boolean whole() {
        return spanUs == 0;
    }

    void showWhole() {
        spanUs = 0;
        follow = true;
    }

    long fromUs(Run run) {
        if (spanUs == 0) {
            return 0;
        }
        return follow ? Math.max(end(run) - spanUs, 0) : fromUs;
    }

    long toUs(Run run) {
        return spanUs == 0 ? end(run) : fromUs(run) + spanUs;
    }

    private static long end(Run run) {
        long end = run == null ? 0 : run.endUs();
        return run == null || run.running() ? Math.max(end, YOUNG_US) : Math.max(end, MIN_SPAN_US);
    }

    /** Zooms by a factor (above 1: in) around a time that keeps its position. */
    void zoom(Run run, double factor, long aroundUs) {
        long from = fromUs(run);
        long span = toUs(run) - from;
        long all = end(run);
        long wanted = Math.max((long) (span / factor), MIN_SPAN_US);
        if (wanted >= all) {
            showWhole();
            return;
        }
        double place = span == 0 ? 0 : (double) (aroundUs - from) / span;
        set(run, aroundUs - (long) (place * wanted), wanted);
    }

    void pan(Run run, long byUs) {
        if (spanUs != 0) {
            set(run, fromUs(run) + byUs, spanUs);
        }
    }

    /** Scrolls a time into view. */
    void reveal(Run run, long us) {
        if (us < fromUs(run)) {
            set(run, us, spanUs);
        } else if (us > toUs(run)) {
            set(run, us - spanUs, spanUs);
        }
    }

    private void set(Run run, long from, long span) {
        long last = Math.max(end(run) - span, 0);
        spanUs = span;
        fromUs = Math.min(Math.max(from, 0), last);
        follow = fromUs >= last;
    }
}
