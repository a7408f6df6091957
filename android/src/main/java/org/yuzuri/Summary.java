package org.yuzuri;

import android.content.Context;
import java.util.ArrayList;
import java.util.List;

/** The results of a run as lines of text. */
final class Summary {
    private Summary() {}

    static String text(Context context, Run run) {
        List<String> lines = new ArrayList<>();
        Event s = run.summary;
        if (s != null) {
            lines.add(context.getString(R.string.summary_throughput, Quantity.mbps(s.throughputBps),
                    Quantity.time(Math.max(s.durationNs, 0) / 1000)));
            if (s.medianBps >= 0) {
                lines.add(context.getString(R.string.summary_buffers,
                        Quantity.mbps(s.minBps), Quantity.mbps(s.medianBps), Quantity.mbps(s.maxBps)));
            }
            lines.add(context.getString(R.string.summary_bytes, Quantity.ofBytes(s.bytesAcked), Math.max(s.buffers, 0)));
            if (s.bytesUnacknowledged > 0) {
                lines.add(context.getString(R.string.summary_lost, Quantity.ofBytes(s.bytesUnacknowledged)));
            }
            lines.add(context.getString(R.string.summary_retrans, Math.max(s.totalRetrans, 0)));
            if (s.srttUs >= 0 && s.minRttUs >= 0) {
                lines.add(context.getString(R.string.summary_rtt,
                        Quantity.figure(s.srttUs / 1000.0), Quantity.figure(s.minRttUs / 1000.0)));
            }
            if (s.busyUs > 0) {
                lines.add(context.getString(R.string.summary_limited,
                        Math.round(100.0 * Math.max(s.rwndLimitedUs, 0) / s.busyUs),
                        Math.round(100.0 * Math.max(s.sndbufLimitedUs, 0) / s.busyUs)));
            }
            if (run.source.equals("tcp-info")) {
                lines.add(context.getString(R.string.summary_polled));
            }
        }
        for (Event shared : run.shared) {
            if (shared.others == 0) {
                lines.add(context.getString(R.string.summary_shared_alone, shared.network));
            } else {
                lines.add(context.getString(R.string.summary_shared, shared.network, shared.others,
                        Quantity.time(shared.boundedNs / 1000), Quantity.time(shared.durationNs / 1000)));
            }
        }
        if (run.notShared) {
            lines.add(context.getString(R.string.summary_not_shared));
        }
        lines.addAll(run.notes);
        return String.join("\n", lines);
    }
}
