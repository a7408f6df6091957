package org.yuzuri;

import android.content.Context;
import java.util.Locale;

/** Something that went wrong: a sentence of ours in the user's language, and beside it what the engine itself said. */
final class Problem {
    final int sentence;
    final Object[] arguments;
    final String detail;
    /** Whether a measurement goes on in spite of it. */
    final boolean warning;

    private Problem(boolean warning, String detail, int sentence, Object... arguments) {
        this.warning = warning;
        this.detail = detail == null ? "" : detail;
        this.sentence = sentence;
        this.arguments = arguments;
    }

    static Problem error(int sentence, String detail, Object... arguments) {
        return new Problem(false, detail, sentence, arguments);
    }

    static Problem warning(int sentence, String detail, Object... arguments) {
        return new Problem(true, detail, sentence, arguments);
    }

    String text(Context context) {
        return context.getString(sentence, arguments);
    }

    /**
     * What the engine's sentence means. It has no code beside it, so that words of it are looked for; a sentence without
     * them is shown as it is, under a general one.
     */
    static Problem ofTransfer(String said, boolean connected, Settings settings) {
        String words = said.toLowerCase(Locale.ROOT);
        String host = settings.host;
        if (words.contains("cannot use congestion control")) {
            return error(R.string.error_control, said, settings.control);
        }
        if (connected) {
            if (words.contains("was closed by the other end")) {
                return error(R.string.error_closed, said);
            }
            if (words.contains("stands still")) {
                boolean window = words.contains("its window is closed");
                return error(window ? R.string.error_stalled_window : R.string.error_stalled_path, said);
            }
            return error(R.string.error_network, said);
        }
        if (words.contains("connection refused")) {
            return error(R.string.error_refused, said, host, settings.port);
        }
        if (words.contains("no answer") || words.contains("timed out")) {
            return error(R.string.error_no_answer, said, host);
        }
        if (words.contains("unreachable") || words.contains("no route")) {
            return error(R.string.error_no_route, said, host);
        }
        if (words.contains("cannot connect")) {
            return error(R.string.error_connect, said, host);
        }
        return error(R.string.error_other, said);
    }
}
