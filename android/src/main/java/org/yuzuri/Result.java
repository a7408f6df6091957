package org.yuzuri;

import java.io.File;

/** A row of the results table. */
final class Result {
    final long startedUnixMs;
    final String target;
    final long bufferBytes;
    final int connections;
    final String control;
    final long throughputBps;
    final double cwndMedian;
    final long totalRetrans;
    /** Null if it could not be written. */
    final File recording;

    Result(long startedUnixMs, String target, long bufferBytes, int connections, String control, long throughputBps,
            double cwndMedian, long totalRetrans, File recording) {
        this.startedUnixMs = startedUnixMs;
        this.target = target;
        this.bufferBytes = bufferBytes;
        this.connections = connections;
        this.control = control;
        this.throughputBps = throughputBps;
        this.cwndMedian = cwndMedian;
        this.totalRetrans = totalRetrans;
        this.recording = recording;
    }

    /** Null for a run without a result. */
    static Result of(Run run, File recording) {
        if (run.watch()) {
            return null;
        }
        Event summary = run.summary;
        long bytes = 0;
        long retransmitted = 0;
        for (Trace trace : run.traces) {
            bytes += trace.bytesAcked;
            for (int i = 0; i < trace.retransmits.size(); i++) {
                retransmitted += (long) trace.retransmits.value(i);
            }
        }
        long throughputBps = run.elapsedUs > 0 ? (long) (bytes * 8e6 / run.elapsedUs) : 0;
        // Without a summary, the engine or the app was killed; use what was reported until then.
        if (summary != null) {
            bytes = summary.bytesAcked;
            throughputBps = summary.throughputBps;
            retransmitted = Math.max(summary.totalRetrans, 0);
        }
        if (bytes == 0) {
            return null;
        }
        return new Result(run.startedUnixMs, run.settings.target(), run.settings.bufferBytes, run.settings.connections,
                run.control, throughputBps, run.cwndMedian(), retransmitted, recording);
    }
}
