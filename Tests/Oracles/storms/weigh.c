// weigh KIND COUNT SOCKET: takes COUNT things of the connd at SOCKET, prints "held", and waits to
// be killed. The script `weigh` prints the cost of one of them.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "holdings.h"

enum { user = 1000 };

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: weigh KIND COUNT SOCKET\n"), 64;
  if (setgid(user) || setuid(user)) return perror("setuid"), 1;
  const struct holding *holding = find_holding(argv[1]);
  if (!holding) return 64;
  holding->hold(argv[3], atoi(argv[2]));
  printf("held\n");
  fflush(stdout);
  pause();
}
