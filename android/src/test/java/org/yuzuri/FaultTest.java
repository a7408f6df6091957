package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import android.widget.EditText;
import android.widget.TextView;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;

/** Every failure is reported in plain language, and earlier results are kept. */
@RunWith(RobolectricTestRunner.class)
public class FaultTest extends LiveApp {
    private void send(String host, int port, int seconds) {
        session.send(new Settings(host, port, 1_000_000, 1, seconds, "", false));
    }

    private void sendAndAwaitBuffers(String host, int port) {
        send(host, port, 0);
        awaitBuffers();
    }

    private void assertSaid(int sentence, Object... arguments) {
        assertEquals(words(sentence, arguments), Harness.banner(controller.get()));
    }

    private void assertKept() {
        assertEquals("a row for what was measured", 1, session.results.size());
        assertTrue(session.recording.length() > 1000);
        assertNotNull("it can be opened", Recording.result(session.recording));
    }

    /** Finds the engine among the descendant processes. */
    private static ProcessHandle engineOf() {
        return ProcessHandle.current().descendants()
                .filter(process -> process.info().arguments().map(words -> words.length > 0 && words[0].equals("send")).orElse(false))
                .findFirst().orElseThrow(() -> new AssertionError("no engine runs"));
    }

    @Test
    public void theEngineIsKilled() throws Exception {
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            sendAndAwaitBuffers("127.0.0.1", receiver.port);
            engineOf().destroyForcibly();
            awaitEnd(10);
            assertEquals(Run.State.FAILED, session.run.state);
            assertSaid(R.string.error_engine_died);
            assertEquals("signal 9", session.run.problem.detail);
            assertKept();
        }
    }

    @Test
    public void withTheStarterTheEngineGoes() throws Exception {
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            sendAndAwaitBuffers("127.0.0.1", receiver.port);
            ProcessHandle engine = engineOf();
            ProcessHandle starter = engine.parent().orElseThrow(AssertionError::new);
            starter.destroyForcibly();
            Harness.await("the engine is gone, too", 10, () -> !engine.isAlive());
            awaitEnd(10);
            assertSaid(R.string.error_engine_died);
        }
    }

    @Test
    public void theServerIsKilled() throws Exception {
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            sendAndAwaitBuffers("127.0.0.1", receiver.port);
            receiver.process.destroyForcibly().waitFor();
            awaitEnd(15);
            assertEquals(Run.State.FAILED, session.run.state);
            assertSaid(R.string.error_closed);
            assertKept();
        }
    }

    /** A captive portal answers in the server's place. */
    @Test
    public void aWebServerAnswers() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.1"))) {
            send("127.0.0.1", server.getLocalPort(), 0);
            try (Socket taken = server.accept()) {
                taken.getInputStream().readNBytes(1000);
                taken.getOutputStream().write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            }
            awaitEnd(15);
            assertEquals(Run.State.FAILED, session.run.state);
            assertSaid(R.string.error_web_server);
        }
    }

    @Test
    public void theServerAcceptsAndStaysSilent() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.1"))) {
            server.setReceiveBufferSize(1 << 16);
            send("127.0.0.1", server.getLocalPort(), 0);
            try (Socket taken = server.accept()) {
                Harness.await("the silence is reported before it is an error", 20, () -> {
                    String state = ((TextView) controller.get().findViewById(R.id.state)).getText().toString();
                    return state.startsWith("No data acknowledged for ");
                });
                awaitEnd(40);
                assertEquals(Run.State.FAILED, session.run.state);
                assertSaid(R.string.error_stalled_window);
                assertTrue(taken.isConnected());
            }
        }
    }

    @Test
    public void nothingListens() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        send("127.0.0.1", port, 1);
        awaitEnd(15);
        assertSaid(R.string.error_refused, "127.0.0.1", port);
        assertEquals("nothing was sent, nothing is kept", 0, session.results.size());
        assertTrue(session.recordings().isEmpty());
    }

    @Test
    public void theNameIsUnknown() {
        send("no-such-host.invalid", 4950, 1);
        awaitEnd(60);
        assertSaid(R.string.error_name, "no-such-host.invalid");
    }

    @Test
    public void theControlIsNotThere() throws Exception {
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            session.send(new Settings("127.0.0.1", receiver.port, 1_000_000, 1, 1, "nosuch", false));
            awaitEnd(15);
            assertSaid(R.string.error_control, "nosuch");
        }
    }

    @Test
    public void theFormIsWrong() {
        MainActivity activity = controller.get();
        Harness.enter(activity, "", 0, "much", 99_999_999);
        press();
        assertTrue("nothing was started", !session.running());
        int[][] fields = {{R.id.server, R.string.wrong_server}, {R.id.port, R.string.wrong_port},
            {R.id.buffer, R.string.wrong_buffer}, {R.id.duration, R.string.wrong_duration}};
        for (int[] field : fields) {
            assertEquals(words(field[1]), ((EditText) activity.findViewById(field[0])).getError().toString());
        }
        // An argument that starts with a dash would be an option of the engine.
        Harness.enter(activity, "--help", 4950, "1 MB", 1);
        press();
        assertTrue(!session.running());
    }

    @Test
    public void theStarterCannotBeRun() throws IOException {
        Path plain = Files.createTempFile("starter", ".so");
        Files.write(plain, Files.readAllBytes(Harness.starter().toPath()));
        Files.delete(place.starter.toPath());
        Files.createSymbolicLink(place.starter.toPath(), plain);
        send("127.0.0.1", 4950, 1);
        awaitEnd(10);
        assertSaid(R.string.error_engine_start);
    }

    @Test
    public void theEngineCannotBeRun() throws IOException {
        Files.delete(place.engine.toPath());
        Files.createFile(place.engine.toPath());
        send("127.0.0.1", 4950, 1);
        awaitEnd(10);
        assertSaid(R.string.error_engine_start);
    }

    @Test
    public void theStorageIsFull() throws Exception {
        File folder = new File(Harness.context().getFilesDir(), "recordings");
        assertTrue(folder.mkdirs());
        int mounted = new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=16k", "none", folder.getPath())
                .redirectErrorStream(true).start().waitFor();
        assumeTrue("skipped: only root may mount a small file system", mounted == 0);
        try (Harness.Receiver receiver = new Harness.Receiver()) {
            sendAndAwaitBuffers("127.0.0.1", receiver.port);
            Harness.await("the storage is full", 20, () -> session.run.problem != null);
            assertSaid(R.string.error_storage);
            assertTrue("the measurement goes on", session.running());
            int seen = session.run.traces.get(0).cwnd.size();
            Harness.await("it goes on", 10, () -> session.run.traces.get(0).cwnd.size() > seen + 3);
            session.stop();
            awaitEnd(15);
            assertEquals(Run.State.STOPPED, session.run.state);
            assertEquals("the row is there", 1, session.results.size());
            assertNull("but no recording", session.results.get(0).recording);
            File[] left = folder.listFiles();
            assertTrue("nor one of the engine's", java.util.Arrays.stream(left).noneMatch(file -> file.getName().endsWith(".arrows")));
        } finally {
            new ProcessBuilder("umount", folder.getPath()).start().waitFor();
        }
    }

    @Test
    public void whatTheEngineDoesNotLikeIsKnownByItsKind() {
        Settings settings = new Settings("h", 7, 1, 1, 1, "bbr", false);
        Object[][] kinds = {
            {"refused", false, R.string.error_refused}, {"timed-out", false, R.string.error_no_answer},
            {"unreachable", false, R.string.error_no_route}, {"permission", false, R.string.error_connect},
            {"unknown-host", false, R.string.error_name}, {"control-refused", false, R.string.error_control},
            {"closed-by-peer", true, R.string.error_closed}, {"silent", true, R.string.error_stalled_path},
            {"web-server", true, R.string.error_web_server},
            {"not-reading", true, R.string.error_stalled_window}, {"unreachable", true, R.string.error_network},
            {"of tomorrow", true, R.string.error_network}, {"of tomorrow", false, R.string.error_other}, {"", false, R.string.error_other},
        };
        for (Object[] kind : kinds) {
            // Only the category matters, not the message.
            Problem problem = Problem.ofTransfer((String) kind[0], "connection refused, no answer", (boolean) kind[1], settings);
            assertEquals((String) kind[0], (int) kind[2], problem.sentence);
            assertEquals("connection refused, no answer", problem.detail);
        }
    }

    @Test
    public void foreignFilesAreRefusedInWords() {
        byte[] arrow = {-1, -1, -1, -1, 0, 1, 2, 3};
        Object[][] files = {
            {"hello, world\n".getBytes(StandardCharsets.UTF_8), R.string.error_not_recording},
            {new byte[0], R.string.error_not_recording},
            {"{\"type\":\"run\",\"version\":99,\"buffer_bytes\":1,\"connections\":1}\n".getBytes(StandardCharsets.UTF_8), R.string.error_not_recording},
            {arrow, R.string.error_arrow_recording},
        };
        for (Object[] file : files) {
            session.problem = null;
            session.open(() -> new ByteArrayInputStream((byte[]) file[0]), null);
            Harness.await("it is refused", 10, () -> session.problem != null);
            assertSaid((int) file[1]);
            assertNull(session.run);
        }
        session.problem = null;
        session.open(() -> new FileInputStream("/nonexistent/recording"), null);
        Harness.await("it is refused", 10, () -> session.problem != null);
        assertSaid(R.string.error_unreadable);
    }

    @Test
    public void aRecordingWithoutItsEndIsReadAsFarAsItGoes() throws IOException {
        byte[] whole = Files.readAllBytes(Harness.RECORDING.toPath());
        Path half = Files.createTempFile("half", ".jsonl");
        Files.write(half, java.util.Arrays.copyOf(whole, whole.length / 2));
        Result result = Recording.result(half.toFile());
        assertNotNull("the app was ended in the middle: its measurements count", result);
        assertTrue(result.throughputBps > 1_000_000);
        session.open(() -> new FileInputStream(half.toFile()), null);
        Harness.await("it is shown", 10, () -> session.run != null);
        assertTrue(session.run.traces.get(0).cwnd.size() > 50);
        assertSaid(R.string.error_garbled, 1);
    }

    @Test
    public void linesThatAreNotUnderstoodAreCounted() throws IOException {
        // A program in the engine's place with invalid output.
        Harness.script(place, "printf 'x\\n{}]\\n'; exit 3");
        send("127.0.0.1", 4950, 1);
        awaitEnd(10);
        assertEquals(2, session.run.garbled);
        assertSaid(R.string.error_engine_died);
        assertEquals("code 3", session.run.problem.detail);
    }
}
