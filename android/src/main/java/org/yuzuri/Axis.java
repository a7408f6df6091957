package org.yuzuri;

/** A scale from 0 to a round number in round steps, and number formatting without allocation. */
final class Axis {
    /** Number of intervals between grid lines. */
    int divisions = 4;
    double step = 1;
    private int decimals;

    /** Sets the range so that it contains the value {@code most}, with some space above it. */
    void fit(double most, int divisions) {
        this.divisions = Math.max(divisions, 1);
        step = niceStep(Math.max(most, 1e-3) * 1.02 / this.divisions);
        decimals = round(step) ? 0 : round(step * 10) ? 1 : round(step * 100) ? 2 : 3;
    }

    private static boolean round(double value) {
        return Math.abs(value - Math.rint(value)) < 1e-6;
    }

    double top() {
        return step * divisions;
    }

    private static final double[] NICE = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};

    /** The smallest of {@link #NICE} times a power of ten that is at least {@code least}. */
    static double niceStep(double least) {
        double power = Math.pow(10, Math.floor(Math.log10(least)));
        double part = least / power;
        int i = 0;
        // A small tolerance, so that 1.0000001 remains 1.
        while (i < NICE.length - 1 && NICE[i] * 1.000001 < part) {
            i++;
        }
        return NICE[i] * power;
    }

    /**
     * The smallest time step that is at least this long: decimal fractions of a second, then seconds,
     * minutes and hours as on a clock.
     */
    static double niceTime(double leastS) {
        if (leastS < 5) {
            return niceStep(leastS);
        }
        for (int i = 0; i < CLOCK_S.length; i++) {
            if (CLOCK_S[i] >= leastS) {
                return CLOCK_S[i];
            }
        }
        return niceStep(leastS / 3600) * 3600;
    }

    private static final int[] CLOCK_S = {5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600};

    /** Writes the label of a grid line; returns its length. */
    int label(int line, char[] out) {
        if (line == 0) {
            out[0] = '0';
            return 1;
        }
        return decimal(step * line, decimals, out, 0);
    }

    /** The length of the longest label. */
    int widest(char[] scratch) {
        return Math.max(label(divisions, scratch), divisions > 1 ? label(divisions - 1, scratch) : 0);
    }

    /** Writes a number from index {@code at} on; returns the index after it. */
    static int decimal(double value, int decimals, char[] out, int at) {
        double scale = decimals == 0 ? 1 : decimals == 1 ? 10 : decimals == 2 ? 100 : 1000;
        long scaled = Math.round(value * scale);
        if (scaled < 0) {
            out[at++] = '-';
            scaled = -scaled;
        }
        long whole = scaled / (long) scale;
        at = whole(whole, 1, out, at);
        if (decimals > 0) {
            out[at++] = '.';
            at = whole(scaled % (long) scale, decimals, out, at);
        }
        return at;
    }

    private static int whole(long value, int leastDigits, char[] out, int at) {
        int digits = 1;
        for (long rest = value / 10; rest > 0; rest /= 10) {
            digits++;
        }
        digits = Math.max(digits, leastDigits);
        for (int i = at + digits - 1; i >= at; i--) {
            out[i] = (char) ('0' + value % 10);
            value /= 10;
        }
        return at + digits;
    }

    /** Writes a time in a format that suits the step: 0.25, 12, 1:30, 1:02:30; returns its length. */
    static int time(double s, double stepS, char[] out) {
        if (stepS < 1) {
            return decimal(s, round(stepS * 10) ? 1 : round(stepS * 100) ? 2 : 3, out, 0);
        }
        if (!round(stepS)) {
            return decimal(s, 1, out, 0);
        }
        long whole = Math.round(s);
        if (whole < 60) {
            return whole(whole, 1, out, 0);
        }
        int at = 0;
        if (whole >= 3600) {
            at = whole(whole / 3600, 1, out, at);
            out[at++] = ':';
        }
        at = whole(whole / 60 % 60, whole >= 3600 ? 2 : 1, out, at);
        out[at++] = ':';
        return whole(whole % 60, 2, out, at);
    }
}
