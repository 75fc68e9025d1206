// Clients that mean harm. Each is a process of one thread that never ends by itself.
#pragma once

struct attack {
  const char *name;
  /// Begins anew whenever connd has closed its connection.
  void (*run)(const char *socket);
};

extern const struct attack attacks[];
extern const int attack_count;
