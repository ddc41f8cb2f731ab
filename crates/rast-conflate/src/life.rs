//! The status word of a cell: its state, whether a consumer runs it, and how many threads have a
//! pin on it.
//!
//! | bits | meaning |
//! | --- | --- |
//! | 0-2 | state, see [`State`] |
//! | 3 | RUNNING: a consumer runs the key; it alone takes values for its handler |
//! | 4 | DIRTY: another consumer met the key while it ran; the one that runs it marks it again |
//! | 5 | DEFERRED: a consumer keeps the key until its pace allows it, and has a pin on it |
//! | 6 | OWNED: the only handle of the key is given out |
//! | 8-31 | pins: threads that look at the key, handles, deferrals |
//! | 32-63 | how many pins there were, modulo 2^32 |
//!
//! "Queued" is no bit here: it is the key's mark.
//!
//! A cell is given to another key only in state Removed or Killed, without a pin, without RUNNING
//! and without a value. So a thread that has a pin or runs the key may use it, and a handle never
//! puts under another key. A put has a pin, and the count of pins never comes back to what it was,
//! so the exchange that claims the cell fails if a value came after the look.

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
/// More pins than this are refused by a panic, long before they overflow.
const PINS_MAX: u64 = (PINS / PIN) / 2;

/// What a cell of the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Never used: no search goes on past it.
    Empty = 0,
    /// Used before; without a key.
    Free = 1,
    /// One thread puts a key in, or takes it out.
    Claimed = 2,
    /// Has a key; whether another cell got the same key first is being found out.
    Tentative = 3,
    /// Has a key that is in the table.
    Live = 4,
    /// Has a key that was removed; a put can bring it back while it has a pin.
    Removed = 5,
    /// Has a key that another cell got first.
    Killed = 6,
}

/// What came of an attempt to run a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The caller runs the key now, which is in this state.
    Runs(State),
    /// Nothing to do for the caller: no key is here, or another consumer runs it or keeps it.
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
        // Relaxed: a thread that goes on to use the cell pins it, runs it or claims it. [CL1]
        state(self.0.load(Relaxed))
    }

    /// Pins the cell, and returns its state if it has a key.
    ///
    /// # Panics
    ///
    /// When the cell has 8 million pins.
    #[inline]
    pub(crate) fn pin(&self) -> Option<State> {
        // Acquire: pairs with the Release in publish; the key is whole. [CL2]
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
        // Release: pairs with the Acquire in claim; what was done with the key comes before its
        // end. [CL3]
        self.0.fetch_sub(PIN, Release);
    }

    /// Claims a cell without a key, or one whose key is gone, unused and without a value; returns
    /// the state that it had.
    ///
    /// Lock-free: the exchange is repeated only where another thread pinned the cell or gave up its
    /// pin.
    pub(crate) fn claim(&self, is_full: impl Fn() -> bool) -> Option<State> {
        // Acquire: pairs with the Release in unpin; a value that was put under a pin is seen by the
        // look below. [CL4]
        let mut word = self.0.load(Acquire);
        loop {
            let was = state(word);
            let is_free = match was {
                // Pins here are of threads that are about to find that there is no key.
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

    /// Ends a claim in another state, with `pins` pins of the caller.
    pub(crate) fn publish(&self, to: State, pins: u64) {
        let difference = (to as u64).wrapping_sub(State::Claimed as u64);
        // Release: pairs with the Acquire of a pin or a run; publishes the key and the
        // cell. [CL6]
        let word = self
            .0
            .fetch_add(difference.wrapping_add(pins * PIN), Release);
        debug_assert_eq!(state(word), State::Claimed, "a claim is ended once");
    }

    /// Moves from one state to another; returns the state that it found instead.
    pub(crate) fn shift(&self, from: State, to: State) -> Result<(), State> {
        // Relaxed: a look; the exchange decides. [CL7]
        let mut word = self.0.load(Relaxed);
        loop {
            if state(word) != from {
                return Err(state(word));
            }
            let next = word & !STATE | to as u64;
            // Relaxed: the caller has a pin or runs the cell; an exchange keeps the order that
            // publish began. [CL8]
            match self.0.compare_exchange_weak(word, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => word = other,
            }
        }
    }

    /// Gives out the only handle of the key; false if it is given out already.
    pub(crate) fn own(&self) -> bool {
        // Acquire: pairs with the fence of the owner's last put, before disown; the puts of the
        // owner before are seen. [CL9]
        self.0.fetch_or(OWNED, Acquire) & OWNED == 0
    }

    pub(crate) fn disown(&self) {
        // Relaxed: the fence of the last put comes before it, and pairs with the Acquire in own.
        // [CL10]
        self.0.fetch_and(!OWNED, Relaxed);
    }

    /// Begins to run the key, if no other consumer does; tells one that does that there is more.
    #[inline]
    pub(crate) fn begin_run(&self) -> Begin {
        // Relaxed: a look; an exchange decides, except where there is nothing to run. [CL11]
        let mut word = self.0.load(Relaxed);
        loop {
            let state = state(word);
            if !matches!(state, State::Live | State::Removed) || word & DEFERRED != 0 {
                return Begin::Not;
            }
            // An exchange also where DIRTY is set, so that the one that runs the key sees what came
            // before this.
            let next = if word & RUNNING == 0 {
                word | RUNNING
            } else {
                word | DIRTY
            };
            // AcqRel: pairs with the AcqRel in end_run and defer: handlers of a key follow each
            // other; and a thread that sets DIRTY publishes that it cleared the mark. [CL12]
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
        // AcqRel: pairs with the AcqRel in begin_run and with claim; the handler is done. [CL13]
        let word = self.0.fetch_and(!(RUNNING | DIRTY), AcqRel);
        debug_assert!(word & RUNNING != 0, "a run is ended by the one that runs");
        word & DIRTY != 0
    }

    /// Ends a run without a take: the caller keeps the key for later, with a pin. The last
    /// operation is an exchange.
    pub(crate) fn defer(&self) {
        // Relaxed: a look; the exchange decides. [CL14]
        let mut word = self.0.load(Relaxed);
        loop {
            let next = (word & !(RUNNING | DIRTY) | DEFERRED) + PIN;
            // AcqRel: as end_run. [CL15]
            match self.0.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
    }

    /// Ends a deferral; returns whether there was one, and then the caller marks the key.
    pub(crate) fn undefer(&self) -> bool {
        // Relaxed: the mark that follows brings the next consumer here; its fence orders it. [CL16]
        self.0.fetch_and(!DEFERRED, Relaxed) & DEFERRED != 0
    }
}
