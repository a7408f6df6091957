package org.yuzuri;

import android.app.Activity;
import android.content.ClipData;
import android.content.Context;
import android.content.Intent;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.graphics.Paint;
import android.net.Uri;
import android.util.TypedValue;
import android.view.View;
import java.io.BufferedWriter;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.text.DateFormat;
import java.util.Date;

/** Creates images, tables and recordings for other apps. */
final class Share {
    private static final int PICTURE_WIDTH_DP = 720;
    private static final int PICTURE_HEIGHT_DP = 405;

    private Share() {}

    /** An empty folder for the next file to share; earlier files have been read or are not wanted. */
    private static File folder(Context context) throws IOException {
        File folder = ShareProvider.folder(context);
        if (!folder.isDirectory() && !folder.mkdirs()) {
            throw new IOException("cannot make the folder " + folder);
        }
        File[] old = folder.listFiles();
        if (old != null) {
            for (File file : old) {
                file.delete();
            }
        }
        return folder;
    }

    private static String name(Session session, String ending) {
        String base = session.recording == null ? "yuzuri" : Recording.name(session.recording);
        return "yuzuri-" + base + ending;
    }

    static File png(Context context, Session session) throws IOException {
        File file = new File(folder(context), name(session, ".png"));
        Bitmap picture = picture(context, session.run, session.viewport);
        try (OutputStream out = new FileOutputStream(file)) {
            if (!picture.compress(Bitmap.CompressFormat.PNG, 100, out)) {
                throw new IOException("the picture could not be written");
            }
        } finally {
            picture.recycle();
        }
        return file;
    }

    /** The chart with a title, as for a page. */
    static Bitmap picture(Context context, Run run, Viewport viewport) {
        float dp = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_DIP, 1, context.getResources().getDisplayMetrics());
        int width = Math.round(PICTURE_WIDTH_DP * dp);
        int height = Math.round(PICTURE_HEIGHT_DP * dp);
        int head = Math.round(34 * dp);
        Bitmap bitmap = Bitmap.createBitmap(width, height, Bitmap.Config.ARGB_8888);
        Canvas canvas = new Canvas(bitmap);
        canvas.drawColor(context.getColor(R.color.panel));
        Paint text = new Paint(Paint.ANTI_ALIAS_FLAG);
        text.setColor(context.getColor(R.color.text));
        text.setTextSize(15 * dp);
        text.setFakeBoldText(true);
        String what = run.watch() ? context.getString(R.string.flows_all)
                : context.getString(R.string.run_line, run.settings.target(), Quantity.ofBytes(run.settings.bufferBytes),
                        run.settings.connections, run.control);
        String when = DateFormat.getDateTimeInstance(DateFormat.MEDIUM, DateFormat.SHORT).format(new Date(run.startedUnixMs));
        canvas.drawText(context.getString(R.string.picture_title, what, when), 12 * dp, 23 * dp, text);
        ChartView chart = new ChartView(context, null);
        chart.show(run, viewport, null);
        chart.measure(View.MeasureSpec.makeMeasureSpec(width, View.MeasureSpec.EXACTLY),
                View.MeasureSpec.makeMeasureSpec(height - head, View.MeasureSpec.EXACTLY));
        chart.layout(0, 0, width, height - head);
        canvas.translate(0, head);
        chart.draw(canvas);
        return bitmap;
    }

    /** All recorded buffers as CSV, one row per buffer. */
    static File csv(Context context, Session session) throws IOException {
        File file = new File(folder(context), name(session, ".csv"));
        try (InputStream in = new FileInputStream(session.recording);
                Writer out = new BufferedWriter(new OutputStreamWriter(new FileOutputStream(file), StandardCharsets.UTF_8))) {
            out.write("connection,index,bytes,complete,first_write_s,sent_s,acked_s,throughput_bps,carried_bps,cwnd,ssthresh,"
                    + "srtt_us,min_rtt_us,ca_state,total_retrans,source\n");
            long[] zero = {-1};
            Recording.read(in, (event, line) -> {
                if (event.type == Event.Type.BUFFER) {
                    zero[0] = zero[0] < 0 ? event.firstWriteMonoNs : zero[0];
                    out.write(event.id + "," + event.index + "," + event.bytes + "," + event.complete + ","
                            + s(event.firstWriteMonoNs, zero[0]) + "," + s(event.sentMonoNs, zero[0]) + ","
                            + s(event.ackedMonoNs, zero[0]) + "," + n(event.throughputBps) + "," + n(event.carriedBps) + ","
                            + n(event.cwnd) + "," + n(event.ssthresh) + "," + n(event.srttUs) + "," + n(event.minRttUs) + ","
                            + word(event.caState) + "," + n(event.totalRetrans) + "," + word(event.source) + "\n");
                }
            });
        }
        return file;
    }

    private static String n(long value) {
        return value < 0 ? "" : Long.toString(value);
    }

    private static String s(long ns, long zeroNs) {
        return ns < 0 ? "" : String.format(java.util.Locale.ROOT, "%.6f", (ns - zeroNs) / 1e9);
    }

    /** The engine's names need no quoting; those of a forged file may. */
    private static String word(String text) {
        return text.matches("[a-z0-9-]*") ? text : "";
    }

    static File recording(Context context, File recording) throws IOException {
        File file = new File(folder(context), "yuzuri-" + recording.getName());
        try (InputStream in = new FileInputStream(recording); OutputStream out = new FileOutputStream(file)) {
            byte[] chunk = new byte[1 << 16];
            for (int count = in.read(chunk); count > 0; count = in.read(chunk)) {
                out.write(chunk, 0, count);
            }
        }
        return file;
    }

    /** Opens the chooser for a file; only the chosen app may read it. */
    static void give(Activity activity, File file) {
        Uri uri = ShareProvider.uri(file.getName());
        Intent send = new Intent(Intent.ACTION_SEND)
                .setType(ShareProvider.type(file.getName()))
                .putExtra(Intent.EXTRA_STREAM, uri)
                .addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION);
        send.setClipData(ClipData.newRawUri(file.getName(), uri));
        activity.startActivity(Intent.createChooser(send, null));
    }
}
