package org.yuzuri;

import android.content.Context;
import android.graphics.Typeface;
import android.graphics.drawable.GradientDrawable;
import android.util.AttributeSet;
import android.util.TypedValue;
import android.view.Gravity;
import android.view.accessibility.AccessibilityNodeInfo;
import android.widget.LinearLayout;
import android.widget.TextView;

/** The name, the value and the unit of a series: its legend, its read-out and its switch. */
public final class TileView extends LinearLayout {
    private final TextView name;
    private final TextView value;
    private final GradientDrawable bar = new GradientDrawable();
    private final GradientDrawable back = new GradientDrawable();
    private String unit = "";
    private boolean on;

    public TileView(Context context, AttributeSet attributes) {
        super(context, attributes);
        setOrientation(VERTICAL);
        setGravity(Gravity.CENTER_VERTICAL);
        setFocusable(true);
        setClickable(true);
        name = text(12, false);
        value = text(18, true);
        name.setGravity(Gravity.START);
        name.setCompoundDrawablePadding(px(5));
        bar.setSize(px(10), px(10));
        bar.setCornerRadius(px(3));
        name.setCompoundDrawablesRelativeWithIntrinsicBounds(bar, null, null, null);
        name.setTextColor(context.getColor(R.color.muted));
        back.setCornerRadius(px(10));
        // A gap of 2 dp between tiles.
        setBackground(new android.graphics.drawable.InsetDrawable(back, px(2)));
        setPadding(px(10), px(7), px(8), px(7));
        setForeground(context.getDrawable(selectable(context)));
    }

    private static int selectable(Context context) {
        TypedValue value = new TypedValue();
        context.getTheme().resolveAttribute(android.R.attr.selectableItemBackground, value, true);
        return value.resourceId;
    }

    private int px(float dp) {
        return Math.round(TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_DIP, dp, getResources().getDisplayMetrics()));
    }

    private TextView text(float sp, boolean bold) {
        TextView text = new TextView(getContext());
        text.setTextSize(TypedValue.COMPLEX_UNIT_SP, sp);
        text.setSingleLine(true);
        text.setImportantForAccessibility(IMPORTANT_FOR_ACCESSIBILITY_NO);
        if (bold) {
            text.setTypeface(Typeface.DEFAULT_BOLD);
        }
        text.setFontFeatureSettings("tnum");
        addView(text, new LayoutParams(LayoutParams.WRAP_CONTENT, LayoutParams.WRAP_CONTENT));
        return text;
    }

    void describe(String title, String unit, int colour, int textColour) {
        this.unit = unit;
        name.setText(title);
        bar.setColor(colour);
        value.setTextColor(textColour);
        // Reserve room for five digits, so that tiles do not move.
        value.setMinWidth((int) value.getPaint().measureText("00000") + 1);
    }

    void setOn(boolean on) {
        this.on = on;
        back.setColor(getContext().getColor(on ? R.color.panel : R.color.background));
        back.setStroke(px(1), getContext().getColor(R.color.border));
        name.setAlpha(on ? 1f : 0.75f);
        value.setAlpha(on ? 1f : 0.55f);
        bar.setAlpha(on ? 255 : 70);
    }

    void setValue(String text) {
        String shown = text;
        if (!shown.contentEquals(value.getText())) {
            value.setText(shown);
        }
    }

    /** The value as displayed. */
    String shown() {
        return value.getText().toString();
    }

    @Override
    public CharSequence getContentDescription() {
        String none = getContext().getString(R.string.no_value);
        boolean empty = shown().isEmpty() || shown().equals(none);
        String spoken = empty ? getContext().getString(R.string.no_value_spoken) : shown();
        String title = name.getText().toString();
        return getContext().getString(R.string.tile_spoken, title, spoken, empty ? "" : unit) + ". "
                + getContext().getString(on ? R.string.series_on : R.string.series_off, title);
    }

    @Override
    public void onInitializeAccessibilityNodeInfo(AccessibilityNodeInfo info) {
        super.onInitializeAccessibilityNodeInfo(info);
        info.setClassName("android.widget.ToggleButton");
        info.setCheckable(true);
        info.setChecked(on);
        info.setContentDescription(getContentDescription());
    }
}
