package org.yuzuri;

import android.app.Activity;
import android.content.SharedPreferences;
import android.view.View;
import android.widget.ArrayAdapter;
import android.widget.CheckBox;
import android.widget.EditText;
import android.widget.Spinner;
import java.util.ArrayList;
import java.util.List;

/** The settings form; its values are kept between runs. */
final class Form {
    private final Activity activity;
    private final SharedPreferences kept;
    private final EditText server;
    private final EditText port;
    private final EditText buffer;
    private final EditText connections;
    private final EditText duration;
    private final Spinner control;
    private final CheckBox waitAck;
    private final CheckBox shareUplink;
    private final EditText groupKey;
    private final CheckBox withoutKey;
    private final List<String> controls = new ArrayList<>();

    Form(Activity activity, SharedPreferences kept) {
        this.activity = activity;
        this.kept = kept;
        server = field(R.id.server, "server", "");
        port = field(R.id.port, "port", "4950");
        buffer = field(R.id.buffer, "buffer", "1 MB");
        connections = field(R.id.connections, "connections", "1");
        duration = field(R.id.duration, "duration", "30");
        waitAck = activity.findViewById(R.id.wait_ack);
        waitAck.setChecked(kept.getBoolean("wait_ack", false));
        shareUplink = activity.findViewById(R.id.share_uplink);
        shareUplink.setChecked(kept.getBoolean("share_uplink", false));
        groupKey = field(R.id.group_key, "group_key", "");
        withoutKey = activity.findViewById(R.id.without_key);
        withoutKey.setChecked(kept.getBoolean("without_key", false));
        shareUplink.setOnCheckedChangeListener((view, on) -> showGroup());
        withoutKey.setOnCheckedChangeListener((view, on) -> showGroup());
        showGroup();
        control = activity.findViewById(R.id.control);
        Controls offered = Controls.ofDevice();
        List<String> shown = new ArrayList<>();
        controls.add("");
        shown.add(activity.getString(R.string.control_default));
        for (String name : offered.names) {
            controls.add(name);
            shown.add(offered.sure ? name : activity.getString(R.string.control_maybe, name));
        }
        ArrayAdapter<String> adapter = new ArrayAdapter<>(activity, android.R.layout.simple_spinner_item, shown);
        adapter.setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item);
        control.setAdapter(adapter);
        control.setSelection(Math.max(controls.indexOf(kept.getString("control", "")), 0));
    }

    private EditText field(int id, String key, String otherwise) {
        EditText field = activity.findViewById(id);
        field.setText(kept.getString(key, otherwise));
        return field;
    }

    /** The group matters only if the transfer shares the uplink. */
    private void showGroup() {
        activity.findViewById(R.id.group).setVisibility(shareUplink.isChecked() ? View.VISIBLE : View.GONE);
        groupKey.setEnabled(!withoutKey.isChecked());
        if (withoutKey.isChecked()) {
            groupKey.setError(null);
        }
    }

    private static String text(EditText field) {
        return field.getText().toString().trim();
    }

    void save() {
        kept.edit()
                .putString("server", text(server)).putString("port", text(port)).putString("buffer", text(buffer))
                .putString("connections", text(connections)).putString("duration", text(duration))
                .putString("control", controls.get(Math.max(control.getSelectedItemPosition(), 0)))
                .putBoolean("wait_ack", waitAck.isChecked())
                .putBoolean("share_uplink", shareUplink.isChecked()).putBoolean("without_key", withoutKey.isChecked())
                .putString("group_key", text(groupKey))
                .apply();
    }

    /** The entered settings; null if a field is invalid, which then shows an error. */
    Settings read() {
        String host = text(server);
        // Copied addresses often have brackets.
        if (host.startsWith("[") && host.endsWith("]")) {
            host = host.substring(1, host.length() - 1);
        }
        boolean plain = !host.isEmpty() && host.length() <= 255 && !host.startsWith("-") && host.matches("[^\\s/\\[\\]]+");
        long portNumber = number(port, 1, 65535);
        long bytes = Quantity.bytes(text(buffer));
        long count = number(connections, 1, Settings.MAX_CONNECTIONS);
        long seconds = number(duration, 0, Settings.MAX_DURATION_S);
        if (!check(plain, server, R.string.wrong_server)
                | !check(portNumber >= 0, port, R.string.wrong_port)
                | !check(bytes >= 1 && bytes <= Settings.MAX_BUFFER_BYTES, buffer, R.string.wrong_buffer)
                | !check(count >= 0, connections, R.string.wrong_connections)
                | !check(seconds >= 0, duration, R.string.wrong_duration)
                | !check(sharing() != Settings.Sharing.WITH_KEY || text(groupKey).matches("[0-9a-fA-F]{64}"), groupKey,
                        R.string.wrong_key)) {
            return null;
        }
        String name = controls.get(Math.max(control.getSelectedItemPosition(), 0));
        return new Settings(host, (int) portNumber, bytes, (int) count, seconds, name, waitAck.isChecked(), sharing(),
                text(groupKey));
    }

    private Settings.Sharing sharing() {
        return !shareUplink.isChecked() ? Settings.Sharing.NO
                : withoutKey.isChecked() ? Settings.Sharing.WITHOUT_KEY : Settings.Sharing.WITH_KEY;
    }

    private boolean check(boolean right, EditText field, int sentence) {
        field.setError(right ? null : activity.getString(sentence));
        if (!right) {
            field.requestFocus();
        }
        return right;
    }

    private static long number(EditText field, long least, long most) {
        try {
            long number = Long.parseLong(text(field));
            return number >= least && number <= most ? number : -1;
        } catch (NumberFormatException e) {
            return -1;
        }
    }
}
