package org.yuzuri;

import android.util.JsonWriter;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.text.SimpleDateFormat;
import java.util.Arrays;
import java.util.Date;
import java.util.Locale;

/**
 * A recording of a run: the engine's lines unchanged, preceded by a line with the settings and followed
 * by a line with the row of the results table. Next to it is the engine's own recording, for other
 * programs. If the end is missing because the app was killed, the run is restored from the existing
 * lines.
 */
final class Recording {
    static final int VERSION = 1;
    static final String ENDING = ".jsonl";
    /** The extension of the engine's recordings: of a watch, and next to each recording of a transfer. */
    static final String ARROW_ENDING = ".arrows";
    private static final int MAX_TAIL = 1 << 12;

    private Recording() {}

    /** Not a recording of the app. */
    static final class Foreign extends IOException {
        final boolean arrow;

        Foreign(boolean arrow) {
            super("no recording of the app");
            this.arrow = arrow;
        }
    }

    static File fresh(File folder, long unixMs, String ending) {
        String name = new SimpleDateFormat("yyyyMMdd-HHmmss", Locale.ROOT).format(new Date(unixMs));
        String free = name;
        for (int i = 2; new File(folder, free + ENDING).exists() || new File(folder, free + ARROW_ENDING).exists(); i++) {
            free = name + "-" + i;
        }
        return new File(folder, free + ending);
    }

    /** The name of a recording without its extension: a transfer has two files. */
    static String name(File file) {
        return file.getName().replaceFirst("\\.[a-z]+$", "");
    }

    /** The engine's own recording, which `yuzuri replay` opens, next to the app's. */
    static File arrows(File file) {
        return new File(file.getParentFile(), name(file) + ARROW_ENDING);
    }

    static String head(Settings settings, long startedUnixMs) {
        return object("run", settings.host, settings.port, settings.bufferBytes, settings.connections, settings.durationS,
                settings.control, startedUnixMs, null);
    }

    static String tail(Settings settings, Result result) {
        return object("result", settings.host, settings.port, settings.bufferBytes, settings.connections,
                settings.durationS, result.control, result.startedUnixMs, result);
    }

    private static String object(String type, String host, int port, long bufferBytes, int connections, long durationS,
            String control, long startedUnixMs, Result result) {
        StringWriter text = new StringWriter();
        try (JsonWriter json = new JsonWriter(text)) {
            json.beginObject();
            json.name("type").value(type).name("version").value(VERSION);
            json.name("target").value(host).name("port").value(port);
            json.name("buffer_bytes").value(bufferBytes).name("connections").value(connections);
            json.name("duration_s").value(durationS).name("congestion_control").value(control);
            json.name("started_unix_ms").value(startedUnixMs);
            if (result != null) {
                json.name("throughput_bps").value(result.throughputBps);
                json.name("cwnd_median");
                if (Double.isNaN(result.cwndMedian)) {
                    json.nullValue();
                } else {
                    json.value(result.cwndMedian);
                }
                json.name("total_retrans").value(result.totalRetrans);
            }
            json.endObject();
        } catch (IOException e) {
            throw new AssertionError("a string takes all", e);
        }
        return text.toString();
    }

    /**
     * Writes lines. Each line has reached the kernel when {@link #line} returns, so that a killed app
     * loses none.
     */
    static final class Writer implements Closeable {
        private final OutputStream out;

        Writer(File file) throws IOException {
            this(file, false);
        }

        private Writer(File file, boolean further) throws IOException {
            File folder = file.getParentFile();
            if (folder != null && !folder.isDirectory() && !folder.mkdirs()) {
                throw new IOException("cannot make the folder " + folder);
            }
            out = new BufferedOutputStream(new FileOutputStream(file, further), 1 << 14);
        }

        /** Appends to a file. */
        static Writer further(File file) throws IOException {
            return new Writer(file, true);
        }

        void line(String line) throws IOException {
            out.write(line.getBytes(StandardCharsets.UTF_8));
            out.write('\n');
            out.flush();
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }

    /** Receives each event of a recording. */
    interface Taker {
        void take(Event event, String line) throws IOException;
    }

    /** Reads a recording of the app; returns the number of lines that could not be parsed. */
    static int read(InputStream in, Taker taker) throws IOException {
        Lines lines = new Lines(in);
        String line = lines.next();
        Event head = line == null ? null : EventReader.parse(line);
        if (head == null || head.type != Event.Type.RUN || head.version > VERSION) {
            // An Arrow stream starts with FF FF FF FF, which is not text.
            throw new Foreign(line != null && line.startsWith("\uFFFD\uFFFD\uFFFD\uFFFD"));
        }
        int garbled = 0;
        for (; line != null; line = lines.next()) {
            Event event = EventReader.parse(line);
            if (event == null) {
                garbled++;
            } else {
                taker.take(event, line);
            }
        }
        return garbled;
    }

    /** Restores the run of a recording. */
    static Run run(InputStream in) throws IOException {
        Run[] run = {null};
        int garbled = read(in, (event, line) -> {
            if (event.type == Event.Type.RUN) {
                int connections = (int) Math.min(event.connections, Settings.MAX_CONNECTIONS);
                int port = (int) Math.min(Math.max(event.port, 0), 65535);
                Settings settings = new Settings(event.target, port, event.bufferBytes, connections,
                        Math.max(event.durationS, 0), event.control, false);
                run[0] = new Run(settings, Math.max(event.startedUnixMs, 0));
                run[0].replayed = true;
            } else {
                run[0].apply(event);
            }
        });
        run[0].garbled = garbled;
        run[0].finish(0, "");
        return run[0];
    }

    /**
     * The result of a recording: from its last line, otherwise computed from its events; null if there is
     * none.
     */
    static Result result(File file) {
        try {
            Event end = EventReader.parse(lastLine(file));
            if (end != null && end.type == Event.Type.RESULT && end.throughputBps >= 0) {
                int connections = (int) Math.min(end.connections, Settings.MAX_CONNECTIONS);
                return new Result(end.startedUnixMs, Settings.target(end.target, (int) end.port), end.bufferBytes,
                        connections, end.control, end.throughputBps, end.cwndMedian, Math.max(end.totalRetrans, 0), file);
            }
            try (InputStream in = new FileInputStream(file)) {
                return Result.of(run(in), file);
            }
        } catch (IOException e) {
            return null;
        }
    }

    private static String lastLine(File file) throws IOException {
        try (RandomAccessFile in = new RandomAccessFile(file, "r")) {
            long from = Math.max(in.length() - MAX_TAIL, 0);
            byte[] bytes = new byte[(int) (in.length() - from)];
            in.seek(from);
            in.readFully(bytes);
            int end = bytes.length;
            if (end > 0 && bytes[end - 1] == '\n') {
                end--;
            }
            int start = end;
            while (start > 0 && bytes[start - 1] != '\n') {
                start--;
            }
            return new String(Arrays.copyOfRange(bytes, start, end), StandardCharsets.UTF_8);
        }
    }
}
