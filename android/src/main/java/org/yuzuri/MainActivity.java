package org.yuzuri;

import android.app.Activity;
import android.app.AlertDialog;
import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.net.Uri;
import android.os.Bundle;
import android.text.format.DateFormat;
import android.view.Menu;
import android.view.View;
import android.view.WindowManager;
import android.view.inputmethod.InputMethodManager;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.PopupMenu;
import android.widget.ProgressBar;
import android.widget.ScrollView;
import android.widget.TextView;
import java.io.File;
import java.io.IOException;
import java.util.Date;
import java.util.HashSet;
import java.util.Set;

/** The only screen: chart, read-outs, form, summary, results. {@link Session} has all persistent state. */
public final class MainActivity extends Activity implements Session.Listener, ChartView.Listener {
    private static final int OPEN = 1;
    /** Time without acknowledgements after which a message is shown. */
    private static final long SILENT_US = 2_000_000;

    private Session session;
    private ChartView chart;
    private TextView state;
    private TextView runLine;
    private ProgressBar progress;
    private Button start;
    private Tiles tiles;
    private Form form;
    private ResultsTable results;
    private FlowList flows;
    private Run summaryOf;
    private Run.State before;

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        setContentView(R.layout.main);
        session = YuzuriApp.session(this);
        chart = findViewById(R.id.chart);
        state = findViewById(R.id.state);
        runLine = findViewById(R.id.run_line);
        progress = findViewById(R.id.progress);
        start = findViewById(R.id.start);
        tiles = new Tiles(this, session.viewport, this);
        form = new Form(this, getPreferences(MODE_PRIVATE));
        results = new ResultsTable(findViewById(R.id.results), findViewById(R.id.results_none), session::show);
        flows = new FlowList(findViewById(R.id.flows), session.viewport, this);
        start.setOnClickListener(view -> startOrStop());
        findViewById(R.id.more).setOnClickListener(this::openMenu);
    }

    @Override
    protected void onStart() {
        super.onStart();
        session.listen(this);
        sessionChanged();
    }

    @Override
    protected void onStop() {
        session.forget(this);
        form.save();
        super.onStop();
    }

    private void startOrStop() {
        if (session.running()) {
            session.stop();
            return;
        }
        Settings settings = form.read();
        if (settings == null) {
            return;
        }
        form.save();
        InputMethodManager keyboard = getSystemService(InputMethodManager.class);
        keyboard.hideSoftInputFromWindow(start.getWindowToken(), 0);
        session.send(settings);
    }

    // --- display ---

    @Override
    public void viewportChanged() {
        chart.invalidate();
        tiles.show(session.run);
        flows.show(session.run);
    }

    @Override
    public void sessionChanged() {
        Run run = session.run;
        boolean running = session.running();
        chart.show(run, session.viewport, this);
        tiles.show(run);
        state.setText(stateText(run));
        showBanner(run);
        boolean watching = run != null && run.watch();
        findViewById(R.id.form).setVisibility(running ? View.GONE : View.VISIBLE);
        giveRoom(running && !watching);
        findViewById(R.id.flows_card).setVisibility(watching ? View.VISIBLE : View.GONE);
        flows.show(run);
        showRunLine(run, running);
        start.setText(!running ? R.string.start : run.state == Run.State.STOPPING ? R.string.stopping : R.string.stop);
        start.setBackgroundResource(running ? R.drawable.stop : R.drawable.start);
        start.setTextColor(getColor(running ? R.color.loss : R.color.on_accent));
        start.setEnabled(!running || run.state != Run.State.STOPPING);
        if (running) {
            // With the screen off, Wi-Fi enters power save, which would distort the measurement.
            getWindow().addFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON);
        } else {
            getWindow().clearFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON);
        }
        showSummary(run);
        results.show(session.results, session.recording);
        Run.State now = run == null ? null : run.state;
        if (now != before) {
            before = now;
            // New content is at the top: the banner or the summary.
            ((ScrollView) findViewById(R.id.scroll)).smoothScrollTo(0, 0);
        }
    }

    /** During a transfer the form is hidden; if the chart is above it, the chart takes its space. */
    private void giveRoom(boolean toChart) {
        View stage = findViewById(R.id.stage);
        if (stage == null) {
            return;
        }
        LinearLayout.LayoutParams layout = (LinearLayout.LayoutParams) stage.getLayoutParams();
        float weight = toChart ? 110 : 53;
        if (layout.weight != weight) {
            layout.weight = weight;
            stage.setLayoutParams(layout);
        }
    }

    private String stateText(Run run) {
        if (run == null) {
            return getString(R.string.state_idle);
        }
        switch (run.state) {
            case CONNECTING:
                return run.watch() ? getString(R.string.state_watching) : getString(R.string.state_connecting, run.settings.host);
            case SENDING:
                if (run.silentSinceUs >= 0 && run.elapsedUs - run.silentSinceUs >= SILENT_US) {
                    return getString(R.string.state_silent, (run.elapsedUs - run.silentSinceUs) / 1_000_000);
                }
                return getString(R.string.state_sending, run.settings.host);
            case WATCHING: return getString(R.string.state_watching);
            case STOPPING: return getString(R.string.stopping);
            default:
        }
        if (run.replayed) {
            Date when = new Date(run.startedUnixMs);
            return getString(R.string.state_shown,
                    DateFormat.getMediumDateFormat(this).format(when) + " " + DateFormat.getTimeFormat(this).format(when));
        }
        return getString(run.state == Run.State.DONE ? R.string.state_done
                : run.state == Run.State.STOPPED ? R.string.state_stopped : R.string.state_failed);
    }

    private void showRunLine(Run run, boolean running) {
        boolean sending = running && !run.watch();
        runLine.setVisibility(running ? View.VISIBLE : View.GONE);
        progress.setVisibility(sending && run.settings.durationS > 0 ? View.VISIBLE : View.GONE);
        if (!running) {
            return;
        }
        String elapsed = Quantity.time(run.elapsedUs);
        if (run.watch()) {
            runLine.setText(elapsed);
            return;
        }
        String times = run.settings.durationS > 0
                ? getString(R.string.elapsed_of, elapsed, Quantity.time(run.settings.durationS * 1_000_000)) : elapsed;
        runLine.setText(getString(R.string.run_line, run.control.isEmpty() ? "TCP" : run.control,
                Quantity.ofBytes(run.settings.bufferBytes), run.settings.connections, times));
        if (run.settings.durationS > 0) {
            progress.setProgress((int) Math.min(run.elapsedUs / (run.settings.durationS * 1000), 1000));
        }
    }

    private void showBanner(Run run) {
        Problem problem = session.problem != null ? session.problem : run == null ? null : run.problem;
        if (problem == null && run != null && run.garbled > 0) {
            problem = Problem.warning(R.string.error_garbled, "", run.garbled);
        }
        LinearLayout banner = findViewById(R.id.banner);
        banner.setVisibility(problem == null ? View.GONE : View.VISIBLE);
        if (problem == null) {
            return;
        }
        int colour = getColor(problem.warning ? R.color.warn : R.color.bad);
        banner.setBackgroundResource(problem.warning ? R.drawable.banner_warn : R.drawable.banner_bad);
        TextView text = findViewById(R.id.banner_text);
        TextView detail = findViewById(R.id.banner_detail);
        setText(text, problem.text(this));
        setText(detail, problem.detail);
        text.setTextColor(colour);
        detail.setTextColor(colour);
        detail.setVisibility(problem.detail.isEmpty() ? View.GONE : View.VISIBLE);
    }

    private static void setText(TextView view, String text) {
        // A live region is read aloud whenever its text is set.
        if (!text.contentEquals(view.getText())) {
            view.setText(text);
        }
    }

    private void showSummary(Run run) {
        boolean shown = run != null && !run.running() && (run.summary != null || run.watch() && !run.notes.isEmpty());
        findViewById(R.id.summary_card).setVisibility(shown ? View.VISIBLE : View.GONE);
        if (shown && run != summaryOf) {
            ((TextView) findViewById(R.id.summary)).setText(Summary.text(this, run));
        }
        summaryOf = shown ? run : null;
    }

    // --- menu ---

    private void openMenu(View anchor) {
        PopupMenu popup = new PopupMenu(this, anchor);
        Menu menu = popup.getMenu();
        Run run = session.run;
        boolean something = run != null && run.connected();
        boolean recorded = session.recording != null && !session.running();
        boolean twice = recorded && !session.recording.equals(session.shareable());
        menu.add(0, R.string.menu_share_png, 0, R.string.menu_share_png).setEnabled(something);
        menu.add(0, R.string.menu_share_csv, 0, R.string.menu_share_csv).setEnabled(recorded && something && !run.watch());
        menu.add(0, R.string.menu_share_recording, 0, R.string.menu_share_recording).setEnabled(recorded);
        menu.add(0, R.string.menu_share_own, 0, R.string.menu_share_own).setEnabled(twice);
        menu.add(0, R.string.menu_open, 0, R.string.menu_open).setEnabled(!session.running());
        menu.add(0, R.string.menu_whole, 0, R.string.menu_whole).setEnabled(!session.viewport.whole());
        menu.add(0, R.string.menu_watch, 0, R.string.menu_watch).setEnabled(!session.running());
        menu.add(0, R.string.menu_delete, 0, R.string.menu_delete).setEnabled(!session.running());
        menu.add(0, R.string.menu_about, 0, R.string.menu_about);
        popup.setOnMenuItemClickListener(item -> {
            choose(item.getItemId());
            return true;
        });
        popup.show();
    }

    void choose(int item) {
        if (item == R.string.menu_share_png) {
            share(() -> Share.png(this, session));
        } else if (item == R.string.menu_share_csv) {
            share(() -> Share.csv(this, session));
        } else if (item == R.string.menu_share_recording) {
            share(() -> Share.recording(this, session.shareable()));
        } else if (item == R.string.menu_share_own) {
            share(() -> Share.recording(this, session.recording));
        } else if (item == R.string.menu_open) {
            open();
        } else if (item == R.string.menu_whole) {
            session.viewport.showWhole();
            viewportChanged();
        } else if (item == R.string.menu_watch) {
            session.watch();
        } else if (item == R.string.menu_delete) {
            askDelete();
        } else if (item == R.string.menu_about) {
            about();
        }
    }

    private interface Maker {
        File make() throws IOException;
    }

    private void share(Maker maker) {
        if (session.run == null || !session.run.connected()) {
            session.problem = Problem.error(R.string.error_share, "");
        } else {
            try {
                Share.give(this, maker.make());
                session.problem = null;
            } catch (IOException e) {
                session.problem = Problem.error(R.string.error_share_write, e.getMessage());
            }
        }
        session.changed();
    }

    private void open() {
        try {
            startActivityForResult(new Intent(Intent.ACTION_OPEN_DOCUMENT)
                    .addCategory(Intent.CATEGORY_OPENABLE).setType("*/*"), OPEN);
        } catch (ActivityNotFoundException e) {
            session.problem = Problem.error(R.string.error_unreadable, e.getMessage());
            session.changed();
        }
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        if (request == OPEN && result == RESULT_OK && data != null && data.getData() != null) {
            Uri uri = data.getData();
            session.open(() -> getApplicationContext().getContentResolver().openInputStream(uri), null);
        }
    }

    private void askDelete() {
        long bytes = 0;
        Set<String> names = new HashSet<>();
        for (File file : session.recordings()) {
            bytes += file.length();
            names.add(Recording.name(file));
        }
        new AlertDialog.Builder(this)
                .setMessage(getString(R.string.delete_question, names.size(), Quantity.ofBytes(bytes)))
                .setPositiveButton(R.string.delete, (dialog, which) -> session.deleteAll())
                .setNegativeButton(R.string.cancel, null)
                .show();
    }

    private void about() {
        String version = "";
        try {
            version = getPackageManager().getPackageInfo(getPackageName(), 0).versionName;
        } catch (android.content.pm.PackageManager.NameNotFoundException e) {
            throw new AssertionError("this very package is installed", e);
        }
        new AlertDialog.Builder(this).setTitle(R.string.app_name).setMessage(getString(R.string.about_text, version))
                .setPositiveButton(android.R.string.ok, null).show();
    }
}
