package org.yuzuri;

import android.os.Handler;
import android.os.Looper;
import java.util.ArrayList;
import java.util.List;

/** Passes messages from a thread to the main thread in batches. A sender blocks while the queue is full. */
final class Inbox {
    private static final int MAX = 20_000;

    /** Receives a batch on the main thread. */
    interface Reader {
        void read(List<Object> batch);
    }

    private final Handler main = new Handler(Looper.getMainLooper());
    private final Reader reader;
    private List<Object> waiting = new ArrayList<>();

    Inbox(Reader reader) {
        this.reader = reader;
    }

    void put(Object item) throws InterruptedException {
        synchronized (this) {
            while (waiting.size() >= MAX) {
                wait();
            }
            waiting.add(item);
            if (waiting.size() > 1) {
                return;
            }
        }
        main.post(this::hand);
    }

    private void hand() {
        List<Object> batch;
        synchronized (this) {
            batch = waiting;
            waiting = new ArrayList<>();
            notifyAll();
        }
        reader.read(batch);
    }
}
