package org.yuzuri;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * The measuring program: `yuzuri` itself, packaged as a library because Android lets apps execute
 * programs only from the library folder. A small program (src/main/c/starter.c) starts it, handles system
 * calls that Android forbids, and ends the engine when the app exits or closes its standard input.
 */
final class Engine {
    /** The paths of the programs. Changed by tests only. */
    static final class Place {
        final File starter;
        final File engine;
        String su = "su";

        Place(String libraries) {
            starter = new File(libraries, "libstarter.so");
            engine = new File(libraries, "libyuzuri.so");
        }
    }

    private static final int MAX_STDERR = 4000;

    private final Process process;
    private final Lines lines;
    private final Thread errorReader;
    private final ByteArrayOutputStream errors = new ByteArrayOutputStream();

    private Engine(List<String> command) throws IOException {
        process = new ProcessBuilder(command).start();
        lines = new Lines(process.getInputStream());
        errorReader = new Thread(this::readErrors, "engine errors");
        errorReader.setDaemon(true);
        errorReader.start();
    }

    /**
     * Sends to a numeric address and records to a file. A group key is passed in a separate file, since
     * every program on the device may read command-line arguments.
     */
    static Engine send(Place place, Settings settings, String address, File recording, File groupKey) throws IOException {
        List<String> words = new ArrayList<>(Arrays.asList(
                place.starter.getPath(), place.engine.getPath(), "send", Settings.target(address, settings.port), "--json",
                "--buffer", Long.toString(settings.bufferBytes),
                "--connections", Integer.toString(settings.connections),
                "--time", settings.durationS + "s",
                // Replace the file of an address that did not answer.
                "--record", recording.getPath(), "--overwrite"));
        if (!settings.control.isEmpty()) {
            Collections.addAll(words, "--control", settings.control);
        }
        if (settings.waitAck) {
            words.add("--wait-ack");
        }
        if (groupKey != null) {
            Collections.addAll(words, "--share", "--share-key-file", groupKey.getPath());
        } else if (settings.sharing == Settings.Sharing.WITHOUT_KEY) {
            Collections.addAll(words, "--share", "--share-keyless");
        }
        return new Engine(words);
    }

    /** Watches all flows as root and records to the file. */
    static Engine watch(Place place, File recording) throws IOException {
        String file = quoted(recording.getPath());
        // The app itself must be able to read the file that root wrote.
        String script = quoted(place.starter.getPath()) + " " + quoted(place.engine.getPath())
                + " watch --json --density 20ms --record " + file
                + "; code=$?; [ ! -e " + file + " ] || chmod 644 " + file + "; exit $code";
        return new Engine(Arrays.asList(place.su, "-c", script));
    }

    private static String quoted(String word) {
        return "'" + word.replace("'", "'\\''") + "'";
    }

    private void readErrors() {
        byte[] chunk = new byte[1024];
        try (InputStream in = process.getErrorStream()) {
            for (int count = in.read(chunk); count >= 0; count = in.read(chunk)) {
                synchronized (errors) {
                    errors.write(chunk, 0, Math.min(count, MAX_STDERR - Math.min(errors.size(), MAX_STDERR)));
                }
            }
        } catch (IOException e) {
            // The engine was stopped: there is nothing more to read.
        }
    }

    /** The next line; null at the end. */
    String next() {
        try {
            return lines.next();
        } catch (IOException e) {
            return null;
        }
    }

    /** Waits for the exit; returns the exit code. */
    int end() throws InterruptedException {
        int code = process.waitFor();
        errorReader.join(2000);
        return code;
    }

    /** The text that it wrote to standard error. */
    String errors() {
        synchronized (errors) {
            return new String(errors.toByteArray(), StandardCharsets.UTF_8).trim();
        }
    }

    /**
     * Asks it to exit; it waits up to 3 s for outstanding acknowledgements. Process.destroy() would close
     * its output as well.
     */
    void stop() {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            // It has already exited.
        }
    }

    void kill() {
        process.destroyForcibly();
    }
}
