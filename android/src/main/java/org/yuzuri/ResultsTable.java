package org.yuzuri;

import android.content.Context;
import android.graphics.Typeface;
import android.util.TypedValue;
import android.view.Gravity;
import android.view.View;
import android.widget.TableLayout;
import android.widget.TableRow;
import android.widget.TextView;
import java.io.File;
import java.util.ArrayList;
import java.util.List;

/** One row per run, newest first. */
final class ResultsTable {
    /** Called with the result of a tapped row. */
    interface Chosen {
        void chosen(Result result);
    }

    private static final int[] HEADS = {
        R.string.col_buffer, R.string.col_control, R.string.col_connections, R.string.col_throughput, R.string.col_cwnd,
        R.string.col_retrans,
    };
    /** Nobody scrolls through more rows; they would only cost time. */
    private static final int MAX = 100;

    private final TableLayout table;
    private final View none;
    private final Chosen chosen;
    private List<Result> shown = new ArrayList<>();

    ResultsTable(TableLayout table, View none, Chosen chosen) {
        this.table = table;
        this.none = none;
        this.chosen = chosen;
    }

    void show(List<Result> results, File current) {
        if (!results.equals(shown) || table.getChildCount() == 0 && !results.isEmpty()) {
            shown = new ArrayList<>(results);
            fill();
        }
        for (int i = 1; i < table.getChildCount(); i++) {
            Result result = (Result) table.getChildAt(i).getTag();
            table.getChildAt(i).setActivated(current != null && current.equals(result.recording));
        }
    }

    private void fill() {
        table.removeAllViews();
        none.setVisibility(shown.isEmpty() ? View.VISIBLE : View.GONE);
        if (shown.isEmpty()) {
            return;
        }
        Context context = table.getContext();
        TableRow head = new TableRow(context);
        for (int i = 0; i < HEADS.length; i++) {
            head.addView(cell(context.getString(HEADS[i]), i, true));
        }
        table.addView(head);
        for (Result result : shown.subList(0, Math.min(shown.size(), MAX))) {
            table.addView(row(context, result));
        }
    }

    private TableRow row(Context context, Result result) {
        TableRow row = new TableRow(context);
        String control = result.control.isEmpty() ? context.getString(R.string.no_value) : result.control;
        String[] cells = {
            Quantity.ofBytes(result.bufferBytes), control, Integer.toString(result.connections),
            Quantity.mbps(result.throughputBps), Quantity.figure(result.cwndMedian), Long.toString(result.totalRetrans),
        };
        for (int i = 0; i < cells.length; i++) {
            row.addView(cell(cells[i], i, false));
        }
        row.setTag(result);
        row.setContentDescription(context.getString(R.string.row_spoken, cells[0], control, result.connections, cells[3],
                cells[4], result.totalRetrans));
        row.setBackgroundResource(R.drawable.row);
        row.setMinimumHeight(px(44));
        row.setGravity(Gravity.CENTER_VERTICAL);
        row.setFocusable(true);
        row.setOnClickListener(view -> chosen.chosen(result));
        return row;
    }

    private TextView cell(String text, int column, boolean head) {
        Context context = table.getContext();
        TextView cell = new TextView(context);
        cell.setText(text);
        cell.setTextSize(TypedValue.COMPLEX_UNIT_SP, head ? 12 : 14);
        cell.setTextColor(context.getColor(head ? R.color.muted : column == 3 ? R.color.rate_text : column == 4 ? R.color.cwnd_text : R.color.text));
        if (!head && column == 3) {
            cell.setTypeface(Typeface.DEFAULT_BOLD);
        }
        cell.setFontFeatureSettings("tnum");
        cell.setGravity(column < 2 ? Gravity.START : Gravity.END);
        cell.setPadding(px(4), px(6), px(4), px(6));
        if (!head) {
            // The row has the description for screen readers.
            cell.setImportantForAccessibility(View.IMPORTANT_FOR_ACCESSIBILITY_NO);
        }
        return cell;
    }

    private int px(float dp) {
        return Math.round(TypedValue.applyDimension(
                TypedValue.COMPLEX_UNIT_DIP, dp, table.getResources().getDisplayMetrics()));
    }
}
