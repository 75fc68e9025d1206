// Tells the thread sanitizer of Swift's Mutex. Where threads meet at one, the kernel hands it over (FUTEX_LOCK_PI), called by
// the runtime's libswiftSynchronization, which is not instrumented: what the mutex protects would be reported as a race
// then. To be preloaded into tests that are instrumented.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

// Of the sanitizer's runtime, which is in the program.
void __tsan_acquire(void *address);
void __tsan_release(void *address);

// A method of Swift's, whose self is passed apart from all parameters.
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
