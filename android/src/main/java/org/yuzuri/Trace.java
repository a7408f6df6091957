package org.yuzuri;

/** What was seen of one connection or flow. */
final class Trace {
    /** Least distance of two values of a throughput that is made of acknowledged bytes. */
    private static final long RATE_STEP_US = 200_000;

    final long id;
    String local = "";
    String peer = "";
    String control = "";
    String process = "";
    boolean closed;

    /** Segments, when a buffer's last packet was sent. */
    final Series cwnd = new Series();
    /** Segments; NaN where there was no reduction so far. */
    final Series ssthresh = new Series();
    final Series rttMs = new Series();
    final Series rateMbps = new Series();
    /** Each moment at which segments had been sent again, and how many. */
    final Series retransmits = new Series();

    private long totalRetrans = -1;
    private long rateFromUs = -1;
    private long rateFromBytes;
    long bytesAcked;

    Trace(long id) {
        this.id = id;
    }

    /** The kernel's count of segments sent again, as it was at that time. */
    void countRetransmits(long timeUs, long total) {
        if (totalRetrans >= 0 && total > totalRetrans) {
            retransmits.add(timeUs, total - totalRetrans);
        } else if (totalRetrans < 0 && total > 0) {
            retransmits.add(timeUs, total);
        }
        totalRetrans = Math.max(totalRetrans, total);
    }

    /** For flows of others the count begins with what there was when they were first seen. */
    void countRetransmitsFromHere(long total) {
        if (totalRetrans < 0) {
            totalRetrans = total;
        }
    }

    /** The bytes acknowledged until that time. */
    void acked(long timeUs, long bytes) {
        bytesAcked = bytes;
        if (rateFromUs < 0 || bytes < rateFromBytes) {
            rateFromUs = timeUs;
            rateFromBytes = bytes;
        } else if (timeUs - rateFromUs >= RATE_STEP_US) {
            rateMbps.add(timeUs, (bytes - rateFromBytes) * 8f / (timeUs - rateFromUs));
            rateFromUs = timeUs;
            rateFromBytes = bytes;
        }
    }
}
