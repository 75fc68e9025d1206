#include "query.h"

#include <net/if.h>
#include <string.h>

// Numbers of fields and values in connectivity.proto.
enum { request_destination = 1, request_via = 3, request_port = 4 };
enum { response_path = 2, response_namespace = 3, path_status = 1 };
enum { path_satisfied = 1, path_requires_connection, path_unsatisfied };

enum { max_wait = 1000 };

static void release(gpointer data) {
  struct query *query = data;
  if (!g_atomic_int_dec_and_test(&query->holders)) return;
  g_object_unref(query->task);
  g_source_unref(query->timeout);
  g_free(query);
}

static void return_once(struct query *query, enum answer answer) {
  if (g_atomic_int_compare_and_exchange(&query->is_answered, 0, 1))
    g_task_return_int(query->task, answer);
}

static gboolean time_is_over(gpointer query) {
  return_once(query, answer_none);
  return G_SOURCE_REMOVE;
}

/// Adds the link of a link-local address, which the address itself cannot name.
static void put_link(struct proto_request *request, GInetSocketAddress *address) {
  char link[IF_NAMESIZE];
  if (g_socket_address_get_family(G_SOCKET_ADDRESS(address)) != G_SOCKET_FAMILY_IPV6) return;
  guint32 scope = g_inet_socket_address_get_scope_id(address);
  if (scope && if_indextoname(scope, link))
    proto_put_bytes(request, request_via, link, strlen(link));
}

struct query *query_new(GInetSocketAddress *address, GTask *task) {
  struct query *query = g_new0(struct query, 1);
  g_autofree char *text = g_inet_address_to_string(g_inet_socket_address_get_address(address));
  // Newer versions of GLib may append the link, which is sent apart.
  proto_put_bytes(&query->request, request_destination, text, strcspn(text, "%"));
  put_link(&query->request, address);
  proto_put_number(&query->request, request_port, g_inet_socket_address_get_port(address));

  // The other holder is the timeout.
  query->holders = 2;
  query->task = g_object_ref(task);
  query->timeout = g_timeout_source_new(max_wait);
  g_source_set_callback(query->timeout, time_is_over, query, release);
  g_source_attach(query->timeout, g_task_get_context(task));
  return query;
}

gboolean query_is_over(struct query *query) { return g_atomic_int_get(&query->is_answered); }

void query_answer(struct query *query, enum answer answer) {
  return_once(query, answer);
  g_source_destroy(query->timeout);
  release(query);
}

enum answer query_read(struct proto response, guint64 namespace) {
  struct proto_field path, status, other = {0};
  if (proto_find(response, response_namespace, &other) < 0 ||
      proto_find(response, response_path, &path) <= 0 ||
      proto_find(path.message, path_status, &status) <= 0)
    return answer_none;
  if (namespace && other.number && other.number != namespace) return answer_none;
  switch (status.number) {
    case path_satisfied:
      return answer_reachable;
    case path_requires_connection:
    case path_unsatisfied:
      return answer_unreachable;
    default:
      return answer_none;
  }
}
