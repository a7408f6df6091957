package org.yuzuri;

import android.util.JsonReader;
import android.util.JsonToken;
import java.io.IOException;
import java.io.StringReader;

/**
 * Parses JSON lines into events: those of `yuzuri send --json`, of `yuzuri watch --json`, and of the
 * app's recordings. Any line yields an event or null; parsing never throws. Unknown names are ignored.
 */
final class EventReader {
    /** Connection numbers are small; a larger one is not from a transfer of the app. */
    private static final long MAX_CONNECTIONS = 1000;
    /** Maximum length of a name or a message. */
    private static final int MAX_TEXT = 4000;

    private EventReader() {}

    /** Parses a line; null if it is not an event. */
    static Event parse(String line) {
        Event event = new Event();
        event.type = null;
        try (JsonReader json = new JsonReader(new StringReader(line))) {
            json.beginObject();
            while (json.hasNext()) {
                field(json, event, json.nextName());
            }
            json.endObject();
            if (json.peek() != JsonToken.END_DOCUMENT) {
                return null;
            }
        } catch (IOException | IllegalStateException | NumberFormatException e) {
            return null;
        }
        // Lines of a watch have a kind and no type.
        if (event.type == null) {
            event.type = event.kind.isEmpty() ? Event.Type.OTHER : kind(event.kind);
        }
        return sound(event) ? event : null;
    }

    private static boolean sound(Event event) {
        switch (event.type) {
            case CONNECTED:
                return connection(event);
            case BUFFER:
                return connection(event) && event.ackedMonoNs >= 0 && event.firstWriteMonoNs >= 0 && event.cwnd >= 0;
            case PROGRESS:
                return event.elapsedNs >= 0 && event.rateBps >= 0;
            case SUMMARY:
                return event.throughputBps >= 0 && event.bytesAcked >= 0;
            case SHARED:
                return event.others >= 0 && event.durationNs >= 0 && event.boundedNs >= 0;
            case RUN:
                return event.version >= 1 && event.bufferBytes >= 1 && event.connections >= 1;
            case FLOW:
                return event.id >= 0;
            case SAMPLE:
            case CLOSE:
                return event.id >= 0 && event.monoNs >= 0 && event.cwnd >= 0;
            default:
                return true;
        }
    }

    private static boolean connection(Event event) {
        return event.id >= 0 && event.id < MAX_CONNECTIONS;
    }

    private static void field(JsonReader json, Event event, String name) throws IOException {
        switch (name) {
            case "type": event.type = type(text(json)); break;
            case "kind": event.kind = text(json); break;
            case "connection": event.id = number(json); break;
            case "flow": flow(json, event); break;
            case "session": case "account": case "setting": json.skipValue(); break;
            case "index": event.index = number(json); break;
            case "bytes": event.bytes = number(json); break;
            case "complete": event.complete = flag(json); break;
            case "stopped": event.stopped = flag(json); break;
            case "first_write_mono_ns": event.firstWriteMonoNs = number(json); break;
            case "sent_mono_ns": event.sentMonoNs = number(json); break;
            case "acked_mono_ns": event.ackedMonoNs = number(json); break;
            case "mono_ns": event.monoNs = number(json); break;
            case "throughput_bps": event.throughputBps = number(json); break;
            case "carried_bps": event.carriedBps = number(json); break;
            case "cwnd": event.cwnd = number(json); break;
            case "ssthresh": event.ssthresh = number(json); break;
            case "srtt_us": event.srttUs = number(json); break;
            case "min_rtt_us": event.minRttUs = number(json); break;
            case "total_retrans": event.totalRetrans = number(json); break;
            case "elapsed_ns": event.elapsedNs = number(json); break;
            case "bytes_acked": event.bytesAcked = number(json); break;
            case "bytes_unacknowledged": event.bytesUnacknowledged = number(json); break;
            case "rate_bps": event.rateBps = number(json); break;
            case "left_ns": event.leftNs = number(json); break;
            case "buffers": event.buffers = number(json); break;
            case "duration_ns": event.durationNs = number(json); break;
            case "per_buffer": spread(json, event); break;
            case "connections": connections(json, event); break;
            case "ca_state": event.caState = text(json); break;
            case "source": event.source = text(json); break;
            case "message": case "text": event.text = text(json); break;
            case "local": event.local = text(json); break;
            case "peer": event.peer = text(json); break;
            case "congestion_control": event.control = text(json); break;
            case "target": event.target = text(json); break;
            case "interface": event.network = text(json); break;
            case "others": event.others = number(json); break;
            case "bounded_ns": event.boundedNs = number(json); break;
            case "port": event.port = number(json); break;
            case "version": event.version = number(json); break;
            case "buffer_bytes": event.bufferBytes = number(json); break;
            case "duration_s": event.durationS = number(json); break;
            case "started_unix_ms": event.startedUnixMs = number(json); break;
            case "cwnd_median": event.cwndMedian = decimal(json); break;
            default: json.skipValue();
        }
    }

    private static Event.Type type(String word) {
        switch (word) {
            case "run": return Event.Type.RUN;
            case "connected": return Event.Type.CONNECTED;
            case "buffer": return Event.Type.BUFFER;
            case "progress": return Event.Type.PROGRESS;
            case "note": return Event.Type.NOTE;
            case "warning": return Event.Type.WARNING;
            case "summary": return Event.Type.SUMMARY;
            case "shared": return Event.Type.SHARED;
            case "failed": return Event.Type.FAILED;
            case "result": return Event.Type.RESULT;
            default: return Event.Type.OTHER;
        }
    }

    private static Event.Type kind(String word) {
        switch (word) {
            case "session": return Event.Type.SESSION;
            case "flow": return Event.Type.FLOW;
            case "account": case "setting": return Event.Type.OTHER;
            case "close": return Event.Type.CLOSE;
            default: return Event.Type.SAMPLE;
        }
    }

    /** Rows of a flow have its ID; the row with its identity has an object. */
    private static void flow(JsonReader json, Event event) throws IOException {
        if (json.peek() != JsonToken.BEGIN_OBJECT) {
            event.id = number(json);
            return;
        }
        json.beginObject();
        while (json.hasNext()) {
            switch (json.nextName()) {
                case "id": event.id = number(json); break;
                case "local": event.local = text(json); break;
                case "remote": event.peer = text(json); break;
                case "congestion_control": event.control = text(json); break;
                case "owner": owner(json, event); break;
                default: json.skipValue();
            }
        }
        json.endObject();
    }

    private static void owner(JsonReader json, Event event) throws IOException {
        if (json.peek() != JsonToken.BEGIN_OBJECT) {
            json.skipValue();
            return;
        }
        json.beginObject();
        while (json.hasNext()) {
            if (json.nextName().equals("name")) {
                event.process = text(json);
            } else {
                json.skipValue();
            }
        }
        json.endObject();
    }

    private static void spread(JsonReader json, Event event) throws IOException {
        if (json.peek() != JsonToken.BEGIN_OBJECT) {
            json.skipValue();
            return;
        }
        json.beginObject();
        while (json.hasNext()) {
            switch (json.nextName()) {
                case "min_bps": event.minBps = number(json); break;
                case "median_bps": event.medianBps = number(json); break;
                case "max_bps": event.maxBps = number(json); break;
                default: json.skipValue();
            }
        }
        json.endObject();
    }

    /**
     * In a recording's first line, the number of connections; in a summary, the list of connections, from
     * which the sums and the first RTT are taken.
     */
    private static void connections(JsonReader json, Event event) throws IOException {
        if (json.peek() != JsonToken.BEGIN_ARRAY) {
            event.connections = number(json);
            return;
        }
        json.beginArray();
        while (json.hasNext()) {
            if (json.peek() != JsonToken.BEGIN_OBJECT) {
                json.skipValue();
                continue;
            }
            json.beginObject();
            while (json.hasNext()) {
                switch (json.nextName()) {
                    case "srtt_us": event.srttUs = Math.max(event.srttUs, number(json)); break;
                    case "min_rtt_us": event.minRttUs = least(event.minRttUs, number(json)); break;
                    case "busy_us": event.busyUs = sum(event.busyUs, number(json)); break;
                    case "rwnd_limited_us": event.rwndLimitedUs = sum(event.rwndLimitedUs, number(json)); break;
                    case "sndbuf_limited_us": event.sndbufLimitedUs = sum(event.sndbufLimitedUs, number(json)); break;
                    case "congestion_control": event.control = text(json); break;
                    default: json.skipValue();
                }
            }
            json.endObject();
        }
        json.endArray();
    }

    private static long least(long a, long b) {
        return a < 0 ? b : b < 0 ? a : Math.min(a, b);
    }

    private static long sum(long a, long b) {
        // Times are below 2^53; larger values are clamped.
        return b < 0 ? a : Math.min(Math.max(a, 0) + Math.min(b, 1L << 60), 1L << 60);
    }

    /** An integer; {@link Event#NONE} for null. The engine never writes negative ones. */
    private static long number(JsonReader json) throws IOException {
        if (json.peek() == JsonToken.NULL) {
            json.nextNull();
            return Event.NONE;
        }
        if (json.peek() != JsonToken.NUMBER) {
            throw new IllegalStateException("no number");
        }
        long value = json.nextLong();
        if (value < 0) {
            throw new NumberFormatException("negative");
        }
        return value;
    }

    private static double decimal(JsonReader json) throws IOException {
        if (json.peek() == JsonToken.NULL) {
            json.nextNull();
            return Double.NaN;
        }
        return json.nextDouble();
    }

    private static boolean flag(JsonReader json) throws IOException {
        return json.nextBoolean();
    }

    private static String text(JsonReader json) throws IOException {
        if (json.peek() == JsonToken.NULL) {
            json.nextNull();
            return "";
        }
        if (json.peek() != JsonToken.STRING) {
            throw new IllegalStateException("no text");
        }
        String text = json.nextString();
        return text.length() > MAX_TEXT ? text.substring(0, MAX_TEXT) : text;
    }
}
