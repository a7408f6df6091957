package org.yuzuri;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import android.graphics.Rect;
import android.text.Layout;
import android.view.View;
import android.view.ViewGroup;
import android.widget.CheckBox;
import android.widget.EditText;
import android.widget.TextView;
import java.io.File;
import java.nio.file.Files;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.After;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;

/** Large fonts, small screens, screen readers, both languages. */
@RunWith(RobolectricTestRunner.class)
public class AccessTest {
    private final Locale locale = Locale.getDefault();

    @After
    public void restore() {
        RuntimeEnvironment.setFontScale(1);
        Locale.setDefault(locale);
    }

    private interface Visitor {
        void visit(View view);
    }

    private static void walk(View view, Visitor visitor) {
        if (view.getVisibility() != View.VISIBLE) {
            return;
        }
        visitor.visit(view);
        if (view instanceof ViewGroup) {
            for (int i = 0; i < ((ViewGroup) view).getChildCount(); i++) {
                walk(((ViewGroup) view).getChildAt(i), visitor);
            }
        }
    }

    private static void check(String which) throws Exception {
        try (ActivityController<MainActivity> controller = Robolectric.buildActivity(MainActivity.class).setup()) {
            Session session = Harness.session();
            session.run = Harness.recorded();
            session.run.problem = Problem.error(R.string.error_stalled_window, "connection 0 stands still");
            session.results.add(Result.of(session.run, null));
            session.changed();
            // With every optional part of the form visible.
            ((CheckBox) controller.get().findViewById(R.id.share_uplink)).setChecked(true);
            View root = controller.get().findViewById(R.id.root);
            Harness.save(Harness.screen(controller.get()), which);
            float dp = root.getResources().getDisplayMetrics().density;
            walk(root, view -> {
                String name = which + ": " + view;
                if (view instanceof TextView) {
                    fits((TextView) view, name);
                }
                boolean reads = view instanceof TextView && ((TextView) view).isTextSelectable();
                if (view.isClickable() && !(view instanceof EditText) && !reads) {
                    CharSequence spoken = view.getContentDescription();
                    boolean text = view instanceof TextView && ((TextView) view).getText().length() > 0;
                    assertTrue("says nothing: " + name, text || spoken != null && spoken.length() > 0);
                    assertTrue("too small for a finger: " + name, view.getHeight() >= 43 * dp && view.getWidth() >= 43 * dp);
                }
            });
            View chart = controller.get().findViewById(R.id.chart);
            assertTrue("the chart has room: " + chart.getHeight() / dp + " dp", chart.getHeight() >= 120 * dp);
            Rect start = new Rect();
            assertTrue("Start is on the screen", controller.get().findViewById(R.id.start).getGlobalVisibleRect(start));
            assertTrue(start.bottom <= root.getHeight());
        }
    }

    private static void fits(TextView view, String name) {
        Layout layout = view.getLayout();
        if (layout == null || view.getText().length() == 0) {
            return;
        }
        for (int line = 0; line < layout.getLineCount(); line++) {
            assertEquals("cut: " + name + " \"" + view.getText() + "\"", 0, layout.getEllipsisCount(line));
        }
        boolean scrolls = view instanceof EditText;
        int inner = view.getHeight() - view.getCompoundPaddingTop() - view.getCompoundPaddingBottom();
        assertTrue("too low: " + name + " \"" + view.getText() + "\"", layout.getLineBottom(Math.min(layout.getLineCount(), Math.max(view.getMaxLines(), 1)) - 1) <= inner + 1 || scrolls);
        assertTrue("lines are missing: " + name + " \"" + view.getText() + "\"", view.getMaxLines() < 0 || layout.getLineCount() <= view.getMaxLines());
        assertTrue("too narrow: " + name + " \"" + view.getText() + "\"",
                scrolls || layout.getLineMax(0) <= view.getWidth() - view.getCompoundPaddingLeft() - view.getCompoundPaddingRight() + 1);
    }

    @Test
    @Config(qualifiers = "w360dp-h640dp-port-xhdpi")
    public void smallScreen() throws Exception {
        check("small");
    }

    @Test
    @Config(qualifiers = "w360dp-h640dp-port-xhdpi")
    public void smallScreenLargeFont() throws Exception {
        RuntimeEnvironment.setFontScale(1.3f);
        check("small-large-font");
    }

    @Test
    @Config(qualifiers = "w412dp-h892dp-port-420dpi")
    public void largestFont() throws Exception {
        RuntimeEnvironment.setFontScale(2);
        check("largest-font");
    }

    @Test
    @Config(qualifiers = "ja-w412dp-h892dp-port-night-420dpi")
    public void largestFontInJapanese() throws Exception {
        RuntimeEnvironment.setFontScale(2);
        check("largest-font-japanese");
    }

    @Test
    @Config(qualifiers = "ja-w892dp-h412dp-land-420dpi")
    public void lyingInJapanese() throws Exception {
        check("landscape-japanese");
    }

    /** Every text exists in both languages, with the same placeholders. */
    @Test
    public void bothLanguagesSayTheSame() throws Exception {
        Map<String, String> english = strings("values");
        Map<String, String> japanese = strings("values-ja");
        assertEquals(english.keySet(), japanese.keySet());
        for (String name : english.keySet()) {
            assertEquals(name, gaps(english.get(name)), gaps(japanese.get(name)));
            assertFalse(name + " is left in English", japanese.get(name).equals(english.get(name)) && english.get(name).matches(".*[a-z]{4}.*"));
        }
    }

    private static Map<String, String> strings(String folder) throws Exception {
        String text = Files.readString(new File("src/main/res/" + folder + "/strings.xml").toPath());
        Matcher each = Pattern.compile("<string name=\"(\\w+)\">(.*?)</string>", Pattern.DOTALL).matcher(text);
        Map<String, String> found = new TreeMap<>();
        while (each.find()) {
            found.put(each.group(1), each.group(2));
        }
        assertTrue(found.size() > 50);
        return found;
    }

    private static String gaps(String text) {
        Matcher each = Pattern.compile("%\\d\\$[sd]").matcher(text);
        java.util.TreeSet<String> found = new java.util.TreeSet<>();
        while (each.find()) {
            found.add(each.group());
        }
        return found.toString();
    }
}
