//! The status word of a cell: its state, whether a consumer runs it, and the number of pins on it.
//!
//! | bits | meaning |
//! | --- | --- |
//! | 0-2 | state, see [`State`] |
//! | 3 | RUNNING: a consumer runs the key; only that consumer takes values of the key to handle them |
//! | 4 | DIRTY: another consumer cleared the key's mark while this key was RUNNING; the consumer that runs the key sets the mark again |
//! | 5 | DEFERRED: a consumer keeps the key until its pace allows the next handling, and has a pin |
//! | 6 | OWNED: in mode `Sequenced`, the key's one handle exists |
//! | 8-31 | number of pins: threads that use the key, handles, deferrals |
//! | 32-63 | number of calls of `pin`, modulo 2^32; `publish` and `defer` add a pin without counting it |
//!
//! No bit says that the key is queued, because the key's mark says so.
//!
//! A cell is reused for another key only in state Removed or Killed, without a pin, without RUNNING
//! and without a value. So a thread that has a pin or runs the key may use the cell, and a handle
//! never puts under another key. A put pins the cell, which changes the count of pin calls (until
//! 2^32 calls wrap it around). So the compare-exchange that claims the cell fails if a value was
//! put after the check for a value.

use crate::primitive::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const STATE: u64 = 7;
const RUNNING: u64 = 1 << 3;
const DIRTY: u64 = 1 << 4;
const DEFERRED: u64 = 1 << 5;
const OWNED: u64 = 1 << 6;
const PIN: u64 = 1 << 8;
const PINS: u64 = 0xff_ffff * PIN;
const PINNED_ONCE: u64 = 1 << 32;
/// Maximum number of pins; a further one panics, long before the field overflows.
const PINS_MAX: u64 = (PINS / PIN) / 2;

/// State of a cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Never used: a search ends here.
    Empty = 0,
    /// Used before; has no key.
    Free = 1,
    /// Exclusively owned by a thread that inserts or removes a key.
    Claimed = 2,
    /// Has a key; not decided yet whether another cell has the same key.
    Tentative = 3,
    /// Has a key that is in the table.
    Live = 4,
    /// Has a removed key; a put that has a pin can bring it back.
    Removed = 5,
    /// Has a key that another cell has, too; the other cell won.
    Killed = 6,
}

/// Result of an attempt to run a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The caller runs the key now, whose state is given.
    Runs(State),
    /// Nothing to do: the cell has no key, or another consumer runs or defers it.
    Not,
}

pub(crate) struct Life(AtomicU64);

fn state(word: u64) -> State {
    match word & STATE {
        0 => State::Empty,
        1 => State::Free,
        2 => State::Claimed,
        3 => State::Tentative,
        4 => State::Live,
        5 => State::Removed,
        _ => State::Killed,
    }
}

impl Life {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(State::Empty as u64))
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        // Relaxed: before it uses the cell, a thread pins, runs or claims it. [CL1]
        state(self.0.load(Relaxed))
    }

    /// Pins the cell, and returns its state if it has a key.
    ///
    /// # Panics
    ///
    /// If the cell has 8 million pins.
    #[inline]
    pub(crate) fn pin(&self) -> Option<State> {
        // Acquire: pairs with the Release in publish; the key is initialised. [CL2]
        let word = self.0.fetch_add(PIN + PINNED_ONCE, Acquire);
        let state = state(word);
        let has_key = !matches!(state, State::Empty | State::Free | State::Claimed);
        if (word & PINS) / PIN >= PINS_MAX || !has_key {
            self.unpin();
            assert!(!has_key, "a key has more than 8 million handles");
            return None;
        }
        Some(state)
    }

    #[inline]
    pub(crate) fn unpin(&self) {
        // Release: pairs with the Acquire in claim; the use of the key happens-before its end.
        // [CL3]
        self.0.fetch_sub(PIN, Release);
    }

    /// Claims a cell without a key, or with a removed or killed key that is unused and has no
    /// value; returns the old state.
    ///
    /// Lock-free: the compare-exchange fails only if another thread changed the word.
    pub(crate) fn claim(&self, is_full: impl Fn() -> bool) -> Option<State> {
        // Acquire: pairs with the Release in unpin; the check below sees a value that was put under
        // a pin. [CL4]
        let mut word = self.0.load(Acquire);
        loop {
            let was = state(word);
            let is_free = match was {
                // Threads that have a pin here will find that there is no key.
                State::Empty | State::Free => true,
                State::Removed | State::Killed => {
                    word & (PINS | RUNNING | DEFERRED) == 0 && !is_full()
                }
                _ => false,
            };
            if !is_free {
                return None;
            }
            let claimed = word & !(STATE | DIRTY | OWNED) | State::Claimed as u64;
            // Acquire: pairs with the Release in unpin and end_run; the key is no longer in use.
            // [CL5]
            match self.0.compare_exchange(word, claimed, Acquire, Acquire) {
                Ok(_) => return Some(was),
                Err(other) => word = other,
            }
        }
    }

    /// Ends a claim with a new state, adding `pins` pins for the caller.
    pub(crate) fn publish(&self, to: State, pins: u64) {
        let difference = (to as u64).wrapping_sub(State::Claimed as u64);
        // Release: pairs with the Acquire of a pin or a run; publishes the key and the cell. [CL6]
        let word = self
            .0
            .fetch_add(difference.wrapping_add(pins * PIN), Release);
        debug_assert_eq!(state(word), State::Claimed, "a claim is ended once");
    }

    /// Changes the state; returns the state found if it is another one.
    pub(crate) fn shift(&self, from: State, to: State) -> Result<(), State> {
        let next = |word| (state(word) == from).then_some(word & !STATE | to as u64);
        // Relaxed: the caller has a pin or runs the cell; as a read-modify-write it continues the
        // release sequence of publish. The compare-exchange checks the load. [CL7] [CL8]
        let shifted = self.0.fetch_update(Relaxed, Relaxed, next);
        shifted.map(drop).map_err(state)
    }

    /// Acquires the right to the key's only handle; returns `false` if the handle exists already.
    pub(crate) fn own(&self) -> bool {
        // Acquire: pairs with the fence of the last owner's last put, before disown; that owner's
        // puts happen-before. [CL9]
        self.0.fetch_or(OWNED, Acquire) & OWNED == 0
    }

    pub(crate) fn disown(&self) {
        // Relaxed: the fence of the last put precedes it, and pairs with the Acquire in own. [CL10]
        self.0.fetch_and(!OWNED, Relaxed);
    }

    /// Begins to run the key; if another consumer runs it, sets DIRTY for that one.
    #[inline]
    pub(crate) fn begin_run(&self) -> Begin {
        // Relaxed: a compare-exchange decides, except if there is nothing to run. [CL11]
        let mut word = self.0.load(Relaxed);
        loop {
            let state = state(word);
            if !matches!(state, State::Live | State::Removed) || word & DEFERRED != 0 {
                return Begin::Not;
            }
            // Also if DIRTY is set: the compare-exchange makes what this thread did before visible
            // to the consumer that runs the key.
            let next = if word & RUNNING == 0 {
                word | RUNNING
            } else {
                word | DIRTY
            };
            // AcqRel: pairs with the AcqRel in end_run and defer. So handlers of a key are ordered,
            // and a thread that sets DIRTY publishes that it cleared the mark. [CL12]
            match self.0.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) if word & RUNNING == 0 => return Begin::Runs(state),
                Ok(_) => return Begin::Not,
                Err(other) => word = other,
            }
        }
    }

    /// Ends a run; returns whether the key has to be marked again.
    #[inline]
    pub(crate) fn end_run(&self) -> bool {
        // AcqRel: pairs with the AcqRel in begin_run and with claim; the handler has ended. [CL13]
        let word = self.0.fetch_and(!(RUNNING | DIRTY), AcqRel);
        debug_assert!(word & RUNNING != 0, "a run is ended by the one that runs");
        word & DIRTY != 0
    }

    /// Ends a run without a take: the caller keeps the key for later, with a pin. The last atomic
    /// operation is a compare-exchange.
    pub(crate) fn defer(&self) {
        let next = |word| Some((word & !(RUNNING | DIRTY) | DEFERRED) + PIN);
        // AcqRel: as end_run. Relaxed: the compare-exchange checks the load. [CL14] [CL15]
        let _ = self.0.fetch_update(AcqRel, Relaxed, next);
    }

    /// Ends a deferral; returns whether there was one. If so, the caller must mark the key.
    pub(crate) fn undefer(&self) -> bool {
        // Relaxed: the caller's mark leads the next consumer here, and its fence orders it. [CL16]
        self.0.fetch_and(!DEFERRED, Relaxed) & DEFERRED != 0
    }
}
