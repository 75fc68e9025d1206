#include "client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http2.h"
#include "query.h"
#include "socket.h"

// Times in microseconds, as of g_get_monotonic_time().
enum {
  max_start = 200 * G_TIME_SPAN_MILLISECOND,
  min_pause = G_TIME_SPAN_SECOND,
  max_pause = 60 * G_TIME_SPAN_SECOND
};
/// One call is Watch. Further queries wait for a second at most.
enum { max_queries = http2_max_calls - 1, max_asked = 1000 };

struct client {
  GThread *thread;
  GSource *changed;
  struct sockaddr_un address;
  /// The inode of this process's network namespace, or 0 if unknown.
  guint64 namespace;
  /// An eventfd that wakes the thread.
  int wake;
  gint is_stopping;

  /// Guards the next three fields. The later ones are the thread's, except while it is not running.
  GMutex lock;
  struct status status;
  guint changes;
  GQueue asked;

  struct http2 *connection;
  uint32_t watch;
  gboolean is_lost;
  struct {
    uint32_t call;
    struct query *query;
  } pending[max_queries];
  gint64 retry, pause;
};

// MARK: Messages of connd

static void take_status(struct client *client, struct proto message) {
  struct status status = client->status;
  gboolean is_first = !status.connectivity;
  int found = status_read(&status, message);
  // A connd in another network namespace knows nothing about this process's network.
  gboolean is_foreign =
      client->namespace && status.namespace && status.namespace != client->namespace;
  if (found < 0 || is_foreign) client->is_lost = TRUE;
  if (found <= 0 || is_foreign) return;
  client->pause = 0;
  g_mutex_lock(&client->lock);
  client->status = status;
  client->changes++;
  g_mutex_unlock(&client->lock);
  if (!is_first) g_source_set_ready_time(client->changed, 0);
}

/// Removes and returns the query of a call, or returns NULL if it has been answered.
static struct query *take_query(struct client *client, uint32_t call) {
  for (gsize i = 0; i < max_queries; i++)
    if (client->pending[i].call == call) {
      client->pending[i].call = 0;
      return g_steal_pointer(&client->pending[i].query);
    }
  return NULL;
}

static void take_message(void *context, uint32_t call, struct proto message) {
  struct client *client = context;
  struct query *query;
  if (call == client->watch)
    take_status(client, message);
  else if ((query = take_query(client, call)))
    query_answer(query, query_read(message, client->namespace));
}

static void take_end(void *context, uint32_t call) {
  struct client *client = context;
  struct query *query;
  if (call == client->watch)
    client->is_lost = TRUE;
  else if ((query = take_query(client, call)))
    query_answer(query, answer_none);
}

// MARK: The connection

static void disconnect(struct client *client) {
  g_clear_pointer(&client->connection, http2_close);
  for (gsize i = 0; i < max_queries; i++)
    if (client->pending[i].call)
      query_answer(take_query(client, client->pending[i].call), answer_none);
  client->pause = CLAMP(2 * client->pause, min_pause, max_pause);
  client->retry = g_get_monotonic_time() + client->pause;
}

/// Connects and calls Watch. Returns whether that succeeds.
static gboolean connect_and_watch(struct client *client) {
  struct http2_handler handler = {take_message, take_end, client};
  struct proto_request request = {0};
  int descriptor = connect_to_connd(&client->address);
  client->is_lost = FALSE;
  if (descriptor < 0 || !(client->connection = http2_open(descriptor, handler))) return FALSE;
  status_request(&request, client->status.generation);
  client->watch = http2_call(client->connection, "Watch", &request);
  return client->watch != 0;
}

/// Reads what has arrived. Returns whether the connection continues.
static gboolean receive(struct client *client) {
  return http2_receive(client->connection) && !client->is_lost;
}

/// Returns a place in the pending queries that is free, or their number if none is.
static gsize free_place(const struct client *client) {
  gsize place = 0;
  while (place < max_queries && client->pending[place].call) place++;
  return place;
}

/// Sends the queries that were asked, as long as there is room.
static void send_queries(struct client *client) {
  gsize place;
  while ((place = free_place(client)) < max_queries) {
    g_mutex_lock(&client->lock);
    struct query *query = g_queue_pop_head(&client->asked);
    g_mutex_unlock(&client->lock);
    if (!query) return;
    uint32_t call = 0;
    if (client->connection && !query_is_over(query))
      call = http2_call(client->connection, "GetPath", &query->request);
    client->pending[place].call = call;
    client->pending[place].query = call ? query : NULL;
    if (!call) query_answer(query, answer_none);
  }
}

// MARK: The thread

/// Waits until something has happened. Returns whether the thread continues.
static gboolean await(struct client *client, gboolean *is_readable) {
  struct pollfd ready[] = {
      {client->wake, POLLIN, 0},
      {client->connection ? http2_descriptor(client->connection) : -1, POLLIN, 0}};
  int timeout = -1;
  if (!client->connection) {
    gint64 left = client->retry - g_get_monotonic_time();
    timeout = (int)(MAX(left, 0) / G_TIME_SPAN_MILLISECOND) + 1;
  }
  if (poll(ready, G_N_ELEMENTS(ready), timeout) < 0) return errno == EINTR;
  // A program that closes all descriptors closes this one, too.
  if (ready[0].revents & ~POLLIN) return FALSE;
  eventfd_t count;
  if (ready[0].revents) (void)eventfd_read(client->wake, &count);
  *is_readable = ready[1].revents != 0;
  return TRUE;
}

static gpointer run(gpointer data) {
  struct client *client = data;
  gboolean is_readable = FALSE;
  while (await(client, &is_readable)) {
    if (is_readable && !receive(client)) disconnect(client);
    is_readable = FALSE;
    if (!client->connection && g_get_monotonic_time() >= client->retry &&
        !connect_and_watch(client))
      disconnect(client);
    send_queries(client);
    if (g_atomic_int_get(&client->is_stopping)) break;
  }
  return NULL;
}

/// Starts the thread. It blocks all signals, because their handlers are the program's.
static GThread *start_thread(struct client *client, GError **error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  GThread *thread = g_thread_try_new("connd-gio", run, client, error);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return thread;
}

// MARK: Start and end

/// Waits for the first status. Returns whether it has arrived in time.
static gboolean await_status(struct client *client, gint64 end) {
  struct pollfd ready = {http2_descriptor(client->connection), POLLIN, 0};
  while (!client->status.connectivity) {
    gint64 left = end - g_get_monotonic_time();
    if (left <= 0 ||
        (poll(&ready, 1, (int)(left / G_TIME_SPAN_MILLISECOND) + 1) < 0 && errno != EINTR))
      return FALSE;
    if (ready.revents && !receive(client)) return FALSE;
  }
  return TRUE;
}

static guint64 own_namespace(void) {
  struct stat status;
  return stat("/proc/thread-self/ns/net", &status) == 0 ? status.st_ino : 0;
}

struct client *client_new(GSource *changed, GError **error) {
  gint64 end = g_get_monotonic_time() + max_start;
  struct client *client = g_new0(struct client, 1);
  g_mutex_init(&client->lock);
  client->changed = g_source_ref(changed);
  client->namespace = own_namespace();
  client->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (client->wake < 0 || !find_connd(&client->address) || !connect_and_watch(client) ||
      !await_status(client, end)) {
    g_set_error_literal(error, G_IO_ERROR, G_IO_ERROR_FAILED, "connd does not answer");
  } else if ((client->thread = start_thread(client, error))) {
    return client;
  }
  client_free(client);
  return NULL;
}

void client_free(struct client *client) {
  if (client->thread) {
    g_atomic_int_set(&client->is_stopping, TRUE);
    (void)eventfd_write(client->wake, 1);
    g_thread_join(client->thread);
  }
  disconnect(client);
  if (client->wake >= 0) close(client->wake);
  g_source_unref(client->changed);
  g_mutex_clear(&client->lock);
  g_free(client);
}

struct status client_status(struct client *client, guint *changes) {
  g_mutex_lock(&client->lock);
  struct status status = client->status;
  *changes = client->changes;
  g_mutex_unlock(&client->lock);
  return status;
}

void client_ask(struct client *client, GInetSocketAddress *address, GTask *task) {
  struct query *query = query_new(address, task);
  g_mutex_lock(&client->lock);
  gboolean has_room = g_queue_get_length(&client->asked) < max_asked;
  if (has_room) g_queue_push_tail(&client->asked, query);
  g_mutex_unlock(&client->lock);
  if (has_room)
    (void)eventfd_write(client->wake, 1);
  else
    query_answer(query, answer_none);
}
