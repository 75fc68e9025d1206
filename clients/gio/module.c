// The functions that GIO calls in libgioconnd.so.
#include <errno.h>
#include <gio/gio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor.h"

#define CONFIGURATION SYSCONFDIR "/connd/gio.conf"

/// Between GIO's monitors for NetworkManager (30) and for the routing table (20). The one for
/// sandboxes has 40.
enum { default_priority = 25, max_priority = 1000, max_lines = 100 };

/// NetworkManager makes this directory when it starts. Without it, the module is tried before GIO's
/// monitor for NetworkManager, which would read the whole routing table before it fails.
#define NETWORK_MANAGER "/run/NetworkManager"
enum { priority_without_network_manager = 35 };

/// Reads a line of the configuration. Returns whether it is valid.
static gboolean read_line(char *line, gint *priority) {
  char *value, *end;
  g_strstrip(line);
  if (!*line || *line == '#') return TRUE;
  if (!(value = strchr(line, '='))) return FALSE;
  *value++ = '\0';
  if (strcmp(g_strchomp(line), "priority") != 0) return FALSE;
  errno = 0;
  long number = strtol(value, &end, 10);
  if (errno || end == value || *end || number < 1 || number > max_priority) return FALSE;
  *priority = (gint)number;
  return TRUE;
}

static gint read_priority(void) {
  gint priority = default_priority;
  if (access(NETWORK_MANAGER, F_OK) != 0) priority = priority_without_network_manager;
  g_autofree char *text = NULL;
  if (!g_file_get_contents(CONFIGURATION, &text, NULL, NULL)) return priority;
  g_auto(GStrv) lines = g_strsplit(text, "\n", max_lines);
  for (int i = 0; lines[i]; i++)
    if (!read_line(lines[i], &priority))
      g_message(CONFIGURATION ":%d: ignored: expected priority=NUMBER, from 1 to %d", i + 1,
                max_priority);
  return priority;
}

G_MODULE_EXPORT void g_io_connd_load(GIOModule *module);
G_MODULE_EXPORT void g_io_connd_unload(GIOModule *module);
G_MODULE_EXPORT char **g_io_connd_query(void);

void g_io_connd_load(GIOModule *module) {
  // The module stays loaded, because its thread runs as long as the process.
  g_type_module_use(G_TYPE_MODULE(module));
  connd_network_monitor_register(G_TYPE_MODULE(module));
  g_io_extension_point_implement(G_NETWORK_MONITOR_EXTENSION_POINT_NAME,
                                 connd_network_monitor_get_type(), "connd", read_priority());
}

void g_io_connd_unload(GIOModule *module) { (void)module; }

char **g_io_connd_query(void) {
  char *points[] = {G_NETWORK_MONITOR_EXTENSION_POINT_NAME, NULL};
  return g_strdupv(points);
}
