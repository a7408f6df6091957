package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNotSame;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.content.Intent;
import android.net.Uri;
import android.view.View;
import android.widget.TableLayout;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;

/** The app with the real engine, sending to a real `yuzuri receive` over loopback. */
@RunWith(RobolectricTestRunner.class)
@Config(qualifiers = "w412dp-h892dp-port-notnight-420dpi")
public class LiveTest extends LiveApp {
    private Harness.Receiver receiver;

    @Before
    public void receive() throws Exception {
        receiver = new Harness.Receiver();
    }

    @Override
    @After
    public void end() throws Exception {
        super.end();
        receiver.close();
    }

    @Test
    public void aRunFromStartToItsRow() throws Exception {
        Harness.enter(controller.get(), "localhost", receiver.port, "4 MB", 1);
        press();
        assertTrue(session.running());
        assertEquals("Stop", text(R.id.start));
        Intent service = shadowOf(RuntimeEnvironment.getApplication()).getNextStartedService();
        assertEquals(RunService.class.getName(), service.getComponent().getClassName());
        Harness.await("buffers come", 10, () -> session.run.traces.size() == 1 && session.run.traces.get(0).cwnd.size() > 5);
        assertEquals("the form makes room", View.GONE, controller.get().findViewById(R.id.form).getVisibility());
        assertTrue(text(R.id.run_line), text(R.id.run_line).contains("4 MB × 1"));
        Harness.save(Harness.screen(controller.get()), "live");
        awaitEnd(15);
        assertEquals(Run.State.DONE, session.run.state);
        assertEquals("", Harness.banner(controller.get()));
        assertTrue("more than one buffer", session.run.summary.buffers > 1);
        assertEquals("every buffer is in the chart", session.run.summary.buffers, session.run.traces.get(0).cwnd.size());
        assertEquals(1, session.results.size());
        TableLayout table = controller.get().findViewById(R.id.results);
        assertEquals("a head and a row", 2, table.getChildCount());
        String spoken = table.getChildAt(1).getContentDescription().toString();
        assertTrue(spoken, spoken.startsWith("Buffers: 4 MB; "));
        assertEquals(View.VISIBLE, controller.get().findViewById(R.id.summary_card).getVisibility());
        // The recording has the engine's own lines between the app's.
        List<String> lines = Files.readAllLines(session.recording.toPath());
        assertEquals(Event.Type.RUN, EventReader.parse(lines.get(0)).type);
        assertEquals(Event.Type.CONNECTED, EventReader.parse(lines.get(1)).type);
        assertEquals(Event.Type.SUMMARY, EventReader.parse(lines.get(lines.size() - 2)).type);
        assertEquals(Event.Type.RESULT, EventReader.parse(lines.get(lines.size() - 1)).type);
        assertEquals(session.run.summary.buffers, lines.stream().filter(line -> line.contains("\"type\":\"buffer\"")).count());
        // The state of an app that was restarted.
        Session again = new Session(RuntimeEnvironment.getApplication());
        again.loadResults();
        Harness.await("the table is read from the recordings", 10, () -> !again.results.isEmpty());
        assertEquals(session.results.get(0).throughputBps, again.results.get(0).throughputBps);
        assertEquals(session.results.get(0).cwndMedian, again.results.get(0).cwndMedian, 1e-6);
        again.show(again.results.get(0));
        Harness.await("and shown", 10, () -> again.run != null);
        assertEquals(session.run.summary.buffers, again.run.traces.get(0).cwnd.size());
    }

    @Test
    public void whatIsSharedOpensOnAComputer() throws Exception {
        Harness.enter(controller.get(), "127.0.0.1", receiver.port, "1 MB", 1);
        press();
        awaitEnd(15);
        assertEquals(Run.State.DONE, session.run.state);
        assertEquals("", Harness.banner(controller.get()));
        controller.get().choose(R.string.menu_share_recording);
        Intent send = shadowOf(controller.get()).getNextStartedActivity().getParcelableExtra(Intent.EXTRA_INTENT, Intent.class);
        Uri uri = send.getParcelableExtra(Intent.EXTRA_STREAM, Uri.class);
        assertTrue(uri.toString(), uri.toString().endsWith(".arrows"));
        Path shared = Files.createTempDirectory("shared").resolve("a.arrows");
        try (InputStream in = controller.get().getContentResolver().openInputStream(uri)) {
            Files.copy(in, shared);
        }
        Path rows = shared.resolveSibling("a.jsonl");
        Harness.output(Harness.engine().getPath(), "convert", shared.toString(), rows.toString());
        List<String> lines = Files.readAllLines(rows);
        String local = session.run.traces.get(0).local;
        String port = local.substring(local.lastIndexOf(':') + 1);
        assertTrue("its connection is in it", lines.stream().anyMatch(line ->
                line.contains("\"kind\":\"flow\"") && line.contains("\"local_port\":" + port)));
        assertTrue("asked for its window all the time",
                lines.stream().filter(line -> line.contains("\"kind\":\"sample\"") && line.contains("\"cwnd\":")).count() > 20);
        assertEquals("to its end", 1, lines.stream().filter(line -> line.contains("\"kind\":\"close\"")).count());
        Harness.output(Harness.engine().getPath(), "replay", shared.toString(), "--json", "--speed", "1000");
        // The app's own format is shared with another phone.
        controller.get().choose(R.string.menu_share_own);
        send = shadowOf(controller.get()).getNextStartedActivity().getParcelableExtra(Intent.EXTRA_INTENT, Intent.class);
        uri = send.getParcelableExtra(Intent.EXTRA_STREAM, Uri.class);
        try (InputStream in = controller.get().getContentResolver().openInputStream(uri)) {
            assertEquals(session.run.summary.buffers, Recording.run(in).traces.get(0).cwnd.size());
        }
        // One recording in two files.
        assertEquals(2, session.recordings().size());
        session.deleteAll();
        assertEquals(0, session.recordings().size());
    }

    @Test
    public void stopAwaitsTheSummary() throws Exception {
        Harness.enter(controller.get(), "127.0.0.1", receiver.port, "1 MB", 0);
        press();
        awaitBuffers();
        press();
        assertEquals("Stopping …", text(R.id.start));
        awaitEnd(15);
        assertEquals(Run.State.STOPPED, session.run.state);
        assertNotNull(session.run.summary);
        assertTrue(session.run.summary.stopped);
        assertEquals("", Harness.banner(controller.get()));
    }

    @Test
    public void turningTheScreenInTheMiddleLosesNothing() throws Exception {
        Harness.enter(controller.get(), "127.0.0.1", receiver.port, "2 MB", 0);
        press();
        awaitBuffers();
        Run run = session.run;
        MainActivity before = controller.get();
        session.viewport.showRtt = true;
        int seen = run.traces.get(0).cwnd.size();
        RuntimeEnvironment.setQualifiers("+land");
        controller.configurationChange();
        if (controller.get() == before) {
            controller.recreate();
        }
        assertNotSame("a new screen", before, controller.get());
        assertSame("the same run", run, session.run);
        assertEquals("Stop", text(R.id.start));
        Harness.await("it goes on", 10, () -> run.traces.get(0).cwnd.size() > seen + 3);
        TileView rtt = controller.get().findViewById(R.id.tile_rtt);
        assertTrue("what was switched on stays on", rtt.getContentDescription().toString().contains("is drawn"));
        Harness.save(Harness.screen(controller.get()), "live-landscape");
        press();
        awaitEnd(15);
        assertEquals("no buffer is missing", run.summary.buffers, run.traces.get(0).cwnd.size());
    }

    @Test
    public void behindAnotherAppTheRunGoesOn() throws Exception {
        Harness.enter(controller.get(), "127.0.0.1", receiver.port, "2 MB", 0);
        press();
        awaitBuffers();
        controller.pause().stop();
        int seen = session.run.traces.get(0).cwnd.size();
        Harness.await("it goes on", 10, () -> session.run.traces.get(0).cwnd.size() > seen + 3);
        controller.start().resume();
        assertEquals("Stop", text(R.id.start));
        press();
        awaitEnd(15);
        assertEquals("no buffer is missing", session.run.summary.buffers, session.run.traces.get(0).cwnd.size());
    }

    @Test
    public void severalConnectionsAndWaitingAreHandedOn() throws Exception {
        session.send(new Settings("127.0.0.1", receiver.port, 500_000, 3, 1, "", true));
        awaitEnd(20);
        assertEquals(Run.State.DONE, session.run.state);
        assertEquals(3, session.run.traces.size());
        assertTrue("the throughput is that of all together", session.run.totalMbps.size() > 1);
        assertEquals(3, session.results.get(0).connections);
    }

    @Test
    public void addressesOfTheOtherFamilyAreTried() throws Exception {
        // On most hosts localhost is ::1 and 127.0.0.1; the receiver listens only on the second.
        session.send(new Settings("localhost", receiver.port, 500_000, 1, 1, "", false));
        awaitEnd(20);
        assertEquals(Run.State.DONE, session.run.state);
        assertFalse(session.run.traces.get(0).peer.isEmpty());
    }

    @Test
    public void theServiceSaysWhatRunsAndGoesWithIt() throws Exception {
        session.send(new Settings("127.0.0.1", receiver.port, 500_000, 1, 0, "", false));
        org.robolectric.android.controller.ServiceController<RunService> service = Robolectric.buildService(RunService.class).create();
        service.get().onStartCommand(new Intent(), 0, 1);
        assertNotNull(shadowOf(service.get()).getLastForegroundNotification());
        assertFalse(shadowOf(service.get()).isStoppedBySelf());
        session.stop();
        awaitEnd(15);
        assertTrue("the service went with the run", shadowOf(service.get()).isStoppedBySelf());
        service.destroy();
    }
}
