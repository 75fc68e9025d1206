// What the kernel accounts to a process, from /proc.
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum { most_threads = 64 };

struct usage {
  /// Nanoseconds on a processor, of all threads that the process has ever had.
  uint64_t runtime;
  int threads;
  pid_t thread[most_threads];
  /// How often the thread left the processor, by its own will or not: each time that it woke, it did so once.
  uint64_t switches[most_threads];
};

struct usage usage_of(pid_t process);
/// Those of the threads that were there before and are still, those of new ones, and one for each that ended.
uint64_t switches_between(const struct usage *before, const struct usage *after);
/// A field of /proc/PID/status, such as `RssAnon`, in KiB.
uint64_t memory_of(pid_t process, const char *field);
