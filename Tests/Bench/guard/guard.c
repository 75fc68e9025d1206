// guard EVALUATIONS LOSSES NETNS:FLOOR'S-SOCKET NETNS:CONND'S-SOCKET:PID
// NETNS:ANOTHER-CONND'S-SOCKET:PID: measures the cost of guarding many flows, and the delay it
// causes. Each daemon has its own network namespace, see machine.h; connd's also has v5
// (10.5.0.2/16).
#define _GNU_SOURCE
#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/samples.h"

static struct daemon open_daemon(char *argument) {
  struct daemon daemon = {0};
  open_machine(&daemon.machine, strsep(&argument, ":"));
  daemon.socket = strsep(&argument, ":");
  if (argument) daemon.process = open_process(argument);
  return daemon;
}

int main(int argc, char **argv) {
  if (argc != 6)
    return fprintf(stderr, "usage: guard EVALUATIONS LOSSES FLOOR CONND CONND\n"), 64;
  int evaluations = atoi(argv[1]), losses = atoi(argv[2]);
  if (evaluations < 1 || losses < 1) return 64;
  struct daemon floor = open_daemon(argv[3]), connd = open_daemon(argv[4]),
                other = open_daemon(argv[5]);
  measure_flows(&connd, &other, evaluations, losses);
  printf("\n");
  print_times_header("change", "floor");
  measure_clients(&floor, &connd, &other, losses / 4 < 5 ? 5 : losses / 4);
}
