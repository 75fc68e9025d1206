// Figures about connd from /proc.
#pragma once

/// A process, and its thread that owns the kernel.
struct process {
  int number, monitor;
};

struct process open_process(const char *number);

/// Waits until the monitor's thread is idle.
void await_idle(struct process process);

/// Microseconds of the monitor thread's processor time.
double monitor_worked(struct process process);

/// The process's anonymous memory in kilobytes.
long anonymous_memory(struct process process);
