//! What a worker does without work: it checks again for a while, and then sleeps.

use core::time::Duration;

use super::{Worker, pause};
use crate::alloc::RastAlloc;
use crate::controller::{Controller, PanicPayload};
use crate::cx::Local;
use crate::panics::{Hook, message};
use crate::primitive::panics::{contain, discard};
use crate::primitive::{Parker, WaitStrategy, hint};
use crate::timers::{Clock, Instant, MonotonicClock, Nanos};

use super::wakes::note_news;

/// Time after which a sleeping worker releases its cached memory (`RastAlloc::on_idle`).
///
/// So a busy worker does not pay for that, and an idle one wakes up once more for it.
const LONG: Duration = Duration::from_millis(10);

/// How long `Adaptive` checks for work before it sleeps: about the cost of a wake-up by the OS.
const WATCH: Nanos = Nanos::from_micros(40);

/// Number of checks for wake-ups between two rounds without work.
const POLLS: u32 = 8;

/// Number of checks per clock reading, a multiple of [`POLLS`].
const LOOKS: u32 = 16;

impl<C: Controller> Worker<'_, C> {
    /// Waits for a moment, or sleeps, as the strategy says.
    pub(super) fn rest(&mut self) {
        match self.shared.wait {
            WaitStrategy::Spin => self.watch_inbox(),
            WaitStrategy::Park => self.park(),
            WaitStrategy::Adaptive => match self.watches() {
                true => self.watch_inbox(),
                false => self.park(),
            },
        }
    }

    /// Waits for a moment; returns early if there may be a wake-up for this worker.
    ///
    /// A check here is shorter than a round, so a wake-up is found sooner than by further rounds.
    fn watch_inbox(&self) {
        for _ in 0..self.polls_of_inbox() {
            hint::spin_loop();
            for line in self.local.lines {
                hint::prefetch_read(core::ptr::without_provenance::<u8>(line));
            }
            if self.local.member.has_wakes() {
                return;
            }
        }
    }

    /// Returns how often to check for wake-ups between two rounds: once if the worker's `Park` is
    /// to be polled as well, which a round does.
    fn polls_of_inbox(&self) -> u32 {
        match self.polls {
            true => 1,
            false => POLLS,
        }
    }

    /// Returns `true` until there has been no work for [`WATCH`], by the system's clock.
    fn watches(&mut self) -> bool {
        let looks = self.looks;
        self.looks = looks.wrapping_add(1);
        if !looks.is_multiple_of(LOOKS / self.polls_of_inbox()) {
            return true;
        }
        let now = MonotonicClock::new().now();
        if looks == 0 {
            self.watching = now;
        }
        now.saturating_since(self.watching) < WATCH
    }

    #[cold]
    fn park(&mut self) {
        self.read_clock();
        let limit = self.sleep_limit();
        if limit == Some(Duration::ZERO) {
            return;
        }
        let shards = self.shared.slots.len();
        let parks = &self.tally().parks;
        let is_rested = self.is_rested;
        let Local { member, notes, .. } = &mut self.local;
        let slept = member.park(|park| {
            parks.add(1);
            if is_rested {
                RastAlloc::on_idle();
            }
            let limit = match is_rested {
                true => limit,
                false => Some(limit.map_or(LONG, |limit| limit.min(LONG))),
            };
            let parked = contain(|| {
                park.park(limit, &mut |shard| note_news(notes, shard, shards));
            });
            (limit, parked)
        });
        self.read_clock();
        self.hand_over_news();
        match slept {
            None => {}
            Some(((limit, Ok(())), is_woken)) => {
                self.parks_failed = 0;
                // A sleep of `LONG` without a wake-up.
                self.is_rested |= !is_woken && limit.is_some_and(|limit| limit >= LONG);
            }
            Some(((_, Err(payload)), _)) => self.failed_to_park(payload),
        }
        self.looks = 0;
    }

    /// Records a panic of a sleep; pauses if the sleep before it panicked too.
    #[cold]
    fn failed_to_park(&mut self, payload: PanicPayload) {
        self.park_panicked(payload);
        if let Some(doublings) = self.parks_failed.checked_sub(1) {
            Parker::new().park_timeout(pause(doublings).into());
            self.read_clock();
        }
        self.parks_failed = self.parks_failed.saturating_add(1);
    }

    /// Returns the maximum time to sleep; `None` means without limit.
    fn sleep_limit(&self) -> Option<Duration> {
        let now = self.local.now;
        let mut until = self.ready.next_alarm();
        if self.is_used && self.local.member.may_promise() && self.window_end < Instant::MAX {
            until = Some(until.map_or(self.window_end, |until| until.min(self.window_end)));
        }
        until.map(|until| until.saturating_since(now).into())
    }

    /// Records a panic of the worker's `Park`.
    #[cold]
    pub(super) fn park_panicked(&self, payload: PanicPayload) {
        let text = message(&*payload);
        discard(payload);
        let worker = self.local.member.worker();
        self.shared.core.panicked(worker, None, Hook::Park, text);
    }
}
