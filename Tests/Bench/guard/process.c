#include "process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/samples.h"

static void read_file(char *text, int size, const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) perror(path), exit(1);
  text[fread(text, 1, (size_t)size - 1, file)] = 0;
  fclose(file);
}

static void read_of_thread(char *text, int size, int process, int thread, const char *file) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", process, thread, file);
  read_file(text, size, path);
}

struct process open_process(const char *number) {
  struct process process = {.number = atoi(number)};
  char path[64], name[64];
  snprintf(path, sizeof(path), "/proc/%d/task", process.number);
  DIR *threads = opendir(path);
  if (!threads) perror(path), exit(1);
  for (struct dirent *entry; (entry = readdir(threads));) {
    int thread = atoi(entry->d_name);
    if (!thread) continue;
    read_of_thread(name, sizeof(name), process.number, thread, "comm");
    if (!strcmp(name, "connd-monitor\n")) process.monitor = thread;
  }
  closedir(threads);
  return process;
}

void await_idle(struct process process) {
  char text[512];
  for (int quiet = 0; quiet < 3; pause_for(1)) {
    read_of_thread(text, sizeof(text), process.number, process.monitor, "stat");
    quiet = strrchr(text, ')')[2] == 'S' ? quiet + 1 : 0;
  }
}

double monitor_worked(struct process process) {
  char text[128];
  read_of_thread(text, sizeof(text), process.number, process.monitor, "schedstat");
  return strtod(text, NULL) / 1e3;
}

long anonymous_memory(struct process process) {
  char path[64], text[4096];
  snprintf(path, sizeof(path), "/proc/%d/status", process.number);
  read_file(text, sizeof(text), path);
  const char *line = strstr(text, "RssAnon:");
  return line ? atol(line + strlen("RssAnon:")) : 0;
}
