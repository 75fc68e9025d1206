// Tells the thread sanitizer about synchronisation in Swift's runtime, which is not instrumented.
// To be preloaded into instrumented tests.
//
// - Mutex: after contention, the kernel hands it over (FUTEX_LOCK_PI), called by
//   libswiftSynchronization.
// - A continuation resumed before its task awaits it: swift_continuation_resume releases the task
//   for the sanitizer. But swift_continuation_await then returns immediately, without an acquire
//   (Swift 6.3). Values that an AsyncStream hands over at that moment would be reported as a race.
//   Calls within the runtime cannot be replaced. The first call that a program makes after an
//   asynchronous function returns is to free its memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

// Functions of the sanitizer's runtime, which is in the program.
void __tsan_acquire(void *address);
void __tsan_release(void *address);

// A Swift method: self is passed separately from all parameters.
#define METHOD __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *

// Synchronization._MutexHandle._lockSlow(UInt32), _unlockSlow() and _tryLockSlow()
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

METHOD void lock(uint32_t state, SELF self) __asm__(LOCK);
METHOD void unlock(SELF self) __asm__(UNLOCK);
METHOD bool try_lock(SELF self) __asm__(TRY_LOCK);

METHOD void lock(uint32_t state, SELF self)
{
    METHOD void (*original)(uint32_t, SELF) = (METHOD void (*)(uint32_t, SELF))dlsym(RTLD_NEXT, LOCK);
    original(state, self);
    __tsan_acquire(self);
}

METHOD void unlock(SELF self)
{
    METHOD void (*original)(SELF) = (METHOD void (*)(SELF))dlsym(RTLD_NEXT, UNLOCK);
    __tsan_release(self);
    original(self);
}

METHOD bool try_lock(SELF self)
{
    METHOD bool (*original)(SELF) = (METHOD bool (*)(SELF))dlsym(RTLD_NEXT, TRY_LOCK);
    bool is_locked = original(self);
    if (is_locked) __tsan_acquire(self);
    return is_locked;
}

void *swift_task_getCurrent(void);
METHOD void swift_task_dealloc(void *memory);

METHOD void swift_task_dealloc(void *memory)
{
    METHOD void (*original)(void *) = (METHOD void (*)(void *))dlsym(RTLD_NEXT, "swift_task_dealloc");
    void *task = swift_task_getCurrent();
    if (task) __tsan_acquire(task);
    original(memory);
}
