package org.yuzuri;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.content.ContentResolver;
import android.content.ContentValues;
import android.content.Intent;
import android.content.pm.ProviderInfo;
import android.database.Cursor;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.net.Uri;
import android.provider.OpenableColumns;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.List;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;

/** Images, tables and recordings go to the app that the user chooses, and nowhere else. */
@RunWith(RobolectricTestRunner.class)
@Config(qualifiers = "w412dp-h892dp-port-notnight-420dpi")
public class ShareTest {
    private ActivityController<MainActivity> controller;
    private Session session;
    private ContentResolver resolver;

    @Before
    public void begin() throws Exception {
        session = Harness.session();
        resolver = Harness.context().getContentResolver();
        controller = Robolectric.buildActivity(MainActivity.class).setup();
        File recording = new File(Harness.context().getFilesDir(), "20261122-031820.jsonl");
        Files.copy(Harness.RECORDING.toPath(), recording.toPath());
        session.open(() -> new FileInputStream(recording), recording);
        Harness.await("the recording is shown", 10, () -> session.run != null);
    }

    @After
    public void end() {
        controller.close();
    }

    private Intent shared(int item) {
        controller.get().choose(item);
        Intent chooser = shadowOf(controller.get()).getNextStartedActivity();
        assertEquals(Intent.ACTION_CHOOSER, chooser.getAction());
        Intent send = chooser.getParcelableExtra(Intent.EXTRA_INTENT, Intent.class);
        assertEquals(Intent.ACTION_SEND, send.getAction());
        assertEquals("read and no more", Intent.FLAG_GRANT_READ_URI_PERMISSION,
                send.getFlags() & (Intent.FLAG_GRANT_READ_URI_PERMISSION | Intent.FLAG_GRANT_WRITE_URI_PERMISSION));
        return send;
    }

    private byte[] bytes(Intent send) throws Exception {
        Uri uri = send.getParcelableExtra(Intent.EXTRA_STREAM, Uri.class);
        assertEquals(uri, send.getClipData().getItemAt(0).getUri());
        assertEquals(send.getType(), resolver.getType(uri));
        try (InputStream in = resolver.openInputStream(uri); Cursor about = resolver.query(uri, null, null, null, null)) {
            byte[] bytes = in.readAllBytes();
            assertTrue(about.moveToFirst());
            assertEquals(bytes.length, about.getLong(about.getColumnIndexOrThrow(OpenableColumns.SIZE)));
            return bytes;
        }
    }

    @Test
    public void aPicture() throws Exception {
        Intent send = shared(R.string.menu_share_png);
        assertEquals("image/png", send.getType());
        byte[] png = bytes(send);
        Bitmap picture = BitmapFactory.decodeByteArray(png, 0, png.length);
        assertTrue(Harness.count(picture, Harness.context().getColor(R.color.cwnd)) > 1000);
        Harness.golden(Share.picture(Harness.context(), session.run, session.viewport), "shared");
    }

    @Test
    public void aTable() throws Exception {
        String csv = new String(bytes(shared(R.string.menu_share_csv)), java.nio.charset.StandardCharsets.UTF_8);
        String[] rows = csv.split("\n");
        assertEquals("a head and a row for each buffer", 1 + session.run.summary.buffers, rows.length);
        int columns = rows[0].split(",", -1).length;
        for (String row : rows) {
            assertEquals(row, columns, row.split(",", -1).length);
        }
        Event first = null;
        for (String line : Files.readAllLines(Harness.RECORDING.toPath())) {
            Event event = EventReader.parse(line);
            if (first == null && event.type == Event.Type.BUFFER) {
                first = event;
            }
        }
        String[] cells = rows[1].split(",", -1);
        assertEquals("0.000000", cells[4]);
        assertEquals(Long.toString(first.throughputBps), cells[7]);
        assertEquals(Long.toString(first.cwnd), cells[9]);
        assertEquals(first.source, cells[15]);
    }

    @Test
    public void theRecordingItself() throws Exception {
        assertArrayEquals(Files.readAllBytes(Harness.RECORDING.toPath()), bytes(shared(R.string.menu_share_recording)));
    }

    @Test
    public void theProviderGivesNothingElse() throws Exception {
        Intent send = shared(R.string.menu_share_csv);
        Uri uri = send.getParcelableExtra(Intent.EXTRA_STREAM, Uri.class);
        ProviderInfo info = Harness.context().getPackageManager().resolveContentProvider(ShareProvider.AUTHORITY, 0);
        assertFalse("nobody finds it by himself", info.exported);
        assertTrue(info.grantUriPermissions);
        ShareProvider provider = Robolectric.buildContentProvider(ShareProvider.class).create(info).get();
        for (String mode : List.of("w", "wt", "wa", "rw", "rwt", "")) {
            assertThrows(mode, FileNotFoundException.class, () -> provider.openFile(uri, mode));
        }
        assertThrows(UnsupportedOperationException.class, () -> resolver.delete(uri, null, null));
        assertThrows(UnsupportedOperationException.class, () -> resolver.insert(uri, new ContentValues()));
        for (String path : List.of("..%2F..%2Ffiles%2F20261122-031820.jsonl", "../files/20261122-031820.jsonl", "..", ".", "", "share/" + uri.getLastPathSegment(), "%2Fetc%2Fpasswd")) {
            Uri other = Uri.parse("content://" + ShareProvider.AUTHORITY + "/" + path);
            assertThrows(path, FileNotFoundException.class, () -> resolver.openInputStream(other));
        }
    }

    @Test
    public void nothingToShareIsSaid() {
        session.run = null;
        controller.get().choose(R.string.menu_share_png);
        assertEquals(Harness.context().getString(R.string.error_share), Harness.banner(controller.get()));
    }
}
