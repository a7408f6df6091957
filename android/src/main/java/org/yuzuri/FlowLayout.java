package org.yuzuri;

import android.content.Context;
import android.util.AttributeSet;
import android.util.DisplayMetrics;
import android.util.TypedValue;
import android.view.View;
import android.view.ViewGroup;

/**
 * Lays out children in columns of equal width: as many as fit without clipping any child's content, at
 * most 4, so that large fonts get fewer. A child with the tag `wide` spans two columns if there are
 * several.
 */
public final class FlowLayout extends ViewGroup {
    private static final int[] COLUMNS = {4, 2, 1};
    private int columns = 1;
    private int columnWidth;

    public FlowLayout(Context context, AttributeSet attributes) {
        super(context, attributes);
    }

    private static boolean wide(View child) {
        return "wide".equals(child.getTag());
    }

    @Override
    protected void onMeasure(int widthSpec, int heightSpec) {
        int width = MeasureSpec.getSize(widthSpec);
        if (MeasureSpec.getMode(widthSpec) == MeasureSpec.UNSPECIFIED) {
            width = getResources().getDisplayMetrics().widthPixels;
        }
        int inner = width - getPaddingLeft() - getPaddingRight();
        columns = fitting(inner);
        columnWidth = inner / columns;
        setMeasuredDimension(width, place(false) + getPaddingTop() + getPaddingBottom());
    }

    private int fitting(int inner) {
        for (int count : COLUMNS) {
            boolean fits = true;
            for (int i = 0; i < getChildCount() && fits; i++) {
                View child = getChildAt(i);
                if (child.getVisibility() == GONE) {
                    continue;
                }
                int room = inner / count * (wide(child) ? Math.min(count, 2) : 1);
                fits = needed(child) <= room;
            }
            if (fits) {
                return count;
            }
        }
        return 1;
    }

    /**
     * The minimum width that a child declares for the default font size; otherwise the width of its
     * content on one line.
     */
    private int needed(View child) {
        if (child.getMinimumWidth() > 0) {
            // Android scales small fonts more than large ones, so that a width in sp would not match.
            DisplayMetrics metrics = getResources().getDisplayMetrics();
            float fonts = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, 14, metrics) / (14 * metrics.density);
            return Math.round(child.getMinimumWidth() * fonts);
        }
        int open = MeasureSpec.makeMeasureSpec(0, MeasureSpec.UNSPECIFIED);
        child.measure(open, open);
        return child.getMeasuredWidth();
    }

    /** Measures the children or lays them out; returns the height. */
    private int place(boolean layout) {
        int top = getPaddingTop();
        int first = 0;
        while (first < getChildCount()) {
            int used = 0;
            int height = 0;
            int next = first;
            for (; next < getChildCount(); next++) {
                View child = getChildAt(next);
                if (child.getVisibility() == GONE) {
                    continue;
                }
                int span = Math.min(wide(child) ? 2 : 1, columns);
                if (used + span > columns) {
                    break;
                }
                if (!layout) {
                    child.measure(
                            MeasureSpec.makeMeasureSpec(columnWidth * span, MeasureSpec.EXACTLY),
                            MeasureSpec.makeMeasureSpec(0, MeasureSpec.UNSPECIFIED));
                }
                height = Math.max(height, child.getMeasuredHeight());
                used += span;
            }
            if (layout) {
                row(first, next, top, height);
            }
            top += height;
            first = next;
        }
        return top - getPaddingTop();
    }

    private void row(int first, int end, int top, int height) {
        boolean mirrored = getLayoutDirection() == LAYOUT_DIRECTION_RTL;
        int at = 0;
        for (int i = first; i < end; i++) {
            View child = getChildAt(i);
            if (child.getVisibility() == GONE) {
                continue;
            }
            int width = child.getMeasuredWidth();
            int left = mirrored ? getWidth() - getPaddingRight() - at - width : getPaddingLeft() + at;
            // Align a row at the bottom, so that fields line up below labels of one or two lines.
            child.layout(left, top + height - child.getMeasuredHeight(), left + width, top + height);
            at += width;
        }
    }

    @Override
    protected void onLayout(boolean changed, int left, int top, int right, int bottom) {
        place(true);
    }
}
