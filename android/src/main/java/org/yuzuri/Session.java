package org.yuzuri;

import android.content.Context;
import android.content.Intent;
import android.net.wifi.WifiManager;
import android.os.Handler;
import android.os.Looper;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * The displayed run, the results, and access to the engine. It lives as long as the app's process, so
 * that rotating the screen or leaving the app loses nothing. Used by the main thread only.
 */
final class Session {
    /** Called when the state changes. */
    interface Listener {
        void sessionChanged();
    }

    /** How long the engine may take to exit after Stop: it waits 3 s for acknowledgements. */
    private static final long TIMEOUT_MS = 8_000;

    final Viewport viewport = new Viewport();
    /** Newest first. */
    final List<Result> results = new ArrayList<>();
    /** The displayed run; null at first. */
    Run run;
    /** The recording of the displayed run; null if there is none. */
    File recording;
    /** A problem that belongs to no run: a file could not be opened or shared. */
    Problem problem;
    Engine.Place place;

    private final Context context;
    private final Handler main = new Handler(Looper.getMainLooper());
    private final List<Listener> listeners = new ArrayList<>();
    private final File folder;
    private Work work;
    /** The recording of the running or last run. */
    private File begunFile;
    /** Held while a transfer shares the uplink: without it Wi-Fi does not deliver multicast to apps. */
    private WifiManager.MulticastLock hearing;
    private long loading;

    Session(Context context) {
        this.context = context;
        folder = new File(context.getFilesDir(), "recordings");
        place = new Engine.Place(context.getApplicationInfo().nativeLibraryDir);
    }

    void listen(Listener listener) {
        listeners.add(listener);
    }

    void forget(Listener listener) {
        listeners.remove(listener);
    }

    void changed() {
        for (Listener listener : new ArrayList<>(listeners)) {
            listener.sessionChanged();
        }
    }

    boolean running() {
        return work != null;
    }

    // --- runs ---

    void send(Settings settings) {
        begin(settings);
    }

    /** Watches all flows, as root. */
    void watch() {
        begin(null);
    }

    private void begin(Settings settings) {
        if (work != null) {
            return;
        }
        loading++;
        long now = System.currentTimeMillis();
        Run begun = new Run(settings, now);
        run = begun;
        problem = null;
        viewport.showWhole();
        viewport.cursorUs = -1;
        viewport.flow = -1;
        recording = Recording.fresh(folder, now, settings == null ? Recording.ARROW_ENDING : Recording.ENDING);
        Inbox inbox = new Inbox(batch -> take(begun, batch));
        begunFile = recording;
        work = new Work(place, settings, recording, new File(context.getFilesDir(), "group.key"), now, inbox);
        work.start();
        if (settings != null && settings.sharing != Settings.Sharing.NO) {
            hear();
        }
        try {
            context.startForegroundService(new Intent(context, RunService.class));
        } catch (IllegalStateException e) {
            // Android does not allow a foreground service now: the run continues as long as the app is in
            // the foreground.
        }
        changed();
    }

    private void hear() {
        WifiManager wifi = context.getSystemService(WifiManager.class);
        if (wifi != null) {
            hearing = wifi.createMulticastLock("yuzuri");
            hearing.acquire();
        }
    }

    /** Stops the run; the engine waits some seconds for outstanding acknowledgements. */
    void stop() {
        if (work == null || run.state == Run.State.STOPPING) {
            return;
        }
        run.state = Run.State.STOPPING;
        Work stopping = work;
        stopping.end();
        main.postDelayed(() -> {
            if (work == stopping) {
                stopping.kill();
            }
        }, TIMEOUT_MS);
        changed();
    }

    private void take(Run of, List<Object> batch) {
        for (Object item : batch) {
            if (item instanceof Event) {
                of.apply((Event) item);
            } else if (item instanceof Problem) {
                Problem said = (Problem) item;
                if (of.problem == null || of.problem.warning) {
                    of.problem = said;
                }
                of.notShared |= said.sentence == R.string.error_sharing;
                if (said.sentence == R.string.error_storage && of == run && !of.watch()) {
                    recording = null;
                }
            } else if (item == Work.GARBLED) {
                of.garbled++;
            } else if (item instanceof Work.Ended) {
                ended(of, (Work.Ended) item);
            }
        }
        changed();
    }

    private void ended(Run of, Work.Ended ended) {
        work = null;
        if (hearing != null) {
            hearing.release();
            hearing = null;
        }
        of.finish(ended.code, ended.errors);
        if (of.watch()) {
            if (!ended.errors.isEmpty()) {
                of.notes.addAll(Arrays.asList(ended.errors.split("\n")));
            }
            if (recording != null && !recording.exists()) {
                recording = null;
            }
            return;
        }
        of.result = Result.of(of, recording);
        if (of.result != null) {
            results.add(0, of.result);
        }
        if (recording == null || of.result == null) {
            // Nothing was sent, so that there is nothing to keep. Without the app's recording, nothing
            // would refer to the engine's.
            Recording.arrows(begunFile).delete();
        }
        if (recording == null) {
            return;
        }
        if (of.result == null) {
            recording.delete();
            recording = null;
            return;
        }
        try (Recording.Writer writer = Recording.Writer.further(recording)) {
            writer.line(Recording.tail(of.settings, of.result));
        } catch (IOException e) {
            of.problem = of.problem == null ? Problem.warning(R.string.error_storage, e.getMessage()) : of.problem;
        }
    }

    // --- recordings ---

    /** Reads the results from the recordings on a thread. */
    void loadResults() {
        Thread thread = new Thread(() -> {
            List<Result> found = new ArrayList<>();
            for (File file : recordings()) {
                Result result = file.getName().endsWith(Recording.ENDING) ? Recording.result(file) : null;
                if (result != null) {
                    found.add(result);
                }
            }
            main.post(() -> {
                // Runs that ended meanwhile are already in the list.
                for (Result result : found) {
                    boolean known = false;
                    for (Result other : results) {
                        known |= result.recording.equals(other.recording);
                    }
                    boolean current = running() && result.recording.equals(recording);
                    if (!known && !current) {
                        results.add(result);
                    }
                }
                changed();
            });
        }, "results");
        thread.start();
    }

    /** Newest first. */
    List<File> recordings() {
        File[] files = folder.listFiles();
        if (files == null) {
            return new ArrayList<>();
        }
        List<File> list = new ArrayList<>(Arrays.asList(files));
        Collections.sort(list, (a, b) -> b.getName().compareTo(a.getName()));
        return list;
    }

    /**
     * The file of the displayed run to share: the engine's recording, otherwise the app's; null if there
     * is none.
     */
    File shareable() {
        File arrows = recording == null ? null : Recording.arrows(recording);
        return arrows != null && arrows.length() > 0 ? arrows : recording;
    }

    void deleteAll() {
        for (File file : recordings()) {
            if (!(running() && Recording.name(file).equals(Recording.name(begunFile)))) {
                file.delete();
            }
        }
        results.clear();
        if (!running()) {
            recording = null;
            run = null;
            viewport.showWhole();
        }
        changed();
    }

    /** A source of a stream; opened on a thread. */
    interface Source {
        InputStream open() throws IOException;
    }

    void show(Result result) {
        if (result.recording != null) {
            open(() -> new FileInputStream(result.recording), result.recording);
        }
    }

    /** Reads a recording on a thread and shows it, unless another run was started meanwhile. */
    void open(Source source, File file) {
        if (work != null) {
            return;
        }
        long mine = ++loading;
        new Thread(() -> {
            Run read = null;
            Problem wrong = null;
            try (InputStream in = source.open()) {
                if (in == null) {
                    throw new IOException("no such file");
                }
                read = Recording.run(in);
            } catch (Recording.Foreign e) {
                wrong = Problem.error(e.arrow ? R.string.error_arrow_recording : R.string.error_not_recording, "");
            } catch (IOException | RuntimeException e) {
                // A foreign stream may fail in any way.
                wrong = Problem.error(R.string.error_unreadable, e.getMessage());
            }
            Run shown = read;
            Problem said = wrong;
            main.post(() -> {
                if (mine != loading || work != null) {
                    return;
                }
                problem = said;
                if (shown != null) {
                    run = shown;
                    recording = file;
                    viewport.showWhole();
                    viewport.cursorUs = -1;
                }
                changed();
            });
        }, "open").start();
    }
}
