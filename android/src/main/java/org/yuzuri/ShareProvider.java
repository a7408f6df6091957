package org.yuzuri;

import android.content.ContentProvider;
import android.content.ContentValues;
import android.content.Context;
import android.database.Cursor;
import android.database.MatrixCursor;
import android.net.Uri;
import android.os.ParcelFileDescriptor;
import android.provider.OpenableColumns;
import java.io.File;
import java.io.FileNotFoundException;
import java.util.List;

/**
 * Gives another app access to a file that the user shares with it, and to nothing else: only files in the
 * folder for sharing, read-only, and only with a grant (the provider is not exported).
 */
public final class ShareProvider extends ContentProvider {
    static final String AUTHORITY = "org.yuzuri.share";

    static File folder(Context context) {
        return new File(context.getCacheDir(), "share");
    }

    static Uri uri(String name) {
        return new Uri.Builder().scheme("content").authority(AUTHORITY).appendPath(name).build();
    }

    static String type(String name) {
        return name.endsWith(".png") ? "image/png" : name.endsWith(".csv") ? "text/csv" : "application/octet-stream";
    }

    private File file(Uri uri) throws FileNotFoundException {
        List<String> path = uri.getPathSegments();
        // A segment may contain an encoded slash or be `..`: accept only the name of a file directly in
        // the folder.
        String name = path.size() == 1 ? path.get(0) : "";
        String[] shared = folder(getContext()).list();
        if (shared != null) {
            for (String each : shared) {
                if (each.equals(name)) {
                    return new File(folder(getContext()), each);
                }
            }
        }
        throw new FileNotFoundException("nothing of that name is shared: " + uri);
    }

    @Override
    public boolean onCreate() {
        return true;
    }

    @Override
    public ParcelFileDescriptor openFile(Uri uri, String mode) throws FileNotFoundException {
        if (!"r".equals(mode)) {
            throw new FileNotFoundException("what is shared can only be read");
        }
        return ParcelFileDescriptor.open(file(uri), ParcelFileDescriptor.MODE_READ_ONLY);
    }

    @Override
    public Cursor query(Uri uri, String[] columns, String selection, String[] arguments, String order) {
        String[] asked = columns != null ? columns : new String[] {OpenableColumns.DISPLAY_NAME, OpenableColumns.SIZE};
        MatrixCursor cursor = new MatrixCursor(asked, 1);
        try {
            File file = file(uri);
            MatrixCursor.RowBuilder row = cursor.newRow();
            for (String column : asked) {
                row.add(OpenableColumns.DISPLAY_NAME.equals(column) ? file.getName()
                        : OpenableColumns.SIZE.equals(column) ? (Object) file.length() : null);
            }
        } catch (FileNotFoundException e) {
            // No row: the file does not exist.
        }
        return cursor;
    }

    @Override
    public String getType(Uri uri) {
        String name = uri.getLastPathSegment();
        return name == null ? null : type(name);
    }

    @Override
    public Uri insert(Uri uri, ContentValues values) {
        throw new UnsupportedOperationException("read only");
    }

    @Override
    public int delete(Uri uri, String selection, String[] arguments) {
        throw new UnsupportedOperationException("read only");
    }

    @Override
    public int update(Uri uri, ContentValues values, String selection, String[] arguments) {
        throw new UnsupportedOperationException("read only");
    }
}
