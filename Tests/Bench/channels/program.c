#include "program.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
  fprintf(stderr, "the application %s\n", what);
  exit(1);
}

void start_program(struct program *program, const char *command) {
  int input[2], output[2];
  if (pipe(input) || pipe(output)) perror("pipe"), exit(1);
  program->process = fork();
  if (program->process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(input[0], STDIN_FILENO), dup2(output[1], STDOUT_FILENO);
    close(input[0]), close(input[1]), close(output[0]), close(output[1]);
    char line[1024];
    snprintf(line, sizeof(line), "exec %s", command);
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
  }
  close(input[0]), close(output[1]);
  program->input = input[1], program->output = output[0];
}

void say(struct program *program, const char *line) {
  if (dprintf(program->input, "%s\n", line) < 0) fail("does not read its input");
}

const char *hear(struct program *program, int timeout) {
  size_t length = 0;
  while (!length || program->line[length - 1] != '\n') {
    struct pollfd wait = {program->output, POLLIN, 0};
    if (poll(&wait, 1, timeout) <= 0) fail("has printed nothing in time");
    ssize_t count =
        read(program->output, program->line + length, sizeof(program->line) - 1 - length);
    if (count <= 0) fail("has closed its output");
    length += (size_t)count;
  }
  program->line[length - 1] = 0;
  return program->line;
}

void finish_program(struct program *program) {
  close(program->input), close(program->output);
  waitpid(program->process, NULL, 0);
}
