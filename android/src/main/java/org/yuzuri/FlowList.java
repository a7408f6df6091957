package org.yuzuri;

import android.content.Context;
import android.graphics.drawable.GradientDrawable;
import android.os.SystemClock;
import android.util.TypedValue;
import android.view.Gravity;
import android.view.View;
import android.widget.LinearLayout;
import android.widget.TextView;

/** The flows of a watch, for selecting one or all. */
final class FlowList {
    private static final long MIN_MS = 500;
    private static final int MAX = 40;

    private final LinearLayout list;
    private final Viewport viewport;
    private final ChartView.Listener listener;
    private final int[] colours;
    private long shownAtMs;
    private boolean pending;
    private Run run;

    FlowList(LinearLayout list, Viewport viewport, ChartView.Listener listener) {
        this.list = list;
        this.viewport = viewport;
        this.listener = listener;
        colours = list.getResources().getIntArray(R.array.flows);
    }

    /** Updating the list twice per second is enough. */
    void show(Run run) {
        this.run = run;
        if (run == null || !run.watch() || pending) {
            return;
        }
        long wait = shownAtMs + MIN_MS - SystemClock.uptimeMillis();
        if (wait <= 0 || list.getChildCount() == 0) {
            fill();
            return;
        }
        pending = true;
        list.postDelayed(() -> {
            pending = false;
            fill();
        }, wait);
    }

    private void fill() {
        shownAtMs = SystemClock.uptimeMillis();
        if (run == null) {
            return;
        }
        Context context = list.getContext();
        int count = Math.min(run.traces.size(), MAX);
        while (list.getChildCount() > count + 1) {
            list.removeViewAt(list.getChildCount() - 1);
        }
        String all = context.getString(run.traces.isEmpty() ? R.string.flows_none : R.string.flows_all);
        row(0).setText(all);
        choose(0, -1, 0);
        for (int i = 0; i < count; i++) {
            Trace trace = run.traces.get(i);
            String who = trace.process.isEmpty() ? trace.local : trace.process;
            float rate = trace.rateMbps.last();
            row(i + 1).setText(context.getString(R.string.flow_line, trace.peer, who,
                    Float.isNaN(trace.cwnd.last()) ? 0 : (int) trace.cwnd.last(),
                    Quantity.figure(Float.isNaN(rate) ? 0 : rate)));
            choose(i + 1, trace.id, colours[i % colours.length]);
        }
    }

    private void choose(int at, long id, int colour) {
        TextView row = (TextView) list.getChildAt(at);
        row.setActivated(viewport.flow == id);
        ((GradientDrawable) row.getCompoundDrawablesRelative()[0]).setColor(colour);
        row.setOnClickListener(view -> {
            viewport.flow = id;
            shownAtMs = 0;
            listener.viewportChanged();
        });
    }

    private TextView row(int at) {
        if (at < list.getChildCount()) {
            return (TextView) list.getChildAt(at);
        }
        TextView row = new TextView(list.getContext());
        row.setTextSize(TypedValue.COMPLEX_UNIT_SP, 14);
        row.setTextColor(list.getContext().getColor(R.color.text));
        row.setMinHeight(px(44));
        row.setGravity(Gravity.CENTER_VERTICAL);
        row.setPadding(px(4), px(4), px(4), px(4));
        row.setFocusable(true);
        row.setBackgroundResource(R.drawable.row);
        GradientDrawable dot = new GradientDrawable();
        dot.setShape(GradientDrawable.OVAL);
        dot.setSize(px(10), px(10));
        row.setCompoundDrawablePadding(px(8));
        row.setCompoundDrawablesRelativeWithIntrinsicBounds(dot, null, null, null);
        list.addView(row, new LinearLayout.LayoutParams(
                LinearLayout.LayoutParams.MATCH_PARENT, LinearLayout.LayoutParams.WRAP_CONTENT));
        return row;
    }

    private int px(float dp) {
        return Math.round(TypedValue.applyDimension(
                TypedValue.COMPLEX_UNIT_DIP, dp, list.getResources().getDisplayMetrics()));
    }
}
