package org.yuzuri;

/** The data of one connection or flow. */
final class Trace {
    /** Minimum interval between throughput values computed from acknowledged bytes. */
    private static final long RATE_STEP_US = 200_000;

    final long id;
    String local = "";
    String peer = "";
    String control = "";
    String process = "";
    boolean closed;

    /** Segments, at the time when a buffer's last packet was sent. */
    final Series cwnd = new Series();
    /** Segments; NaN before the first reduction. */
    final Series ssthresh = new Series();
    final Series rttMs = new Series();
    final Series rateMbps = new Series();
    /** The time of each retransmission, and the number of segments. */
    final Series retransmits = new Series();

    private long totalRetrans = -1;
    private long rateFromUs = -1;
    private long rateFromBytes;
    long bytesAcked;

    Trace(long id) {
        this.id = id;
    }

    /** Processes the kernel's count of retransmitted segments at a time. */
    void countRetransmits(long timeUs, long total) {
        if (totalRetrans >= 0 && total > totalRetrans) {
            retransmits.add(timeUs, total - totalRetrans);
        } else if (totalRetrans < 0 && total > 0) {
            retransmits.add(timeUs, total);
        }
        totalRetrans = Math.max(totalRetrans, total);
    }

    /** For flows of other programs the count starts at its value when they were first seen. */
    void countRetransmitsFromHere(long total) {
        if (totalRetrans < 0) {
            totalRetrans = total;
        }
    }

    /** Processes the bytes acknowledged until a time. */
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
