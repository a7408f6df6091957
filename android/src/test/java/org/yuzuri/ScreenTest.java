package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import android.graphics.Bitmap;
import java.io.FileInputStream;
import java.util.Locale;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;

/**
 * The whole screen with a recording that the engine made in the laboratory: two phones behind one access
 * point.
 */
@RunWith(RobolectricTestRunner.class)
public class ScreenTest {
    private static final String PHONE = "w412dp-h892dp-port";
    private ActivityController<MainActivity> controller;
    private Locale locale;

    @Before
    public void keepLocale() {
        locale = Locale.getDefault();
    }

    @After
    public void close() {
        if (controller != null) {
            controller.close();
        }
        Locale.setDefault(locale);
        RuntimeEnvironment.setFontScale(1);
    }

    private MainActivity shown() throws Exception {
        Session session = Harness.session();
        controller = Robolectric.buildActivity(MainActivity.class).setup();
        session.open(() -> new FileInputStream(Harness.RECORDING), null);
        Harness.await("the recording is shown", 10, () -> session.run != null);
        long start = session.run.startedUnixMs;
        session.results.add(new Result(start, "server:4950", 250_000, 1, "cubic", 8_315_840, 78, 26, null));
        session.results.add(new Result(start, "server:4950", 1_000_000, 1, "cubic", 9_120_000, 81, 19, null));
        session.results.add(new Result(start, "server:4950", 4_000_000, 1, "reno", 9_410_000, 74, 12, null));
        session.results.add(new Result(start, "server:4950", 64_000, 4, "cubic", 7_050_000, 22, 41, null));
        session.changed();
        return controller.get();
    }

    @Test
    @Config(qualifiers = PHONE + "-notnight-420dpi")
    public void light() throws Exception {
        MainActivity activity = shown();
        Bitmap drawn = Harness.screen(activity);
        assertEquals("a whole screen", 1081, drawn.getWidth());
        assertTrue("the window is drawn", Harness.count(drawn, activity.getColor(R.color.cwnd)) > 1000);
        assertTrue("the throughput is drawn", Harness.count(drawn, activity.getColor(R.color.rate)) > 1000);
        Harness.golden(drawn, "light");
    }

    @Test
    @Config(qualifiers = PHONE + "-notnight-420dpi")
    public void theTableOfResults() throws Exception {
        MainActivity activity = shown();
        org.robolectric.shadows.ShadowLooper.idleMainLooper();
        android.view.View scroll = activity.findViewById(R.id.scroll);
        scroll.scrollTo(0, 100_000);
        Harness.golden(Harness.screen(activity), "results");
    }

    @Test
    @Config(qualifiers = PHONE + "-night-420dpi")
    public void darkWithEverything() throws Exception {
        MainActivity activity = shown();
        Session session = Harness.session();
        session.viewport.showSsthresh = true;
        session.viewport.showRtt = true;
        session.viewport.cursorUs = 27_000_000;
        session.changed();
        Harness.golden(Harness.screen(activity), "dark");
    }

    @Test
    @Config(qualifiers = "ja-" + PHONE + "-night-420dpi")
    public void japanese() throws Exception {
        Harness.golden(Harness.screen(shown()), "japanese");
    }

    @Test
    @Config(qualifiers = "w892dp-h412dp-land-notnight-420dpi")
    public void lying() throws Exception {
        MainActivity activity = shown();
        Harness.session().viewport.zoom(Harness.session().run, 3, 20_000_000);
        Harness.session().changed();
        Harness.golden(Harness.screen(activity), "landscape");
    }

    @Test
    @Config(qualifiers = PHONE + "-notnight-420dpi")
    public void largeFont() throws Exception {
        RuntimeEnvironment.setFontScale(2);
        Harness.golden(Harness.screen(shown()), "large-font");
    }

    @Test
    @Config(qualifiers = PHONE + "-night-420dpi")
    public void empty() throws Exception {
        controller = Robolectric.buildActivity(MainActivity.class).setup();
        Harness.golden(Harness.screen(controller.get()), "empty");
    }

    @Test
    @Config(sdk = 26, qualifiers = "w360dp-h640dp-port-xhdpi")
    public void onTheOldestAndroid() throws Exception {
        MainActivity activity = shown();
        Bitmap drawn = Harness.screen(activity);
        assertTrue("the window is drawn", Harness.count(drawn, activity.getColor(R.color.cwnd)) > 500);
        Harness.save(drawn, "android-8");
    }
}
