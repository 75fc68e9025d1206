// socket PATH: prints the floor's events as lines.
#include <stdio.h>
#include <unistd.h>

#include "../../common/socket.h"

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: socket PATH\n"), 64;
  int connection = connect_to(argv[1]);
  char buffer[4096];
  ssize_t count = write(STDOUT_FILENO, "ready\n", 6);
  while (count > 0) {
    count = read(connection, buffer, sizeof(buffer));
    if (count > 0) count = write(STDOUT_FILENO, buffer, (size_t)count);
  }
}
