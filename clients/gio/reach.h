// g_network_monitor_can_reach(): whether there is a path to one of a host's addresses.
#pragma once
#include <gio/gio.h>

gboolean reach(GNetworkMonitor *monitor, GSocketConnectable *host, GCancellable *cancellable,
               GError **error);

void reach_async(GNetworkMonitor *monitor, GSocketConnectable *host, GCancellable *cancellable,
                 GAsyncReadyCallback callback, gpointer data);

gboolean reach_finish(GNetworkMonitor *monitor, GAsyncResult *result, GError **error);
