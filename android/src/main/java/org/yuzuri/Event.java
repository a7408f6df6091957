package org.yuzuri;

/** One line of the engine's output or of a recording. Missing numbers are {@link #NONE}. */
final class Event {
    static final long NONE = -1;

    enum Type {
        /** First line of an app recording: the requested settings. */
        RUN,
        CONNECTED,
        BUFFER,
        PROGRESS,
        NOTE,
        /** A function other than the transfer failed: recording, or sharing. */
        WARNING,
        SUMMARY,
        /** How the transfer shared the uplink on one interface. */
        SHARED,
        FAILED,
        /** Last line of an app recording: the row of the results table. */
        RESULT,
        /** First line of a watch. */
        SESSION,
        FLOW,
        /** An event or a sample of a flow. */
        SAMPLE,
        CLOSE,
        /** Valid but not used here. */
        OTHER,
    }

    Type type = Type.OTHER;
    /** Connection number or flow ID. */
    long id = NONE;
    long index = NONE;
    long bytes = NONE;
    boolean complete = true;
    boolean stopped;
    long firstWriteMonoNs = NONE;
    long sentMonoNs = NONE;
    long ackedMonoNs = NONE;
    long monoNs = NONE;
    long throughputBps = NONE;
    long carriedBps = NONE;
    long cwnd = NONE;
    long ssthresh = NONE;
    long srttUs = NONE;
    long minRttUs = NONE;
    long totalRetrans = NONE;
    long elapsedNs = NONE;
    long bytesAcked = NONE;
    long bytesUnacknowledged = NONE;
    long rateBps = NONE;
    long leftNs = NONE;
    long buffers = NONE;
    long durationNs = NONE;
    long minBps = NONE;
    long medianBps = NONE;
    long maxBps = NONE;
    long busyUs = NONE;
    long rwndLimitedUs = NONE;
    long sndbufLimitedUs = NONE;
    long startedUnixMs = NONE;
    long version = NONE;
    long bufferBytes = NONE;
    long connections = NONE;
    long durationS = NONE;
    long port = NONE;
    long others = NONE;
    long boundedNs = NONE;
    double cwndMedian = Double.NaN;
    String caState = "";
    String source = "";
    /** For a failure or a warning: the engine's error category. */
    String kind = "";
    String text = "";
    String local = "";
    String peer = "";
    String control = "";
    String process = "";
    String target = "";
    String network = "";
}
