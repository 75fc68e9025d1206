// Hostile clients. Each is a process with one thread that never ends by itself.
#pragma once
#include <sys/types.h>

struct attack {
  const char *name;
  /// Begins again whenever connd has closed its connection.
  void (*run)(const char *socket);
  enum {
    by_user,
    /// By root, or by several users that root becomes.
    by_root = 1,
    /// Takes all places that connd has for people. Nothing else can be measured beside it.
    alone = 2,
  } kind;
};

extern const struct attack attacks[];
extern const int attack_count;

// In crowds.c.
void guard_unread(const char *socket);
void guard_and_remove(const char *socket);
void guard_many(const char *socket);
void watch_as_some(const char *socket);
void watch_as_many(const char *socket);
void ask_as_subordinates(const char *socket);
void hold_as_subordinates(const char *socket);
void hold_as_services(const char *socket);
void list_connections(const char *socket);

// In calls.c.
void call_everything(const char *socket);
void leave_everything_unread(const char *socket);
void leave_history_unread(const char *socket);

/// Has the attacker end with the program. The kernel forgets this when the attacker becomes another
/// user (prctl(2)).
void end_with_parent(void);

/// Begins an attack in its own process, as another user if `user` is not 0.
pid_t start_attack(const struct attack *attack, const char *socket, uid_t user);
/// Ends it. Exits if it has ended by itself, because then it did not attack.
void end_attack(pid_t attacker);
