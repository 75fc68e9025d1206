#include "samples.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double read_clock(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

double now(void) { return read_clock(CLOCK_MONOTONIC); }
double worked(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

void pause_for(int milliseconds) { poll(NULL, 0, milliseconds); }

void add_sample(struct samples *samples, double sample) {
  if (samples->count < most_samples) samples->all[samples->count++] = sample;
}

static int compare(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return difference < 0 ? -1 : difference > 0;
}

double percentile(struct samples *samples, double part) {
  qsort(samples->all, (size_t)samples->count, sizeof(double), compare);
  return samples->all[(int)(part * (samples->count - 1) + 0.5)];
}

void print_times_header(const char *what, const char *reference) {
  printf("| %-15s | to              | times |        p50 |        p99 | p50 ÷ %-5s | p99 ÷ %-5s |\n", what,
         reference, reference);
  printf("|-----------------|-----------------|-------|------------|------------|-------------|-------------|\n");
}

void print_times(const char *what, const char *to, struct samples *samples,
                 struct samples *reference) {
  double p50 = percentile(samples, .5), p99 = percentile(samples, .99);
  printf("| %-15s | %-15s | %5d | %7.0f µs | %7.0f µs | %9.1f × | %9.1f × |\n", what, to,
         samples->count, p50, p99, p50 / percentile(reference, .5),
         p99 / percentile(reference, .99));
  fflush(stdout);
}
