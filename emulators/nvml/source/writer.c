// The controller's side of the state file: sequence locks with real barriers (Grace hosts are weakly ordered), events and the bell.
#define _GNU_SOURCE
#include "layout.h"
#include "seqlock.h"
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void emu_begin(uint32_t *seq) { emu_seq_begin(seq); }
void emu_commit(uint32_t *seq) { emu_seq_commit(seq); }

void emu_ring(uint32_t *bell) {
  __atomic_add_fetch(bell, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, (void *)0, (void *)0, 0);
}

void emu_post(struct emu_state *state, unsigned slot, const struct emu_event *event) {
  struct emu_ring *ring = &state->rings[slot];
  ring->events[ring->posted % EMU_RING] = *event;
  __atomic_store_n(&ring->posted, ring->posted + 1, __ATOMIC_RELEASE);
  emu_ring(&state->bell);
}
