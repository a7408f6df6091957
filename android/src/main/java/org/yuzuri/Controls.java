package org.yuzuri;

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The congestion control algorithms offered to the user. */
final class Controls {
    private static final String ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

    /** Their names. */
    final List<String> names;
    /**
     * Whether the kernel reported them. Otherwise they are the common ones, and the engine reports
     * whether the kernel has them.
     */
    final boolean sure;

    private Controls(List<String> names, boolean sure) {
        this.names = names;
        this.sure = sure;
    }

    static Controls ofDevice() {
        try (BufferedReader in = new BufferedReader(new FileReader(ALLOWED))) {
            String line = in.readLine();
            return new Controls(parse(line == null ? "" : line), true);
        } catch (IOException e) {
            // Most devices do not let apps read the list.
            return new Controls(Arrays.asList("cubic", "reno", "bbr"), false);
        }
    }

    static List<String> parse(String line) {
        List<String> names = new ArrayList<>();
        for (String name : line.trim().split("\\s+")) {
            if (name.matches("[A-Za-z0-9_.-]{1,15}") && !names.contains(name)) {
                names.add(name);
            }
        }
        return names;
    }
}
