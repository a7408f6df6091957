package org.yuzuri;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.app.Service;
import android.content.Intent;
import android.content.pm.ServiceInfo;
import android.os.Build;
import android.os.IBinder;

/**
 * A foreground service for the duration of a run, so that Android does not restrict the app in the
 * background. It has no state.
 */
public final class RunService extends Service implements Session.Listener {
    private static final String CHANNEL = "runs";
    private static final int ID = 1;

    @Override
    public void onCreate() {
        super.onCreate();
        YuzuriApp.session(this).listen(this);
    }

    @Override
    public int onStartCommand(Intent intent, int flags, int startId) {
        // A service started in the foreground must call startForeground(), even if there is nothing left
        // to do.
        if (Build.VERSION.SDK_INT >= 29) {
            startForeground(ID, notification(), ServiceInfo.FOREGROUND_SERVICE_TYPE_DATA_SYNC);
        } else {
            startForeground(ID, notification());
        }
        sessionChanged();
        return START_NOT_STICKY;
    }

    private Notification notification() {
        NotificationChannel channel =
                new NotificationChannel(CHANNEL, getString(R.string.channel), NotificationManager.IMPORTANCE_LOW);
        getSystemService(NotificationManager.class).createNotificationChannel(channel);
        Intent open = new Intent(this, MainActivity.class).addFlags(Intent.FLAG_ACTIVITY_SINGLE_TOP);
        return new Notification.Builder(this, CHANNEL)
                .setSmallIcon(R.drawable.note)
                .setContentTitle(getString(R.string.notification))
                .setContentIntent(PendingIntent.getActivity(this, 0, open, PendingIntent.FLAG_IMMUTABLE))
                .setUsesChronometer(true)
                .setOngoing(true)
                .build();
    }

    @Override
    public void sessionChanged() {
        if (!YuzuriApp.session(this).running()) {
            stopForeground(STOP_FOREGROUND_REMOVE);
            stopSelf();
        }
    }

    /**
     * Android 15 limits such services to six hours a day and then calls this method. The API that we
     * compile against does not have it.
     */
    public void onTimeout(int startId, int type) {
        YuzuriApp.session(this).stop();
        stopSelf();
    }

    @Override
    public void onDestroy() {
        YuzuriApp.session(this).forget(this);
        super.onDestroy();
    }

    @Override
    public IBinder onBind(Intent intent) {
        return null;
    }
}
