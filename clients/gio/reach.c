#include "reach.h"

#include "monitor.h"

static struct client *client_of(GTask *task) {
  return connd_network_monitor_client(g_task_get_source_object(task));
}

static void finish(GTask *task, gboolean is_reachable) {
  guint changes;
  if (is_reachable)
    g_task_return_boolean(task, TRUE);
  else if (client_status(client_of(task), &changes).is_available)
    g_task_return_new_error(task, G_IO_ERROR, G_IO_ERROR_HOST_UNREACHABLE, "Host unreachable");
  else
    g_task_return_new_error(task, G_IO_ERROR, G_IO_ERROR_NETWORK_UNREACHABLE,
                            "Network unreachable");
}

static void try_next_address(GTask *task);

/// Takes connd's answer. Without one, the last status decides.
static void take_answer(GObject *source, GAsyncResult *result, gpointer data) {
  g_autoptr(GTask) task = data;
  GError *error = NULL;
  gssize answer = g_task_propagate_int(G_TASK(result), &error);
  guint changes;
  (void)source;
  if (error)
    g_task_return_error(task, error);
  else if (answer == answer_unreachable)
    try_next_address(g_steal_pointer(&task));
  else
    finish(task,
           answer == answer_reachable || client_status(client_of(task), &changes).is_available);
}

static void take_address(GObject *source, GAsyncResult *result, gpointer data) {
  g_autoptr(GTask) task = data;
  GError *error = NULL;
  g_autoptr(GSocketAddress) address =
      g_socket_address_enumerator_next_finish(G_SOCKET_ADDRESS_ENUMERATOR(source), result, &error);
  if (error) {
    g_task_return_error(task, error);
  } else if (!G_IS_INET_SOCKET_ADDRESS(address)) {
    // All addresses were tried, or the address is that of a socket on this machine.
    finish(task, address != NULL);
  } else {
    struct client *client = client_of(task);
    g_autoptr(GTask) question = g_task_new(NULL, g_task_get_cancellable(task), take_answer, task);
    g_steal_pointer(&task);
    client_ask(client, G_INET_SOCKET_ADDRESS(address), question);
  }
}

/// Goes on with the next address of the host. Takes the reference to the task.
static void try_next_address(GTask *task) {
  g_socket_address_enumerator_next_async(g_task_get_task_data(task), g_task_get_cancellable(task),
                                         take_address, task);
}

void reach_async(GNetworkMonitor *monitor, GSocketConnectable *host, GCancellable *cancellable,
                 GAsyncReadyCallback callback, gpointer data) {
  GTask *task = g_task_new(monitor, cancellable, callback, data);
  g_task_set_task_data(task, g_socket_connectable_proxy_enumerate(host), g_object_unref);
  try_next_address(task);
}

gboolean reach_finish(GNetworkMonitor *monitor, GAsyncResult *result, GError **error) {
  g_return_val_if_fail(g_task_is_valid(result, monitor), FALSE);
  return g_task_propagate_boolean(G_TASK(result), error);
}

static void store(GObject *source, GAsyncResult *result, gpointer data) {
  (void)source;
  *(GAsyncResult **)data = g_object_ref(result);
}

gboolean reach(GNetworkMonitor *monitor, GSocketConnectable *host, GCancellable *cancellable,
               GError **error) {
  g_autoptr(GMainContext) context = g_main_context_new();
  g_autoptr(GAsyncResult) result = NULL;
  g_main_context_push_thread_default(context);
  reach_async(monitor, host, cancellable, store, &result);
  while (!result) g_main_context_iteration(context, TRUE);
  g_main_context_pop_thread_default(context);
  return reach_finish(monitor, result, error);
}
