//! The steps of a round, and the check of the sleepers before a step of a task.

use super::machine::{Outcome, Step};
use super::mutant::Mutant;
use super::state::{At, Fifo, NEVER, NONE, TASKS, Thread, WAITING};

impl Step<'_> {
    pub(super) fn share(&mut self, local: &Thread) -> Outcome {
        let is_more = match local.at {
            At::ShareRing => !self.s.rings[self.thread].is_empty(),
            At::SharePosted => !self.s.front.is_empty(),
            At::ShareNext => {
                let lacks = self.s.next != NEVER && !self.is(Mutant::NoNextKeeper);
                return self.go(if lacks { At::ShareKeeper } else { At::Enter });
            }
            _ => self.s.keeper == NONE,
        };
        if is_more {
            return self.notify(At::Enter);
        }
        self.go(match local.at {
            At::ShareRing => At::SharePosted,
            At::SharePosted => At::ShareNext,
            _ => At::Enter,
        })
    }

    pub(super) fn round(&mut self, local: &Thread) -> Outcome {
        match local.at {
            At::RoundLook => {
                self.t().now = self.s.clock;
                self.go(At::RoundDue)
            }
            At::RoundDue => {
                if self.s.front.is_empty() && local.now < self.s.next {
                    return self.rounded();
                }
                self.go(At::RoundTry)
            }
            At::RoundTry => {
                if self.s.role != NONE {
                    return self.rounded();
                }
                self.s.role = self.thread as u8;
                self.go(At::Expire)
            }
            At::Expire => self.expire(local.now),
            At::Take => {
                self.t().moved |= !self.s.front.is_empty();
                self.t().taken = self.s.front;
                self.s.front = Fifo::default();
                self.go(At::Admit)
            }
            At::Admit => self.admit(local.now),
            At::Store => {
                self.s.tasks[usize::from(local.task)].is_stored = true;
                self.t().task = NONE;
                self.go(At::Admit)
            }
            At::Publish => {
                let stored = self.s.tasks.iter().filter(|task| task.is_stored);
                let next = stored.map(|task| task.due).min().unwrap_or(NEVER);
                self.t().before = self.s.next;
                self.t().limit = next;
                self.s.next = next;
                self.go(At::Release)
            }
            At::Release => {
                self.s.role = NONE;
                if local.limit < local.before {
                    return self.go(At::Hasten);
                }
                self.rounded()
            }
            At::Hasten => {
                if self.s.keeper == NONE || self.is(Mutant::NoHasten) {
                    return self.rounded();
                }
                self.t().chosen = self.s.keeper;
                self.go(At::HastenUnpark)
            }
            _ => {
                self.s.tokens |= 1 << local.chosen;
                self.t().chosen = 0;
                self.rounded()
            }
        }
    }

    /// Takes one task that is due out of the store.
    fn expire(&mut self, now: u8) -> Outcome {
        let until = now + u8::from(self.is(Mutant::Early));
        let due = (0..TASKS)
            .filter(|&task| self.s.tasks[task].is_stored && self.s.tasks[task].due <= until)
            .min_by_key(|&task| self.s.tasks[task].due);
        let Some(task) = due else {
            return self.go(At::Take);
        };
        let blind = self.is(Mutant::NoClaim);
        let it = &mut self.s.tasks[task];
        if it.due > self.s.clock {
            return Err(format!("task {task} is early"));
        }
        it.is_stored = false;
        self.s.workers[self.thread].moved = true;
        if it.status & WAITING != 0 || blind {
            it.status &= !WAITING;
            self.ready(task as u8)?;
        }
        Ok(())
    }

    /// Handles one task of those that were taken from the front.
    fn admit(&mut self, now: u8) -> Outcome {
        let Some(task) = self.t().taken.pop() else {
            return self.go(At::Publish);
        };
        let (keeps, blind) = (self.is(Mutant::KeepEntry), self.is(Mutant::WaitBlindly));
        let urgent = self.urgent();
        let it = &mut self.s.tasks[usize::from(task)];
        let was_stored = it.is_stored;
        it.is_stored &= keeps;
        if was_stored || it.due <= now || it.status & urgent != 0 && !blind {
            return self.ready(task);
        }
        it.status |= WAITING;
        self.t().task = task;
        self.go(At::Store)
    }
}
