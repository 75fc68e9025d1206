// A program that reports its events by lines: the application with the channels.
#pragma once

struct program {
  int process;
  int input, output;
  char line[256];
};

/// Starts a shell command, which ends with this process.
void start_program(struct program *program, const char *command);

void say(struct program *program, const char *line);
/// Returns the next line that it prints, without its end; waits at most this many milliseconds.
const char *hear(struct program *program, int timeout);

/// Ends its input, and waits for its end.
void finish_program(struct program *program);
