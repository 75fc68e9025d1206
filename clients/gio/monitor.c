#include "monitor.h"

#include "reach.h"

struct _ConndNetworkMonitor {
  GObject parent;
  struct client *client;
  /// Runs in the context that was the thread's default when the monitor was made.
  GSource *changed;
  /// What the signals have reported.
  struct status reported;
  guint reported_changes;
};

enum { property_available = 1, property_metered, property_connectivity };

static void implement_initable(GInitableIface *interface);
static void implement_monitor(GNetworkMonitorInterface *interface);

// GIO demands GInitable of an implementation of GNetworkMonitor, so it comes first.
G_DEFINE_DYNAMIC_TYPE_EXTENDED(ConndNetworkMonitor, connd_network_monitor, G_TYPE_OBJECT, 0,
                               G_IMPLEMENT_INTERFACE_DYNAMIC(G_TYPE_INITABLE, implement_initable)
                                   G_IMPLEMENT_INTERFACE_DYNAMIC(G_TYPE_NETWORK_MONITOR,
                                                                 implement_monitor))

void connd_network_monitor_register(GTypeModule *module) {
  connd_network_monitor_register_type(module);
}

struct client *connd_network_monitor_client(ConndNetworkMonitor *monitor) {
  return monitor->client;
}

// MARK: Changes

static void report(ConndNetworkMonitor *monitor) {
  GObject *object = G_OBJECT(monitor);
  struct status before = monitor->reported;
  guint changes = monitor->reported_changes;
  struct status status = monitor->reported =
      client_status(monitor->client, &monitor->reported_changes);
  if (changes == monitor->reported_changes) return;
  if (status.is_available != before.is_available) g_object_notify(object, "network-available");
  if (status.is_metered != before.is_metered) g_object_notify(object, "network-metered");
  if (status.connectivity != before.connectivity) g_object_notify(object, "connectivity");
  g_signal_emit_by_name(monitor, "network-changed", status.is_available);
}

static gboolean dispatch(GSource *source, GSourceFunc callback, gpointer data) {
  g_source_set_ready_time(source, -1);
  return callback(data);
}

static gboolean report_to(gpointer data) {
  g_autoptr(ConndNetworkMonitor) monitor = g_weak_ref_get(data);
  if (monitor) report(monitor);
  return G_SOURCE_CONTINUE;
}

static void free_reference(gpointer data) {
  g_weak_ref_clear(data);
  g_free(data);
}

static GSource *new_source(ConndNetworkMonitor *monitor) {
  static GSourceFuncs functions = {.dispatch = dispatch};
  GSource *source = g_source_new(&functions, sizeof(GSource));
  GWeakRef *reference = g_new(GWeakRef, 1);
  g_weak_ref_init(reference, monitor);
  g_source_set_callback(source, report_to, reference, free_reference);
  g_source_attach(source, g_main_context_get_thread_default());
  return source;
}

// MARK: The object

static gboolean initialize(GInitable *initable, GCancellable *cancellable, GError **error) {
  ConndNetworkMonitor *monitor = CONND_NETWORK_MONITOR(initable);
  if (monitor->client) return TRUE;
  if (g_cancellable_set_error_if_cancelled(cancellable, error)) return FALSE;
  GSource *changed = new_source(monitor);
  monitor->client = client_new(changed, error);
  if (monitor->client) {
    monitor->changed = changed;
    monitor->reported = client_status(monitor->client, &monitor->reported_changes);
    return TRUE;
  }
  g_source_destroy(changed);
  g_source_unref(changed);
  return FALSE;
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *description) {
  ConndNetworkMonitor *monitor = CONND_NETWORK_MONITOR(object);
  struct status status = {.connectivity = G_NETWORK_CONNECTIVITY_LOCAL};
  guint changes;
  if (monitor->client) status = client_status(monitor->client, &changes);
  switch (property) {
    case property_available:
      g_value_set_boolean(value, status.is_available);
      break;
    case property_metered:
      g_value_set_boolean(value, status.is_metered);
      break;
    case property_connectivity:
      g_value_set_enum(value, status.connectivity);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, description);
  }
}

static void finalize(GObject *object) {
  ConndNetworkMonitor *monitor = CONND_NETWORK_MONITOR(object);
  g_clear_pointer(&monitor->client, client_free);
  if (monitor->changed) g_source_destroy(monitor->changed);
  g_clear_pointer(&monitor->changed, g_source_unref);
  G_OBJECT_CLASS(connd_network_monitor_parent_class)->finalize(object);
}

static void connd_network_monitor_init(ConndNetworkMonitor *monitor) { (void)monitor; }

static void connd_network_monitor_class_init(ConndNetworkMonitorClass *class) {
  GObjectClass *object = G_OBJECT_CLASS(class);
  object->get_property = get_property;
  object->finalize = finalize;
  g_object_class_override_property(object, property_available, "network-available");
  g_object_class_override_property(object, property_metered, "network-metered");
  g_object_class_override_property(object, property_connectivity, "connectivity");
}

static void connd_network_monitor_class_finalize(ConndNetworkMonitorClass *class) { (void)class; }

static void implement_initable(GInitableIface *interface) { interface->init = initialize; }

static void implement_monitor(GNetworkMonitorInterface *interface) {
  interface->can_reach = reach;
  interface->can_reach_async = reach_async;
  interface->can_reach_finish = reach_finish;
}
