// watcher: a program that uses GNetworkMonitor and nothing else of the network.
//
//     watcher [--thread | --cycle | --priority]
//
// Prints the type of the monitor, the microseconds and KiB that it took to get it, and the status.
// Then prints the status after each signal. Lines of standard input are commands:
//
//     state             handles all waiting events, and prints the status
//     reach HOST        asks whether the host can be reached
//     later HOST        asks the same without waiting
//
// With --thread, the monitor is made by a thread with a main context of its own, in which the
// signals must arrive. With --cycle, makes and frees monitors of connd. With --priority, prints
// that of the module.
#include <gio/gio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static GThread *expected;

static void print(const char *event, GNetworkMonitor *monitor) {
  printf("%s %s %s %d\n", event,
         g_network_monitor_get_network_available(monitor) ? "online" : "offline",
         g_network_monitor_get_network_metered(monitor) ? "metered" : "free",
         (int)g_network_monitor_get_connectivity(monitor));
  fflush(stdout);
}

static void check_thread(void) {
  if (g_thread_self() != expected) fprintf(stderr, "a signal in another thread\n"), abort();
}

static void changed(GNetworkMonitor *monitor, gboolean is_available, gpointer context) {
  (void)context;
  check_thread();
  if (is_available != g_network_monitor_get_network_available(monitor)) return;
  print("changed", monitor);
}

static void notified(GObject *object, GParamSpec *property, gpointer context) {
  (void)object, (void)context;
  check_thread();
  printf("notify %s\n", property->name);
}

static void print_answer(const char *host, gboolean is_reachable, GError *error) {
  printf("reach %s %s\n", host, is_reachable ? "yes" : error ? error->message : "?");
  fflush(stdout);
  g_clear_error(&error);
}

static void answered(GObject *object, GAsyncResult *result, gpointer host) {
  GError *error = NULL;
  check_thread();
  gboolean is_reachable =
      g_network_monitor_can_reach_finish(G_NETWORK_MONITOR(object), result, &error);
  print_answer(host, is_reachable, error);
  g_free(host);
}

static void run_command(GNetworkMonitor *monitor, GMainContext *context, const char *line) {
  GError *error = NULL;
  const char *host = strchr(line, ' ');
  if (!host) {
    while (g_main_context_iteration(context, FALSE)) continue;
    print("state", monitor);
    return;
  }
  GSocketConnectable *address = g_network_address_parse(++host, 80, &error);
  if (!address) {
    print_answer(host, FALSE, error);
  } else if (g_str_has_prefix(line, "later")) {
    g_network_monitor_can_reach_async(monitor, address, NULL, answered, g_strdup(host));
  } else {
    gboolean is_reachable = g_network_monitor_can_reach(monitor, address, NULL, &error);
    print_answer(host, is_reachable, error);
  }
  g_clear_object(&address);
}

struct input {
  GNetworkMonitor *monitor;
  GMainContext *context;
  GMainLoop *loop;
  char line[512];
  size_t length;
};

static gboolean read_input(GIOChannel *channel, GIOCondition condition, gpointer data) {
  struct input *input = data;
  (void)channel, (void)condition;
  ssize_t count =
      read(STDIN_FILENO, input->line + input->length, sizeof(input->line) - input->length - 1);
  if (count <= 0) {
    g_main_loop_quit(input->loop);
    return G_SOURCE_REMOVE;
  }
  input->length += (size_t)count;
  char *end;
  while ((end = memchr(input->line, '\n', input->length))) {
    *end++ = '\0';
    run_command(input->monitor, input->context, input->line);
    input->length -= (size_t)(end - input->line);
    memmove(input->line, end, input->length);
  }
  return G_SOURCE_CONTINUE;
}

/// The memory that is the process's own, in KiB.
static long memory(void) {
  char line[128];
  long total = 0, number;
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  while (file && fgets(line, sizeof(line), file))
    if (sscanf(line, "Private_Dirty: %ld", &number) == 1) total += number;
  if (file) fclose(file);
  return total;
}

static gpointer follow(gpointer context) {
  g_main_context_push_thread_default(context);
  expected = g_thread_self();
  // The first use of GIO loads modules of all kinds.
  g_object_unref(g_network_address_parse("127.0.0.1", 80, NULL));
  long before = memory();
  gint64 start = g_get_monotonic_time();
  GNetworkMonitor *monitor = g_network_monitor_get_default();
  gint64 time = g_get_monotonic_time() - start;
  printf("monitor %s %ld us %ld KiB\n", G_OBJECT_TYPE_NAME(monitor), (long)time, memory() - before);
  g_signal_connect(monitor, "network-changed", G_CALLBACK(changed), NULL);
  g_signal_connect(monitor, "notify", G_CALLBACK(notified), NULL);
  print("start", monitor);

  struct input input = {monitor, context, g_main_loop_new(context, FALSE), {0}, 0};
  GIOChannel *channel = g_io_channel_unix_new(STDIN_FILENO);
  GSource *source = g_io_create_watch(channel, G_IO_IN | G_IO_HUP);
  g_source_set_callback(source, G_SOURCE_FUNC(read_input), &input, NULL);
  g_source_attach(source, context);
  g_main_loop_run(input.loop);
  g_source_destroy(source);
  g_source_unref(source);
  g_io_channel_unref(channel);
  g_main_loop_unref(input.loop);
  g_main_context_pop_thread_default(context);
  return NULL;
}

/// The number of entries in a directory of this process.
static int count(const char *path) {
  int entries = 0;
  GDir *directory = g_dir_open(path, 0, NULL);
  while (directory && g_dir_read_name(directory)) entries++;
  if (directory) g_dir_close(directory);
  return entries;
}

static GIOExtension *extension(void) {
  // The first use of GIO loads the modules.
  g_network_monitor_get_default();
  GIOExtensionPoint *point = g_io_extension_point_lookup(G_NETWORK_MONITOR_EXTENSION_POINT_NAME);
  GIOExtension *ours = g_io_extension_point_get_extension_by_name(point, "connd");
  if (!ours) fprintf(stderr, "the module is not loaded\n"), exit(1);
  return ours;
}

/// Makes and frees monitors, and prints what they leave behind.
static void cycle(void) {
  GType type = g_io_extension_get_type(extension());
  int threads = count("/proc/self/task"), descriptors = count("/proc/self/fd");
  int made = 0;
  // Some fail if the machine is so busy that connd does not answer in time.
  for (int tries = 0; tries < 500 && made < 50; tries++) {
    gpointer monitor = g_initable_new(type, NULL, NULL, NULL);
    if (!monitor) continue;
    made++;
    g_object_unref(monitor);
  }
  printf("cycles %d, threads %d, descriptors %d\n", made, count("/proc/self/task") - threads,
         count("/proc/self/fd") - descriptors);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "--cycle") == 0) {
    cycle();
  } else if (strcmp(mode, "--priority") == 0) {
    printf("priority %d\n", g_io_extension_get_priority(extension()));
  } else if (strcmp(mode, "--thread") == 0) {
    GMainContext *context = g_main_context_new();
    g_thread_join(g_thread_new("follower", follow, context));
    g_main_context_unref(context);
  } else {
    follow(g_main_context_default());
  }
  return 0;
}
