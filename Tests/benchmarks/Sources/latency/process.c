#define _GNU_SOURCE
#include "process.h"

#include <dirent.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t status_field(const char *path, const char *field) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  char line[256];
  size_t length = strlen(field);
  uint64_t value = 0;
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, field, length) && line[length] == ':') sscanf(line + length + 1, "%" SCNu64, &value);
  fclose(file);
  return value;
}

struct usage usage_of(pid_t process) {
  char path[512];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *tasks = opendir(path);
  if (!tasks) err(1, "%s", path);
  struct usage usage = {0};
  for (struct dirent *task; (task = readdir(tasks)) && usage.threads < most_threads;) {
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", process, task->d_name);
    usage.thread[usage.threads] = atoi(task->d_name);
    usage.switches[usage.threads++] =
        status_field(path, "voluntary_ctxt_switches") + status_field(path, "nonvoluntary_ctxt_switches");
  }
  closedir(tasks);
  clockid_t clock;
  struct timespec time;
  if (clock_getcpuclockid(process, &clock) || clock_gettime(clock, &time)) err(1, "processor time of %d", process);
  usage.runtime = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
  return usage;
}

static int place_of(pid_t thread, const struct usage *usage) {
  for (int i = 0; i < usage->threads; i++)
    if (usage->thread[i] == thread) return i;
  return -1;
}

uint64_t switches_between(const struct usage *before, const struct usage *after) {
  uint64_t switches = 0;
  for (int i = 0; i < after->threads; i++) {
    int place = place_of(after->thread[i], before);
    switches += after->switches[i] - (place < 0 ? 0 : before->switches[place]);
  }
  for (int i = 0; i < before->threads; i++) switches += place_of(before->thread[i], after) < 0;
  return switches;
}

uint64_t memory_of(pid_t process, const char *field) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  return status_field(path, field);
}
