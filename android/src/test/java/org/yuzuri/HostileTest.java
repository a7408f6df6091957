package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.view.View;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import java.util.Random;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;

/**
 * Arbitrary input instead of the engine's lines: nothing throws, memory stays bounded, and the chart can
 * be drawn.
 */
@RunWith(RobolectricTestRunner.class)
public class HostileTest {
    private static final int ROUNDS = Integer.getInteger("yuzuri.rounds", 20_000);

    private static Run send() {
        return new Run(new Settings("h", 1, 1, 2, 10, "", false), 0);
    }

    private static Run watch() {
        return new Run(null, 0);
    }

    private static void draw(Run run) {
        ChartView chart = new ChartView(Harness.context(), null);
        Viewport viewport = new Viewport();
        viewport.showRtt = true;
        viewport.showSsthresh = true;
        viewport.cursorUs = 1;
        chart.show(run, viewport, null);
        chart.measure(View.MeasureSpec.makeMeasureSpec(400, View.MeasureSpec.EXACTLY),
                View.MeasureSpec.makeMeasureSpec(300, View.MeasureSpec.EXACTLY));
        chart.layout(0, 0, 400, 300);
        chart.draw(new Canvas(Bitmap.createBitmap(400, 300, Bitmap.Config.ARGB_8888)));
        assertNotNull(chart.getContentDescription());
        Summary.text(Harness.context(), run);
        Result.of(run, null);
    }

    private static void feed(Run run, byte[] bytes) throws IOException {
        Lines lines = new Lines(new ByteArrayInputStream(bytes));
        for (String line = lines.next(); line != null; line = lines.next()) {
            Event event = EventReader.parse(line);
            if (event != null) {
                run.apply(event);
            }
        }
    }

    @Test
    public void randomBytes() throws IOException {
        Random random = new Random(11);
        Run run = send();
        for (int i = 0; i < ROUNDS / 10; i++) {
            byte[] bytes = new byte[random.nextInt(3000)];
            random.nextBytes(bytes);
            feed(run, bytes);
        }
        draw(run);
    }

    @Test
    public void linesOfTheEngineDamaged() throws IOException {
        List<String> good = Files.readAllLines(Harness.RECORDING.toPath());
        Random random = new Random(12);
        Run run = send();
        Run watch = watch();
        int understood = 0;
        for (int i = 0; i < ROUNDS; i++) {
            StringBuilder line = new StringBuilder(good.get(random.nextInt(good.size())));
            for (int damage = random.nextInt(4); damage > 0 && line.length() > 0; damage--) {
                int at = random.nextInt(line.length());
                switch (random.nextInt(4)) {
                    case 0: line.setCharAt(at, (char) (32 + random.nextInt(95))); break;
                    case 1: line.deleteCharAt(at); break;
                    case 2: line.insert(at, random.nextBoolean() ? "9999999999999999999" : "-"); break;
                    default: line.setLength(at);
                }
            }
            Event event = EventReader.parse(line.toString());
            if (event != null) {
                understood++;
                run.apply(event);
                watch.apply(event);
            }
        }
        assertTrue("some are still whole", understood > ROUNDS / 20);
        assertTrue("connections are bounded", run.traces.size() <= Settings.MAX_CONNECTIONS);
        draw(run);
        draw(watch);
    }

    @Test
    public void wellFormedLinesWithAnyValues() {
        Random random = new Random(13);
        String[] names = {"connection", "flow", "cwnd", "ssthresh", "srtt_us", "acked_mono_ns", "first_write_mono_ns", "sent_mono_ns",
            "mono_ns", "throughput_bps", "carried_bps", "total_retrans", "elapsed_ns", "rate_bps", "bytes_acked", "bytes", "connections",
            "per_buffer", "congestion_control", "source", "complete", "message", "kind", "interface", "others", "duration_ns", "bounded_ns"};
        String[] values = {"0", "1", "-1", "63", "999", "4294967295", "9223372036854775807", "18446744073709551615", "1e308", "1e-3", "0.5",
            "null", "true", "\"\"", "\"x\"", "[]", "{}", "[{\"srtt_us\":5}]", "{\"id\":7,\"owner\":{\"name\":\"n\"}}", "[1,[2,[3]]]"};
        String[] types = {"\"type\":\"buffer\"", "\"type\":\"connected\"", "\"type\":\"progress\"", "\"type\":\"summary\"",
            "\"kind\":\"sample\"", "\"kind\":\"flow\"", "\"kind\":\"close\"", "\"kind\":\"session\"", "\"type\":\"failed\"", "\"type\":5",
            "\"type\":\"warning\",\"kind\":\"sharing\"", "\"type\":\"warning\",\"kind\":\"recording\"",
            "\"type\":\"shared\",\"others\":1,\"duration_ns\":1,\"bounded_ns\":1"};
        Run run = send();
        Run watch = watch();
        for (int i = 0; i < ROUNDS; i++) {
            StringBuilder line = new StringBuilder("{").append(types[random.nextInt(types.length)]);
            for (int n = random.nextInt(12); n > 0; n--) {
                line.append(",\"").append(names[random.nextInt(names.length)]).append("\":").append(values[random.nextInt(values.length)]);
            }
            Event event = EventReader.parse(line.append('}').toString());
            if (event != null) {
                run.apply(event);
                watch.apply(event);
            }
        }
        assertTrue(watch.traces.size() <= 128);
        draw(run);
        draw(watch);
        run.finish(0, "");
        draw(run);
    }

    @Test
    public void depthAndLength() throws IOException {
        assertNull(EventReader.parse("{\"a\":" + "[".repeat(100_000)));
        assertNull(EventReader.parse("[".repeat(100_000) + "]".repeat(100_000)));
        assertNull(EventReader.parse(""));
        assertNull(EventReader.parse("{\"type\":\"progress\"}"));
        assertNull(EventReader.parse("{\"type\":\"progress\",\"elapsed_ns\":1,\"rate_bps\":1}x"));
        assertNotNull(EventReader.parse("{\"type\":\"progress\",\"elapsed_ns\":1,\"rate_bps\":1}"));
        assertNotNull("an unknown type is ignored", EventReader.parse("{\"type\":\"tomorrow\",\"with\":[{\"a\":{}}]}"));
        byte[] endless = new byte[Lines.MAX_BYTES * 3];
        java.util.Arrays.fill(endless, (byte) 'x');
        endless[endless.length - 2] = '\n';
        Lines lines = new Lines(new ByteArrayInputStream(endless));
        assertEquals("a line that is too long is dropped", "", lines.next());
        assertEquals("the next one is read", "x", lines.next());
        assertNull(lines.next());
    }

    @Test
    public void linesAreTheSameInWhateverPiecesTheyCome() throws IOException {
        byte[] all = Files.readAllBytes(Harness.RECORDING.toPath());
        Random random = new Random(14);
        InputStream pieces = new ByteArrayInputStream(all) {
            @Override
            public synchronized int read(byte[] into, int from, int most) {
                return super.read(into, from, Math.min(most, 1 + random.nextInt(700)));
            }
        };
        Lines lines = new Lines(pieces);
        for (String line : new String(all, StandardCharsets.UTF_8).split("\n")) {
            assertEquals(line, lines.next());
        }
        assertNull(lines.next());
    }

    @Test
    public void foreignFilesAreToldFromRecordings() throws IOException {
        Random random = new Random(15);
        for (int i = 0; i < 2000; i++) {
            byte[] bytes = new byte[random.nextInt(500)];
            random.nextBytes(bytes);
            try {
                Recording.run(new ByteArrayInputStream(bytes));
                throw new AssertionError("random bytes are no recording");
            } catch (Recording.Foreign e) {
                assertTrue(!e.arrow || bytes[0] < 0);
            }
        }
    }
}
