package org.yuzuri;

import java.util.Locale;

/** Formatting and parsing of quantities. */
final class Quantity {
    private Quantity() {}

    /** Parses `1000`, `64 kB`, `1MB` or `4 MiB` like `yuzuri send --buffer`; -1 for anything else. */
    static long bytes(String text) {
        String trimmed = text.trim();
        int digits = 0;
        while (digits < trimmed.length() && (Character.isDigit(trimmed.charAt(digits)) || trimmed.charAt(digits) == '.')) {
            digits++;
        }
        double factor;
        switch (trimmed.substring(digits).trim().toLowerCase(Locale.ROOT)) {
            case "": case "b": factor = 1; break;
            case "k": case "kb": factor = 1e3; break;
            case "m": case "mb": factor = 1e6; break;
            case "g": case "gb": factor = 1e9; break;
            case "ki": case "kib": factor = 1024; break;
            case "mi": case "mib": factor = 1 << 20; break;
            case "gi": case "gib": factor = 1 << 30; break;
            default: return -1;
        }
        try {
            double bytes = Double.parseDouble(trimmed.substring(0, digits)) * factor;
            return bytes < 9e18 ? Math.round(bytes) : -1;
        } catch (NumberFormatException e) {
            return -1;
        }
    }

    /** `1 MB`, `64 KiB`: exact if that is short, otherwise three significant digits. */
    static String ofBytes(long bytes) {
        String[] units = {"B", "kB", "MB", "GB", "TB"};
        String[] binary = {"B", "KiB", "MiB", "GiB", "TiB"};
        long scale = 1;
        long scaleBinary = 1;
        int unit = 0;
        while (unit < 4 && bytes >= scale * 1000) {
            scale *= 1000;
            scaleBinary *= 1024;
            unit++;
        }
        if (unit > 0 && bytes % scale != 0 && bytes % scaleBinary == 0) {
            return bytes / scaleBinary + " " + binary[unit];
        }
        // 65,536 is shown as 64 KiB although it is above 65 kB.
        if (unit > 0 && bytes % scale != 0 && bytes % 1024 == 0 && bytes < 1 << 20) {
            return bytes / 1024 + " KiB";
        }
        return figure((double) bytes / scale) + " " + units[unit];
    }

    /** Three significant digits: 0.123, 1.23, 12.3, 123, 1234; integers unchanged. */
    static String figure(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return "–";
        }
        if (value == Math.rint(value) && Math.abs(value) < 1e15) {
            return Long.toString((long) value);
        }
        int decimals = Math.abs(value) < 1 ? 3 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
        return String.format(Locale.ROOT, "%." + decimals + "f", value);
    }

    static String mbps(long bps) {
        return bps < 0 ? "–" : figure(bps / 1e6);
    }

    /** `12.3 s`, `2:05`, `1:02:05`. */
    static String time(long us) {
        long tenths = Math.round(us / 1e5);
        if (tenths < 600) {
            return String.format(Locale.ROOT, "%d.%d s", tenths / 10, tenths % 10);
        }
        long s = Math.round(us / 1e6);
        return s < 3600
                ? String.format(Locale.ROOT, "%d:%02d", s / 60, s % 60)
                : String.format(Locale.ROOT, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
    }
}
