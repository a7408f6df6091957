package org.yuzuri;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads lines of bounded length from a stream; the contents of a longer line are dropped. */
final class Lines {
    static final int MAX_BYTES = 1 << 18;

    private final InputStream in;
    private final byte[] chunk = new byte[1 << 16];
    private int at;
    private int end;
    private byte[] line = new byte[1024];

    Lines(InputStream in) {
        this.in = in;
    }

    /**
     * The next line; empty for one that was too long; null at the end. A last line without a line break
     * counts.
     */
    String next() throws IOException {
        int length = 0;
        boolean any = false;
        while (true) {
            if (at == end) {
                end = Math.max(in.read(chunk), 0);
                at = 0;
                if (end == 0) {
                    return any ? text(length) : null;
                }
            }
            any = true;
            int stop = at;
            while (stop < end && chunk[stop] != '\n') {
                stop++;
            }
            int part = stop - at;
            if (length + part <= MAX_BYTES) {
                if (length + part > line.length) {
                    line = Arrays.copyOf(line, Math.max(line.length * 2, length + part));
                }
                System.arraycopy(chunk, at, line, length, part);
            }
            length = Math.min(length + part, MAX_BYTES + 1);
            at = stop;
            if (stop < end) {
                at++;
                return text(length);
            }
        }
    }

    private String text(int length) {
        return length > MAX_BYTES ? "" : new String(line, 0, length, StandardCharsets.UTF_8);
    }
}
