package org.yuzuri;

import java.util.Arrays;

/**
 * A time series of at most {@link #MAX} values. When it is full, the minimum and the maximum of every
 * four neighbours are kept, so that peaks are never lost. The extremes of blocks are cached, so that
 * finding the extremes of a range need not visit every value. NaN means no value.
 */
final class Series {
    static final int MAX = 1 << 18;
    private static final int SHIFT = 6;

    private long[] timesUs = new long[256];
    private float[] values = new float[256];
    private float[] blockMin = new float[8];
    private float[] blockMax = new float[8];
    private int size;

    int size() {
        return size;
    }

    long timeUs(int index) {
        return timesUs[index];
    }

    float value(int index) {
        return values[index];
    }

    float last() {
        return size == 0 ? Float.NaN : values[size - 1];
    }

    long lastTimeUs() {
        return size == 0 ? 0 : timesUs[size - 1];
    }

    /** A time before the last one is replaced by the last one. */
    void add(long timeUs, float value) {
        if (size == MAX) {
            thin();
        }
        if (size == timesUs.length) {
            timesUs = Arrays.copyOf(timesUs, size * 2);
            values = Arrays.copyOf(values, size * 2);
        }
        append(size > 0 ? Math.max(timeUs, timesUs[size - 1]) : timeUs, value);
    }

    private void append(long timeUs, float value) {
        int block = size >> SHIFT;
        if (block == blockMin.length) {
            blockMin = Arrays.copyOf(blockMin, block * 2);
            blockMax = Arrays.copyOf(blockMax, block * 2);
        }
        if ((size & ((1 << SHIFT) - 1)) == 0) {
            blockMin[block] = Float.POSITIVE_INFINITY;
            blockMax[block] = Float.NEGATIVE_INFINITY;
        }
        if (value < blockMin[block]) {
            blockMin[block] = value;
        }
        if (value > blockMax[block]) {
            blockMax[block] = value;
        }
        timesUs[size] = timeUs;
        values[size] = value;
        size++;
    }

    private void thin() {
        int count = size;
        size = 0;
        for (int i = 0; i < count; i += 4) {
            int least = i;
            int most = i;
            for (int j = i + 1; j < Math.min(i + 4, count); j++) {
                // A value wins over NaN; of equal values the first one is kept.
                if (values[j] < values[least] || Float.isNaN(values[least])) {
                    least = j;
                }
                if (values[j] > values[most] || Float.isNaN(values[most])) {
                    most = j;
                }
            }
            int first = Math.min(least, most);
            int second = Math.max(least, most);
            // Writing stays behind reading: size never exceeds i.
            long secondTime = timesUs[second];
            float secondValue = values[second];
            append(timesUs[first], values[first]);
            if (second != first) {
                append(secondTime, secondValue);
            }
        }
    }

    /**
     * The first index from {@code from} on with a time of at least {@code timeUs}; {@link #size()} if
     * there is none.
     */
    int firstAt(long timeUs, int from) {
        int low = from;
        int high = size;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (timesUs[middle] < timeUs) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /** The minimum of [from, to); infinity if there is none. */
    float min(int from, int to) {
        float min = Float.POSITIVE_INFINITY;
        int i = from;
        while (i < to) {
            if ((i & ((1 << SHIFT) - 1)) == 0 && i + (1 << SHIFT) <= to) {
                min = Math.min(min, blockMin[i >> SHIFT]);
                i += 1 << SHIFT;
            } else {
                if (values[i] < min) {
                    min = values[i];
                }
                i++;
            }
        }
        return min;
    }

    /** The maximum of [from, to); minus infinity if there is none. */
    float max(int from, int to) {
        float max = Float.NEGATIVE_INFINITY;
        int i = from;
        while (i < to) {
            if ((i & ((1 << SHIFT) - 1)) == 0 && i + (1 << SHIFT) <= to) {
                max = Math.max(max, blockMax[i >> SHIFT]);
                i += 1 << SHIFT;
            } else {
                if (values[i] > max) {
                    max = values[i];
                }
                i++;
            }
        }
        return max;
    }

    /** The last value at or before a time; NaN if there is none. */
    float at(long timeUs) {
        int after = firstAt(timeUs + 1, 0);
        return after == 0 ? Float.NaN : values[after - 1];
    }

    /** The median of all values; NaN if there are none. */
    float median() {
        float[] sorted = Arrays.copyOf(values, size);
        Arrays.sort(sorted);
        int count = size;
        // NaN sorts last.
        while (count > 0 && Float.isNaN(sorted[count - 1])) {
            count--;
        }
        return count == 0 ? Float.NaN : sorted[count / 2];
    }
}
