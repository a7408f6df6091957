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

/** Says that a run is under way, so that Android leaves the app alone while it is behind another. It holds nothing itself. */
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
        // Once begun in the foreground a service must say so, even if there is nothing to do any more.
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

    /** Android 15 lets such services run for six hours a day, and calls this then; the interface compiled against has no such name. */
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
