package org.yuzuri;

import android.content.Context;

/** A problem: a sentence in the user's language, and the engine's own message. */
final class Problem {
    final int sentence;
    final Object[] arguments;
    final String detail;
    /** Whether the measurement continues. */
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
     * Maps the engine's error category to a sentence, shown with the engine's message. Unknown categories
     * get a general sentence.
     */
    static Problem ofTransfer(String kind, String said, boolean connected, Settings settings) {
        String host = settings.host;
        switch (kind) {
            case "control-unknown":
            case "control-refused":
                return error(R.string.error_control, said, settings.control);
            case "closed-by-peer":
                return error(R.string.error_closed, said);
            case "web-server":
                return error(R.string.error_web_server, said);
            case "not-reading":
                return error(R.string.error_stalled_window, said);
            case "silent":
                return error(R.string.error_stalled_path, said);
            case "unknown-host":
                return error(R.string.error_name, said, host);
            default:
        }
        if (connected) {
            return error(R.string.error_network, said);
        }
        switch (kind) {
            case "refused":
                return error(R.string.error_refused, said, host, settings.port);
            case "timed-out":
                return error(R.string.error_no_answer, said, host);
            case "unreachable":
                return error(R.string.error_no_route, said, host);
            case "network":
            case "permission":
                return error(R.string.error_connect, said, host);
            default:
                return error(R.string.error_other, said);
        }
    }
}
