// Things that a user may make connd keep: `weigh` measures the cost of one, and attacks take as
// many as they get.
#pragma once

struct holding {
  const char *name;
  /// Takes this many, and returns while they are held.
  void (*hold)(const char *socket, int count);
};

/// Returns NULL for an unknown kind.
const struct holding *find_holding(const char *name);
