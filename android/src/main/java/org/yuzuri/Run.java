package org.yuzuri;

import java.util.ArrayList;
import java.util.List;

/** A transfer or a watch: its settings, its data, and how it ended. Used by the main thread only. */
final class Run {
    enum State { CONNECTING, SENDING, WATCHING, STOPPING, DONE, STOPPED, FAILED }

    /** Maximum number of flows; those that were closed first are removed first. */
    private static final int MAX_FLOWS = 128;
    /** The starter's exit code if it could not start the engine. */
    private static final int NOT_STARTED = 127;
    private static final int SIGSYS = 31;
    private static final int SIGTERM = 15;
    /** More interfaces than a device uses at once. */
    private static final int MAX_SHARED = 8;
    /** No run is longer; a later time is invalid. */
    private static final long MAX_TIME_US = 10L * 86_400 * 1_000_000;

    /** Null for a watch. */
    final Settings settings;
    /** Whether it was read from a file. */
    boolean replayed;
    State state = State.CONNECTING;
    final List<Trace> traces = new ArrayList<>();
    /** The total of all connections, if there are several. */
    final Series totalMbps = new Series();
    final List<String> notes = new ArrayList<>();
    Problem problem;
    Event summary;
    Result result;
    String control = "";
    String source = "";
    long startedUnixMs;
    long elapsedUs;
    long bytesAcked;
    /** The time since which nothing has been acknowledged. */
    long silentSinceUs = -1;
    int garbled;
    String failure;
    private String failureKind = "";
    /** How it shared the uplink, by interface. */
    final List<Event> shared = new ArrayList<>();
    /** Whether the engine reported that it did not share, or stopped sharing. */
    boolean notShared;

    private long zeroNs = -1;

    Run(Settings settings, long startedUnixMs) {
        this.settings = settings;
        this.startedUnixMs = startedUnixMs;
    }

    boolean watch() {
        return settings == null;
    }

    boolean running() {
        return state.ordinal() <= State.STOPPING.ordinal();
    }

    boolean connected() {
        return !traces.isEmpty();
    }

    /** The time of the last data, from the start. */
    long endUs() {
        long end = elapsedUs;
        for (int i = 0; i < traces.size(); i++) {
            Trace trace = traces.get(i);
            end = Math.max(end, Math.max(trace.cwnd.lastTimeUs(), trace.rateMbps.lastTimeUs()));
        }
        return end;
    }

    /** Whether the throughput shown is the total of all connections. */
    boolean total() {
        return !watch() && settings.connections > 1;
    }

    void apply(Event event) {
        switch (event.type) {
            case CONNECTED: connectedTo(event); break;
            case BUFFER: buffer(event); break;
            case PROGRESS: progress(event); break;
            case NOTE:
                if (notes.size() < 100) {
                    notes.add(event.text);
                }
                break;
            case SUMMARY:
                summary = event;
                bytesAcked = event.bytesAcked;
                if (!event.control.isEmpty()) {
                    control = event.control;
                }
                break;
            case WARNING: warned(event); break;
            case SHARED:
                if (shared.size() < MAX_SHARED) {
                    shared.add(event);
                }
                break;
            case FAILED:
                failure = event.text;
                failureKind = event.kind;
                break;
            case SESSION: state = state == State.CONNECTING ? State.WATCHING : state; break;
            case FLOW: identity(event); break;
            case SAMPLE: case CLOSE: sample(event); break;
            default:
        }
    }

    /** A function other than the transfer failed; the transfer continues. */
    private void warned(Event event) {
        notShared |= event.kind.equals("sharing");
        // For a finished run the warning is no longer relevant.
        if (problem != null || replayed) {
            return;
        }
        if (event.kind.equals("recording")) {
            problem = Problem.warning(R.string.error_storage, event.text);
        } else if (event.kind.equals("sharing")) {
            problem = Problem.warning(R.string.error_sharing, event.text);
        }
    }

    private void connectedTo(Event event) {
        Trace trace = trace(event.id);
        trace.local = event.local;
        trace.peer = event.peer;
        trace.control = event.control;
        control = event.control;
        source = event.source;
        if (state == State.CONNECTING) {
            state = State.SENDING;
        }
    }

    private long timeUs(long monoNs) {
        if (zeroNs < 0) {
            zeroNs = monoNs;
        }
        return Math.min(Math.max((monoNs - zeroNs) / 1000, 0), MAX_TIME_US);
    }

    private void buffer(Event event) {
        Trace trace = trace(event.id);
        timeUs(event.firstWriteMonoNs);
        long acked = timeUs(event.ackedMonoNs);
        long sent = event.sentMonoNs >= 0 ? timeUs(event.sentMonoNs) : acked;
        trace.cwnd.add(sent, event.cwnd);
        trace.ssthresh.add(sent, event.ssthresh < 0 ? Float.NaN : event.ssthresh);
        if (event.srttUs >= 0) {
            trace.rttMs.add(sent, event.srttUs / 1000f);
        }
        long carried = event.carriedBps >= 0 ? event.carriedBps : event.throughputBps;
        if (carried >= 0 && event.complete) {
            trace.rateMbps.add(acked, carried / 1e6f);
        }
        if (event.totalRetrans >= 0) {
            trace.countRetransmits(sent, event.totalRetrans);
        }
        trace.bytesAcked += Math.max(event.bytes, 0);
        elapsedUs = Math.max(elapsedUs, acked);
        if (!event.source.isEmpty()) {
            source = event.source;
        }
    }

    private void progress(Event event) {
        long elapsed = Math.min(event.elapsedNs / 1000, MAX_TIME_US);
        elapsedUs = Math.max(elapsedUs, elapsed);
        bytesAcked = Math.max(bytesAcked, event.bytesAcked);
        totalMbps.add(elapsed, event.rateBps / 1e6f);
        if (event.rateBps > 0) {
            silentSinceUs = -1;
        } else if (silentSinceUs < 0) {
            silentSinceUs = elapsed;
        }
    }

    private void identity(Event event) {
        Trace trace = trace(event.id);
        trace.local = event.local;
        trace.peer = event.peer;
        trace.control = event.control;
        trace.process = event.process;
    }

    private void sample(Event event) {
        long at = timeUs(event.monoNs);
        Trace trace = trace(event.id);
        trace.cwnd.add(at, event.cwnd);
        trace.ssthresh.add(at, event.ssthresh < 0 ? Float.NaN : event.ssthresh);
        if (event.srttUs >= 0) {
            trace.rttMs.add(at, event.srttUs / 1000f);
        }
        if (event.totalRetrans >= 0) {
            trace.countRetransmitsFromHere(event.totalRetrans);
            trace.countRetransmits(at, event.totalRetrans);
        }
        if (event.bytesAcked >= 0) {
            trace.acked(at, event.bytesAcked);
        }
        trace.closed |= event.type == Event.Type.CLOSE;
        elapsedUs = Math.max(elapsedUs, at);
    }

    private Trace trace(long id) {
        for (int i = traces.size() - 1; i >= 0; i--) {
            if (traces.get(i).id == id) {
                return traces.get(i);
            }
        }
        if (traces.size() >= (watch() ? MAX_FLOWS : Settings.MAX_CONNECTIONS)) {
            int gone = 0;
            for (int i = 0; i < traces.size(); i++) {
                if (traces.get(i).closed) {
                    gone = i;
                    break;
                }
            }
            traces.remove(gone);
        }
        Trace trace = new Trace(id);
        traces.add(trace);
        return trace;
    }

    /**
     * Handles the engine's exit; the code is 128 plus the signal number if a signal ended it. The state
     * and the message depend on what the engine reported before.
     */
    void finish(int exitCode, String errors) {
        boolean stopped = state == State.STOPPING || summary != null && summary.stopped;
        if (problem != null && !problem.warning) {
            state = State.FAILED;
        } else if (watch()) {
            state = State.DONE;
        } else if (failure != null && !(stopped && summary == null)) {
            state = State.FAILED;
            problem = Problem.ofTransfer(failureKind, failure, connected(), settings);
        } else if (summary != null) {
            state = stopped ? State.STOPPED : State.DONE;
        } else if (stopped && (failure != null || exitCode == 128 + SIGTERM)) {
            // It was stopped before the connection was established.
            state = State.STOPPED;
        } else if (!replayed) {
            state = State.FAILED;
            problem = ended(exitCode, errors);
        } else {
            state = State.STOPPED;
        }
    }

    private static Problem ended(int exitCode, String errors) {
        if (exitCode == 128 + SIGSYS) {
            return Problem.error(R.string.error_engine_blocked, "SIGSYS");
        }
        if (exitCode == NOT_STARTED) {
            return Problem.error(R.string.error_engine_start, errors);
        }
        String how = exitCode > 128 ? "signal " + (exitCode - 128) : "code " + exitCode;
        return Problem.error(R.string.error_engine_died, errors.isEmpty() ? how : how + ": " + errors);
    }

    /** The median of the windows of all connections, segments. */
    float cwndMedian() {
        if (traces.size() == 1) {
            return traces.get(0).cwnd.median();
        }
        Series all = new Series();
        for (Trace trace : traces) {
            float median = trace.cwnd.median();
            if (!Float.isNaN(median)) {
                all.add(0, median);
            }
        }
        return all.median();
    }
}
