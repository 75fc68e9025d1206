// Shifts the wall clock of a program: CLOCK_REALTIME is later by the seconds in the file
// CLOCK_STEP.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, time);
  if (result != 0 || clock != CLOCK_REALTIME) return result;
  const char *name = getenv("CLOCK_STEP");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return result;
  char text[32] = {0};
  if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atol(text);
  close(file);
  return result;
}
