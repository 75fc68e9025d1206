// Measurements of one thing, and their output.
#pragma once

enum { most_samples = 10000 };

struct samples {
  double all[most_samples];
  int count;
};

/// Microseconds of a clock that is never set.
double now(void);
/// Microseconds of this thread's processor time.
double worked(void);

void pause_for(int milliseconds);

void add_sample(struct samples *samples, double sample);
double percentile(struct samples *samples, double part);

/// A line of a table: p50 and p99, in microseconds and as multiples of the reference's.
void print_times_header(const char *what, const char *reference);
void print_times(const char *what, const char *to, struct samples *samples,
                 struct samples *reference);
