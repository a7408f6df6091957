package org.yuzuri;

import android.app.Activity;

/** The four tiles below the chart: the values at the cursor, or the latest. */
final class Tiles {
    private final Viewport viewport;
    private final TileView cwnd;
    private final TileView rate;
    private final TileView rtt;
    private final TileView ssthresh;
    private final String none;

    Tiles(Activity activity, Viewport viewport, ChartView.Listener listener) {
        this.viewport = viewport;
        none = activity.getString(R.string.no_value);
        String segments = activity.getString(R.string.unit_segments);
        cwnd = tile(activity, R.id.tile_cwnd, R.string.cwnd, segments, R.color.cwnd, R.color.cwnd_text);
        rate = tile(activity, R.id.tile_rate, R.string.unit_mbps, activity.getString(R.string.throughput), R.color.rate, R.color.rate_text);
        rtt = tile(activity, R.id.tile_rtt, R.string.rtt, activity.getString(R.string.unit_ms), R.color.rtt, R.color.rtt_text);
        ssthresh = tile(activity, R.id.tile_ssthresh, R.string.ssthresh, segments, R.color.ssthresh, R.color.ssthresh_text);
        cwnd.setOnClickListener(view -> {
            viewport.showCwnd = !viewport.showCwnd;
            listener.viewportChanged();
        });
        rate.setOnClickListener(view -> {
            viewport.showRate = !viewport.showRate;
            listener.viewportChanged();
        });
        rtt.setOnClickListener(view -> {
            viewport.showRtt = !viewport.showRtt;
            listener.viewportChanged();
        });
        ssthresh.setOnClickListener(view -> {
            viewport.showSsthresh = !viewport.showSsthresh;
            listener.viewportChanged();
        });
    }

    private static TileView tile(Activity activity, int id, int title, String unit, int colour, int textColour) {
        TileView tile = activity.findViewById(id);
        String name = activity.getString(title) + (title == R.string.rtt ? " " + unit : "");
        tile.describe(name, unit, activity.getColor(colour), activity.getColor(textColour));
        return tile;
    }

    void show(Run run) {
        cwnd.setOn(viewport.showCwnd);
        rate.setOn(viewport.showRate);
        rtt.setOn(viewport.showRtt);
        ssthresh.setOn(viewport.showSsthresh);
        Trace main = ChartPainter.main(run, viewport);
        cwnd.setValue(value(main == null ? null : main.cwnd));
        rate.setValue(value(main == null ? null : ChartPainter.rate(run, main)));
        rtt.setValue(value(main == null ? null : main.rttMs));
        ssthresh.setValue(value(main == null ? null : main.ssthresh));
    }

    private String value(Series series) {
        if (series == null) {
            return none;
        }
        float value = viewport.cursorUs >= 0 ? series.at(viewport.cursorUs) : series.last();
        return Float.isNaN(value) ? none : Quantity.figure(value);
    }
}
