package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import android.view.View;
import android.widget.LinearLayout;
import java.io.File;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.annotation.Config;

/**
 * Watches all flows of the machine as root with the real engine; `su` is a script that runs its
 * arguments, since the test runs as root.
 */
@RunWith(RobolectricTestRunner.class)
@Config(qualifiers = "w412dp-h892dp-port-night-420dpi")
public class WatchTest extends LiveApp {
    private void su(String script) throws Exception {
        Path su = Files.createTempFile("su", "");
        Files.writeString(su, "#!/bin/sh\n" + script + "\n");
        assertTrue(su.toFile().setExecutable(true));
        place.su = su.toString();
    }

    @Test
    public void allFlowsAreDrawnAndRecorded() throws Exception {
        assumeTrue("skipped: watching needs root", new File("/proc/1/mem").canRead());
        su("[ \"$1\" = -c ] || exit 9; exec sh -c \"$2\"");
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            controller.get().choose(R.string.menu_watch);
            Harness.await("the watch has begun", 20, () -> session.run.state == Run.State.WATCHING);
            // A flow to watch: a transfer that is not the app's.
            Process other = new ProcessBuilder(Harness.engine().getPath(), "send", "127.0.0.1:" + receiver.port, "--time", "2", "--json",
                    "--connections", "3").redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            String peer = "127.0.0.1:" + receiver.port;
            Harness.await("its flows are seen", 20, () -> session.run.traces.stream()
                    .filter(trace -> trace.peer.equals(peer) && trace.cwnd.size() > 10 && trace.rateMbps.size() > 2).count() == 3);
            assertEquals(View.VISIBLE, controller.get().findViewById(R.id.flows_card).getVisibility());
            LinearLayout list = controller.get().findViewById(R.id.flows);
            Harness.await("they are listed", 10, () -> {
                org.robolectric.shadows.ShadowSystemClock.advanceBy(java.time.Duration.ofSeconds(1));
                session.changed();
                return list.getChildCount() > 3;
            });
            Harness.save(Harness.screen(controller.get()), "watch");
            Trace one = session.run.traces.stream().filter(trace -> trace.peer.equals(peer)).findFirst().orElseThrow(AssertionError::new);
            assertEquals("the owner is known", "yuzuri", one.process);
            session.viewport.flow = one.id;
            controller.get().viewportChanged();
            TileView cwnd = controller.get().findViewById(R.id.tile_cwnd);
            assertTrue(cwnd.shown(), Double.parseDouble(cwnd.shown()) > 0);
            Harness.save(Harness.screen(controller.get()), "watch-one");
            other.waitFor();
        }
        session.stop();
        awaitEnd(15);
        assertEquals(Run.State.DONE, session.run.state);
        assertTrue("losses are reported", session.run.notes.stream().anyMatch(note -> note.contains("seen") && note.contains("lost")));
        assertNotNull("it is recorded", session.recording);
        byte[] head = new byte[4];
        try (FileInputStream in = new FileInputStream(session.recording)) {
            assertEquals(4, in.read(head));
        }
        assertEquals("an Arrow stream", -1, head[0]);
        // `yuzuri replay` opens it.
        Process replay = new ProcessBuilder(Harness.engine().getPath(), "replay", session.recording.getPath(), "--json", "--speed", "1000")
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        assertEquals(0, replay.waitFor());
    }

    @Test
    public void withoutSuThatIsSaid() {
        place.su = "/nonexistent/su";
        controller.get().choose(R.string.menu_watch);
        awaitEnd(10);
        assertEquals(Harness.context().getString(R.string.error_no_root), Harness.banner(controller.get()));
    }

    @Test
    public void aRefusalIsSaidWithItsReason() throws Exception {
        su("echo 'Permission denied' >&2; exit 1");
        controller.get().choose(R.string.menu_watch);
        awaitEnd(10);
        assertEquals(Harness.context().getString(R.string.error_root_refused), Harness.banner(controller.get()));
        assertEquals("Permission denied", session.run.problem.detail);
    }
}
