package org.yuzuri;

/** One line of the engine, or of a recording. Numbers that were not there are {@link #NONE}. */
final class Event {
    static final long NONE = -1;

    enum Type {
        /** First line of a recording of the app: what was asked for. */
        RUN,
        CONNECTED,
        BUFFER,
        PROGRESS,
        NOTE,
        /** Something beside the transfer does not work: its recording, its giving way. */
        WARNING,
        SUMMARY,
        /** How it gave way on one interface. */
        SHARED,
        FAILED,
        /** Last line of a recording of the app: the row of the table. */
        RESULT,
        /** First line of a watch. */
        SESSION,
        FLOW,
        /** Something that happened to a flow, or a sample of it. */
        SAMPLE,
        CLOSE,
        /** Understood, of no interest here. */
        OTHER,
    }

    Type type = Type.OTHER;
    /** Number of the connection, or id of the flow. */
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
    /** Of a failure or a warning: the engine's word for its sort. */
    String kind = "";
    String text = "";
    String local = "";
    String peer = "";
    String control = "";
    String process = "";
    String target = "";
    String network = "";
}
