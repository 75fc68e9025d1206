#include "status.h"

// Numbers of fields and values in connectivity.proto.
enum {
  response_generation = 1,
  response_snapshot = 2,
  response_transition = 3,
  response_path = 4,
  response_gap = 6
};
enum {
  status_category = 2,
  status_expensive = 8,
  status_ipv4 = 10,
  status_ipv6 = 11,
  status_family = 12,
  status_namespace = 13
};
enum { event_status = 2, transition_status = 6, path_validation = 14, validation_state = 1 };
enum { category_none = 1, family_ipv6 = 2, validation_portal = 2, validation_limited = 3 };
enum { request_since = 1, request_events = 2, kind_transition = 1, kind_path = 2 };

/// Reads how far a path leads. Returns whether the bytes are protobuf. Without a report that says
/// otherwise, a path leads to the internet.
static gboolean read_connectivity(struct proto path, GNetworkConnectivity *connectivity) {
  struct proto_field validation, state = {0};
  int found = proto_find(path, path_validation, &validation);
  if (found > 0) found = proto_find(validation.message, validation_state, &state);
  *connectivity = state.number == validation_portal    ? G_NETWORK_CONNECTIVITY_PORTAL
                  : state.number == validation_limited ? G_NETWORK_CONNECTIVITY_LIMITED
                                                       : G_NETWORK_CONNECTIVITY_FULL;
  return found >= 0;
}

static gboolean read_status(struct status *status, struct proto message) {
  struct proto ipv4 = {0}, ipv6 = {0};
  guint64 category = 0, family = 0;
  struct proto_field field;
  int result;
  status->is_metered = FALSE;
  status->namespace = 0;
  while ((result = proto_next(&message, &field)) > 0) switch (field.tag) {
      case status_category:
        category = field.number;
        break;
      case status_expensive:
        status->is_metered = field.number != 0;
        break;
      case status_ipv4:
        ipv4 = field.message;
        break;
      case status_ipv6:
        ipv6 = field.message;
        break;
      case status_family:
        family = field.number;
        break;
      case status_namespace:
        status->namespace = field.number;
        break;
      default:
        break;
    }
  if (result < 0 || !read_connectivity(family == family_ipv6 ? ipv6 : ipv4, &status->connectivity))
    return FALSE;
  // If the kernel cannot be queried, the machine counts as online, as the protocol advises.
  status->is_available = category != category_none;
  if (!status->is_available) {
    status->is_metered = FALSE;
    status->connectivity = G_NETWORK_CONNECTIVITY_LOCAL;
  }
  return TRUE;
}

/// Returns the field with the status of an event, or 0 if a field of WatchResponse is not an event
/// with a status.
static guint64 status_field(guint64 event) {
  switch (event) {
    case response_snapshot:
    case response_path:
    case response_gap:
      return event_status;
    case response_transition:
      return transition_status;
    default:
      return 0;
  }
}

int status_read(struct status *status, struct proto response) {
  struct status read = *status;
  struct proto_field field, message;
  int result, found = 0;
  while ((result = proto_next(&response, &field)) > 0) {
    guint64 tag = status_field(field.tag);
    if (field.tag == response_generation) read.generation = field.number;
    if (!tag) continue;
    if (proto_find(field.message, tag, &message) <= 0) return -1;
    if (!read_status(&read, message.message)) return -1;
    found = 1;
  }
  if (result < 0) return -1;
  if (found) *status = read;
  return found;
}

void status_request(struct proto_request *request, guint64 generation) {
  static const guint8 kinds[] = {kind_transition, kind_path};
  if (generation) proto_put_number(request, request_since, generation);
  proto_put_bytes(request, request_events, kinds, sizeof(kinds));
}
