package org.yuzuri;

/** The settings of a run. */
final class Settings {
    static final int MAX_CONNECTIONS = 64;
    static final long MAX_BUFFER_BYTES = 1L << 30;
    static final long MAX_DURATION_S = 86_400;

    final String host;
    final int port;
    final long bufferBytes;
    final int connections;
    /** 0: until Stop. */
    final long durationS;
    /** Empty: the device's default. */
    final String control;
    final boolean waitAck;
    final Sharing sharing;
    /** The group key, if the transfer shares the uplink with terminals with the same key; otherwise empty. */
    final String groupKey;

    /** Whether a transfer shares the uplink with other devices behind the same access point. */
    enum Sharing { NO, WITH_KEY, WITHOUT_KEY }

    Settings(String host, int port, long bufferBytes, int connections, long durationS, String control, boolean waitAck) {
        this(host, port, bufferBytes, connections, durationS, control, waitAck, Sharing.NO, "");
    }

    Settings(String host, int port, long bufferBytes, int connections, long durationS, String control, boolean waitAck,
            Sharing sharing, String groupKey) {
        this.host = host;
        this.port = port;
        this.bufferBytes = bufferBytes;
        this.connections = connections;
        this.durationS = durationS;
        this.control = control;
        this.waitAck = waitAck;
        this.sharing = sharing;
        this.groupKey = groupKey;
    }

    /** `server:4950`, `[fe80::1]:4950`. */
    String target() {
        return target(host, port);
    }

    static String target(String host, int port) {
        return host.indexOf(':') >= 0 ? "[" + host + "]:" + port : host + ":" + port;
    }
}
