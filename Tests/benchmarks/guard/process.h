// What /proc tells of connd.
#pragma once

/// A process, and its thread that owns the kernel.
struct process {
  int number, monitor;
};

struct process open_process(const char *number);

/// Waits until the monitor's thread has nothing to do.
void await_idle(struct process process);

/// Microseconds that the monitor's thread has worked.
double monitor_worked(struct process process);

/// Kilobytes of memory that stand for no file.
long anonymous_memory(struct process process);
