// The sequence lock of a block: odd while somebody writes. Writers take turns; one that died inside loses its turn after a while.
#pragma once
#include <sched.h>
#include <stdint.h>

enum { EMU_WRITER_PATIENCE = 100000 };

static inline void emu_seq_begin(uint32_t *seq) {
  for (unsigned tries = 0; tries < EMU_WRITER_PATIENCE; tries++) {
    uint32_t before = __atomic_load_n(seq, __ATOMIC_RELAXED);
    if (!(before & 1) && __atomic_compare_exchange_n(seq, &before, before + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) break;
    sched_yield();
  }
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void emu_seq_commit(uint32_t *seq) {
  uint32_t now = __atomic_load_n(seq, __ATOMIC_RELAXED);
  __atomic_store_n(seq, now + (now & 1), __ATOMIC_RELEASE);
}
