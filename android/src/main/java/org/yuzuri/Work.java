package org.yuzuri;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;

/** One run on its own thread: resolves the address, starts the engine, reads its output and records it. */
final class Work extends Thread {
    /** The engine's exit with its code; the last item of a run. */
    static final class Ended {
        final int code;
        final String errors;

        Ended(int code, String errors) {
            this.code = code;
            this.errors = errors;
        }
    }

    /** A line that could not be parsed. */
    static final Object GARBLED = new Object();

    private final Engine.Place place;
    private final Settings settings;
    private final File file;
    private final File keyFile;
    private final long startedUnixMs;
    private final Inbox inbox;
    private Engine engine;
    private boolean stopped;
    private Recording.Writer writer;
    private boolean connected;
    private boolean failed;

    /**
     * Without settings, watches all flows as root. A group key is written to the key file if it is
     * needed.
     */
    Work(Engine.Place place, Settings settings, File file, File keyFile, long startedUnixMs, Inbox inbox) {
        super("run");
        this.place = place;
        this.settings = settings;
        this.file = file;
        this.keyFile = keyFile;
        this.startedUnixMs = startedUnixMs;
        this.inbox = inbox;
    }

    /** Ends the run soon; callable from any thread. */
    synchronized void end() {
        stopped = true;
        if (engine != null) {
            engine.stop();
        }
    }

    synchronized void kill() {
        if (engine != null) {
            engine.kill();
        }
    }

    @Override
    public void run() {
        Ended ended;
        try {
            try {
                ended = settings == null ? watch() : send();
            } finally {
                if (writer != null) {
                    close();
                }
            }
            inbox.put(ended);
        } catch (InterruptedException e) {
            kill();
        }
    }

    private Ended send() throws InterruptedException {
        InetAddress[] addresses;
        try {
            addresses = InetAddress.getAllByName(settings.host);
        } catch (UnknownHostException | SecurityException e) {
            inbox.put(Problem.error(R.string.error_name, e.getMessage(), settings.host));
            return new Ended(1, "");
        }
        try {
            writer = new Recording.Writer(file);
            record(Recording.head(settings, startedUnixMs));
        } catch (IOException e) {
            storage(e);
        }
        File groupKey = groupKey();
        Ended ended = new Ended(1, "");
        for (int i = 0; i < addresses.length; i++) {
            boolean last = i == addresses.length - 1;
            synchronized (this) {
                if (stopped && i > 0) {
                    return ended;
                }
                try {
                    engine = Engine.send(place, settings, addresses[i].getHostAddress(), Recording.arrows(file), groupKey);
                } catch (IOException e) {
                    inbox.put(Problem.error(R.string.error_engine_start, e.getMessage()));
                    return ended;
                }
                if (stopped) {
                    engine.stop();
                }
            }
            ended = listen(last);
            // If this address cannot be reached, another one may be.
            if (connected || !failed || last) {
                return ended;
            }
            failed = false;
        }
        return ended;
    }

    /**
     * Writes the group key to a file; returns null if none is needed or if writing fails. The transfer
     * then runs without it.
     */
    private File groupKey() throws InterruptedException {
        if (settings.sharing != Settings.Sharing.WITH_KEY) {
            return null;
        }
        try (OutputStream out = new FileOutputStream(keyFile)) {
            out.write(settings.groupKey.getBytes(StandardCharsets.US_ASCII));
            return keyFile;
        } catch (IOException e) {
            inbox.put(Problem.warning(R.string.error_sharing, e.getMessage()));
            return null;
        }
    }

    private Ended watch() throws InterruptedException {
        File folder = file.getParentFile();
        if (!folder.isDirectory() && !folder.mkdirs()) {
            inbox.put(Problem.warning(R.string.error_storage, "cannot make the folder " + folder));
        }
        synchronized (this) {
            try {
                engine = Engine.watch(place, file);
            } catch (IOException e) {
                inbox.put(Problem.error(R.string.error_no_root, e.getMessage()));
                return new Ended(1, "");
            }
            if (stopped) {
                engine.stop();
            }
        }
        Ended ended = listen(true);
        if (!connected) {
            inbox.put(Problem.error(R.string.error_root_refused, ended.errors));
        }
        return ended;
    }

    private Ended listen(boolean lastAddress) throws InterruptedException {
        for (String line = engine.next(); line != null; line = engine.next()) {
            Event event = EventReader.parse(line);
            if (event == null) {
                inbox.put(GARBLED);
                continue;
            }
            connected |= event.type == Event.Type.CONNECTED || event.type == Event.Type.SESSION;
            if (event.type == Event.Type.FAILED && !connected) {
                failed = true;
                // The app tries the next address.
                if (!lastAddress && !isStopped()) {
                    continue;
                }
            }
            if (settings != null) {
                record(line);
            }
            inbox.put(event);
        }
        int code = engine.end();
        return new Ended(code, engine.errors());
    }

    private synchronized boolean isStopped() {
        return stopped;
    }

    private void record(String line) throws InterruptedException {
        if (writer == null) {
            return;
        }
        try {
            writer.line(line);
        } catch (IOException e) {
            close();
            storage(e);
        }
    }

    private void close() {
        try {
            writer.close();
        } catch (IOException e) {
            // Every line that could be written has already been written.
        }
        writer = null;
    }

    private void storage(IOException e) throws InterruptedException {
        inbox.put(Problem.warning(R.string.error_storage, e.getMessage()));
    }
}
