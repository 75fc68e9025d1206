// bus SENDER ADDRESS: prints the signals of a service on a bus as lines, with the least work that
// sd-bus allows.
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int print(sd_bus_message *message, void *context, sd_bus_error *error) {
  (void)context, (void)error;
  dprintf(STDOUT_FILENO, "%s %s.%s\n", sd_bus_message_get_path(message),
          sd_bus_message_get_interface(message), sd_bus_message_get_member(message));
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: bus SENDER ADDRESS\n"), 64;
  char match[256];
  snprintf(match, sizeof(match), "type='signal',sender='%s'", argv[1]);
  sd_bus *bus = NULL;
  if (sd_bus_new(&bus) < 0 || sd_bus_set_address(bus, argv[2]) < 0 ||
      sd_bus_set_bus_client(bus, 1) < 0 || sd_bus_start(bus) < 0 ||
      sd_bus_add_match(bus, NULL, match, print, NULL) < 0)
    fail(argv[2]);
  if (write(STDOUT_FILENO, "ready\n", 6) < 0) fail("output");
  for (;;) {
    int result = sd_bus_process(bus, NULL);
    if (result == 0) result = sd_bus_wait(bus, UINT64_MAX);
    if (result < 0) return 1;
  }
}
