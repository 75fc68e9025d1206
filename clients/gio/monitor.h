// ConndNetworkMonitor: a GNetworkMonitor that reports what connd knows.
#pragma once
#include <gio/gio.h>

#include "client.h"

G_DECLARE_FINAL_TYPE(ConndNetworkMonitor, connd_network_monitor, CONND, NETWORK_MONITOR, GObject)

/// Registers the type in the module.
void connd_network_monitor_register(GTypeModule *module);

struct client *connd_network_monitor_client(ConndNetworkMonitor *monitor);
