package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import android.view.View;
import android.widget.CheckBox;
import android.widget.EditText;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;

/**
 * Transfers that share the uplink with others: the app's real engine and another real sender, each in its own
 * network namespace.
 */
@RunWith(RobolectricTestRunner.class)
public class SharedTransferTest extends LiveApp {
    // A random key: the engine refuses keys that are easy to guess.
    private static final String KEY = "0f8b1f94acea3d72a6d2f776d98e0d884b36d8dcf0b5399b442c0fea24a27a25";

    private CheckBox box(int id) {
        return controller.get().findViewById(id);
    }

    /** Two hosts connected by a 20 Mbit/s link; each receives the other's broadcasts. */
    private static final class Cable implements AutoCloseable {
        final String near = "yza" + ProcessHandle.current().pid();
        final String far = "yzb" + ProcessHandle.current().pid();

        Cable() throws Exception {
            Harness.output("ip", "netns", "add", near);
            Harness.output("ip", "netns", "add", far);
            Harness.output("ip", "link", "add", "va", "netns", near, "type", "veth", "peer", "name", "vb", "netns", far);
            for (String[] end : new String[][] {{near, "va", "10.77.0.1"}, {far, "vb", "10.77.0.2"}}) {
                Harness.output("ip", "-n", end[0], "addr", "add", end[2] + "/24", "brd", "+", "dev", end[1]);
                Harness.output("ip", "-n", end[0], "link", "set", end[1], "up");
                Harness.output("ip", "-n", end[0], "link", "set", "lo", "up");
                Harness.output("tc", "-n", end[0], "qdisc", "replace", "dev", end[1], "root", "tbf", "rate", "20mbit", "burst", "10k",
                        "limit", "100000");
            }
        }

        /** Runs a program at one end. */
        Process run(String end, String... words) throws Exception {
            String[] inside = {"ip", "netns", "exec", end, Harness.engine().getPath()};
            String[] all = java.util.Arrays.copyOf(inside, inside.length + words.length);
            System.arraycopy(words, 0, all, inside.length, words.length);
            return new ProcessBuilder(all).redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        }

        /** Whether a receiver listens at one end. */
        boolean listens(String end) {
            try {
                return !Harness.output("ip", "netns", "exec", end, "ss", "-Hltn", "sport = :4950").isBlank();
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void close() throws Exception {
            new ProcessBuilder("ip", "netns", "del", near).start().waitFor();
            new ProcessBuilder("ip", "netns", "del", far).start().waitFor();
        }
    }

    @Test
    public void itIsOffUntilItIsChosenAndAKeyIsGivenOrWaived() {
        Harness.enter(controller.get(), "127.0.0.1", 9, "1 MB", 1);
        assertFalse(box(R.id.share_uplink).isChecked());
        View group = controller.get().findViewById(R.id.group);
        assertEquals("nobody is asked for a key", View.GONE, group.getVisibility());
        box(R.id.share_uplink).setChecked(true);
        assertEquals(View.VISIBLE, group.getVisibility());
        assertFalse("nothing is waived by itself", box(R.id.without_key).isChecked());
        EditText key = controller.get().findViewById(R.id.group_key);
        for (String wrong : new String[] {"", "secret", KEY + "0", KEY.replace('0', 'g')}) {
            key.setText(wrong);
            press();
            assertFalse(wrong, session.running());
            assertEquals(words(R.string.wrong_key), key.getError().toString());
        }
        box(R.id.without_key).setChecked(true);
        assertNull(key.getError());
        assertFalse(key.isEnabled());
    }

    @Test
    public void itGivesWayToAnotherDeviceAndSaysWhatItDid() throws Exception {
        assumeTrue("skipped: network namespaces need root", new File("/proc/1/mem").canRead());
        try (Cable cable = new Cable()) {
            Harness.script(place, "exec ip netns exec " + cable.near + " " + Harness.engine() + " \"$@\"");
            Path key = Files.createTempFile("group", ".key");
            Files.writeString(key, KEY + "\n");
            Process[] receivers = {cable.run(cable.far, "receive"), cable.run(cable.near, "receive")};
            Harness.await("both receivers listen", 30, () -> cable.listens(cable.far) && cable.listens(cable.near));
            Process other = cable.run(cable.far, "send", "--time", "0", "--share", "--share-key-file", key.toString(), "10.77.0.1");
            try {
                Harness.enter(controller.get(), "10.77.0.2", 4950, "100 kB", 0);
                box(R.id.share_uplink).setChecked(true);
                ((EditText) controller.get().findViewById(R.id.group_key)).setText(KEY);
                press();
                assertTrue(session.running());
                // Long enough for both to have received each other's messages and to have been bounded
                // for some seconds.
                Harness.await("it sends for a while", 30, () -> session.run.elapsedUs > 10_000_000);
                press();
                awaitEnd(15);
                assertTrue("the other one went on", other.isAlive());
            } finally {
                other.destroy();
                for (Process receiver : receivers) {
                    receiver.destroy();
                }
            }
            assertEquals(Run.State.STOPPED, session.run.state);
            assertEquals("", Harness.banner(controller.get()));
            assertEquals(1, session.run.shared.size());
            Event shared = session.run.shared.get(0);
            assertEquals("va", shared.network);
            assertEquals("one other device", 1, shared.others);
            assertTrue("it was held back", shared.boundedNs > 0 && shared.boundedNs <= shared.durationNs);
            String line = words(R.string.summary_shared, "va", 1, Quantity.time(shared.boundedNs / 1000), Quantity.time(shared.durationNs / 1000));
            assertTrue(text(R.id.summary), text(R.id.summary).contains(line));
            // The recording gives the same result when the app opens it again.
            Run again = Recording.run(Files.newInputStream(session.recording.toPath()));
            assertTrue(Summary.text(Harness.context(), again).contains(line));
        }
    }

    @Test
    public void whereTheSystemDoesNotLetItTheTransferGoesOnAndThatIsSaid() throws Exception {
        // Under a filter like Android's, which prevents the engine from querying interfaces for sharing.
        Harness.script(place, "exec " + Harness.forbid() + " " + Harness.engine() + " \"$@\"");
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            Harness.enter(controller.get(), "127.0.0.1", receiver.port, "1 MB", 2);
            box(R.id.share_uplink).setChecked(true);
            box(R.id.without_key).setChecked(true);
            press();
            awaitBuffers();
            assertEquals(words(R.string.error_sharing), Harness.banner(controller.get()));
            awaitEnd(15);
            assertEquals(Run.State.DONE, session.run.state);
            assertTrue(text(R.id.summary), text(R.id.summary).contains(words(R.string.summary_not_shared)));
            assertTrue("it is recorded all the same", session.shareable().getName().endsWith(".arrows"));
        }
    }
}
