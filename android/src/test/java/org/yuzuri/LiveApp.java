package org.yuzuri;

import android.widget.Button;
import android.widget.TextView;
import org.junit.After;
import org.junit.Before;
import org.robolectric.Robolectric;
import org.robolectric.android.controller.ActivityController;

/**
 * The app on its screen with the real engine installed; everything that a test starts has ended before
 * the next test.
 */
public abstract class LiveApp {
    ActivityController<MainActivity> controller;
    Session session;
    Engine.Place place;

    @Before
    public void begin() throws Exception {
        place = Harness.install();
        session = Harness.session();
        controller = Robolectric.buildActivity(MainActivity.class).setup();
    }

    @After
    public void end() throws Exception {
        session.stop();
        awaitEnd(15);
        controller.close();
    }

    void awaitEnd(int seconds) {
        Harness.await("the engine has ended", seconds, () -> !session.running());
    }

    void awaitBuffers() {
        Harness.await("buffers come", 10, () -> session.run.connected() && session.run.traces.get(0).cwnd.size() > 3);
    }

    /** Presses Start or Stop. */
    void press() {
        ((Button) controller.get().findViewById(R.id.start)).performClick();
    }

    String text(int id) {
        return ((TextView) controller.get().findViewById(id)).getText().toString();
    }

    static String words(int sentence, Object... arguments) {
        return Harness.context().getString(sentence, arguments);
    }
}
