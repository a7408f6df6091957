package org.yuzuri;

import android.app.Application;
import android.content.Context;

/** Holds the state that outlives the screens. */
public final class YuzuriApp extends Application {
    private Session session;

    @Override
    public void onCreate() {
        super.onCreate();
        session = new Session(this);
        session.loadResults();
    }

    static Session session(Context context) {
        return ((YuzuriApp) context.getApplicationContext()).session;
    }
}
