package org.yuzuri;

import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;
import static org.robolectric.Shadows.shadowOf;

import android.app.Activity;
import android.content.Context;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.graphics.Canvas;
import android.os.Looper;
import android.view.View;
import android.widget.EditText;
import android.widget.TextView;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.robolectric.RuntimeEnvironment;

/** Shared by the tests: the real engine and receiver, waiting with a deadline, pictures. */
final class Harness {
    static final File RECORDING = new File("src/test/recordings/two-phones.jsonl");
    private static final File GOLDEN = new File("src/test/pictures");
    private static final File DRAWN = new File("build/pictures");

    private Harness() {}

    static Context context() {
        return RuntimeEnvironment.getApplication();
    }

    static Session session() {
        return YuzuriApp.session(context());
    }

    private static File needed(String property) {
        String value = System.getProperty(property);
        assertTrue("run the tests by scripts/android-test.sh: -D" + property + " is missing", value != null);
        return new File(value).getAbsoluteFile();
    }

    static File engine() {
        return needed("yuzuri.engine");
    }

    static File starter() {
        return needed("yuzuri.starter");
    }

    /** The program that runs another one under Android's seccomp filter. */
    static File forbid() {
        return needed("yuzuri.forbid");
    }

    /** Replaces the engine with a script. */
    static void script(Engine.Place place, String script) throws IOException {
        Files.deleteIfExists(place.engine.toPath());
        Files.writeString(place.engine.toPath(), "#!/bin/sh\n" + script + "\n");
        assertTrue(place.engine.setExecutable(true));
    }

    /** The complete output of a program, which must succeed. */
    static String output(String... words) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        assertTrue(String.join(" ", words) + ": " + said, process.waitFor() == 0);
        return said;
    }

    /** Installs the engine and the starter in a folder like that of a package's libraries. */
    static Engine.Place install() throws IOException {
        Path libraries = Files.createTempDirectory("libraries");
        Files.createSymbolicLink(libraries.resolve("libyuzuri.so"), engine().toPath());
        Files.createSymbolicLink(libraries.resolve("libstarter.so"), starter().toPath());
        Engine.Place place = new Engine.Place(libraries.toString());
        session().place = place;
        return place;
    }

    /** Runs the main thread until the condition is true. */
    static void await(String what, int seconds, BooleanSupplier condition) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (true) {
            shadowOf(Looper.getMainLooper()).idle();
            if (condition.getAsBoolean()) {
                return;
            }
            if (System.nanoTime() > deadline) {
                fail("within " + seconds + " s not: " + what + "; run " + describe(session().run));
            }
            try {
                TimeUnit.MILLISECONDS.sleep(2);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    private static String describe(Run run) {
        if (run == null) {
            return "none";
        }
        String problem = run.problem == null ? "" : run.problem.text(context()) + " (" + run.problem.detail + ")";
        return run.state + ", " + run.elapsedUs + " us, " + run.bytesAcked + " bytes, " + problem;
    }

    /** `yuzuri receive` on a free loopback port. */
    static final class Receiver implements Closeable {
        final Process process;
        final int port;

        Receiver(String... more) throws IOException {
            String[] words = {engine().getPath(), "receive", "--port", "0", "--bind", "127.0.0.1", "--json"};
            String[] all = java.util.Arrays.copyOf(words, words.length + more.length);
            System.arraycopy(more, 0, all, words.length, more.length);
            process = new ProcessBuilder(all).redirectError(ProcessBuilder.Redirect.DISCARD).start();
            BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream()));
            Matcher address = Pattern.compile("\"address\":\"127\\.0\\.0\\.1:(\\d+)\"").matcher(out.readLine());
            assertTrue("the receiver says where it listens", address.find());
            port = Integer.parseInt(address.group(1));
            Thread drain = new Thread(() -> out.lines().forEach(line -> {}));
            drain.setDaemon(true);
            drain.start();
        }

        @Override
        public void close() {
            process.destroyForcibly();
        }
    }

    static void enter(Activity activity, String server, int port, String buffer, int seconds) {
        ((EditText) activity.findViewById(R.id.server)).setText(server);
        ((EditText) activity.findViewById(R.id.port)).setText(Integer.toString(port));
        ((EditText) activity.findViewById(R.id.buffer)).setText(buffer);
        ((EditText) activity.findViewById(R.id.duration)).setText(Integer.toString(seconds));
        ((EditText) activity.findViewById(R.id.connections)).setText("1");
    }

    static String banner(Activity activity) {
        View banner = activity.findViewById(R.id.banner);
        return banner.getVisibility() == View.VISIBLE ? ((TextView) activity.findViewById(R.id.banner_text)).getText().toString() : "";
    }

    static Run recorded() throws IOException {
        try (InputStream in = new FileInputStream(RECORDING)) {
            return Recording.run(in);
        }
    }

    static Bitmap draw(View view) {
        Bitmap bitmap = Bitmap.createBitmap(view.getWidth(), view.getHeight(), Bitmap.Config.ARGB_8888);
        Canvas canvas = new Canvas(bitmap);
        canvas.drawColor(view.getContext().getColor(R.color.background));
        view.draw(canvas);
        return bitmap;
    }

    static Bitmap screen(Activity activity) {
        shadowOf(Looper.getMainLooper()).idle();
        return draw(activity.findViewById(R.id.root));
    }

    static File save(Bitmap bitmap, String name) throws IOException {
        DRAWN.mkdirs();
        File file = new File(DRAWN, name + ".png");
        try (OutputStream out = new FileOutputStream(file)) {
            assertTrue(bitmap.compress(Bitmap.CompressFormat.PNG, 100, out));
        }
        return file;
    }

    /**
     * Compares a picture, at half its size, with the reference: at most 0.3 % of the pixels may differ
     * clearly, because fonts and rounding differ slightly between machines. YUZURI_PICTURES=keep makes
     * the drawn picture the new reference.
     */
    static void golden(Bitmap drawn, String name) throws IOException {
        File file = save(drawn, name);
        golden(Bitmap.createScaledBitmap(drawn, drawn.getWidth() / 2, drawn.getHeight() / 2, true), name, file);
    }

    private static void golden(Bitmap drawn, String name, File file) throws IOException {
        File kept = new File(GOLDEN, name + ".png");
        if ("keep".equals(System.getenv("YUZURI_PICTURES"))) {
            try (OutputStream out = new FileOutputStream(kept)) {
                assertTrue(drawn.compress(Bitmap.CompressFormat.PNG, 100, out));
            }
            return;
        }
        assertTrue(kept + " is missing: look at " + file + ", then YUZURI_PICTURES=keep scripts/android-test.sh", kept.exists());
        BitmapFactory.Options plain = new BitmapFactory.Options();
        plain.inScaled = false;
        Bitmap wanted = BitmapFactory.decodeFile(kept.getPath(), plain);
        assertTrue(name + " has another size: " + drawn.getWidth() + "x" + drawn.getHeight(),
                wanted.getWidth() == drawn.getWidth() && wanted.getHeight() == drawn.getHeight());
        int count = drawn.getWidth() * drawn.getHeight();
        int[] a = new int[count];
        int[] b = new int[count];
        drawn.getPixels(a, 0, drawn.getWidth(), 0, 0, drawn.getWidth(), drawn.getHeight());
        wanted.getPixels(b, 0, drawn.getWidth(), 0, 0, drawn.getWidth(), drawn.getHeight());
        int different = 0;
        for (int i = 0; i < count; i++) {
            different += distance(a[i], b[i]) > 60 ? 1 : 0;
        }
        assertTrue(name + ": " + different + " of " + count + " pixels differ from " + kept + "; see " + file,
                different * 1000L <= count * 3L);
    }

    private static int distance(int a, int b) {
        int distance = 0;
        for (int shift = 0; shift < 24; shift += 8) {
            distance += Math.abs((a >> shift & 0xff) - (b >> shift & 0xff));
        }
        return distance;
    }

    static int count(Bitmap bitmap, int colour) {
        int count = bitmap.getWidth() * bitmap.getHeight();
        int[] pixels = new int[count];
        bitmap.getPixels(pixels, 0, bitmap.getWidth(), 0, 0, bitmap.getWidth(), bitmap.getHeight());
        int found = 0;
        for (int pixel : pixels) {
            found += pixel == colour ? 1 : 0;
        }
        return found;
    }

}
