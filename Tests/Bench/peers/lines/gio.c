// gio: prints a line for each change that GNetworkMonitor reports.
#include <gio/gio.h>
#include <stdio.h>
#include <unistd.h>

static void print(GNetworkMonitor *monitor, gboolean is_available, gpointer context) {
  (void)context;
  dprintf(STDOUT_FILENO, "%s %d\n", is_available ? "available" : "unavailable",
          (int)g_network_monitor_get_connectivity(monitor));
}

int main(void) {
  GNetworkMonitor *monitor = g_network_monitor_get_default();
  g_signal_connect(monitor, "network-changed", G_CALLBACK(print), NULL);
  dprintf(STDOUT_FILENO, "ready %s\n", G_OBJECT_TYPE_NAME(monitor));
  g_main_loop_run(g_main_loop_new(NULL, FALSE));
}
