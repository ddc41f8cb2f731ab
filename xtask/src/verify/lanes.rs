//! Runs steps side by side: at most a given number at a time, and never two that build in the same
//! target directory.
//!
//! Cargo allows one build at a time in a target directory, and most builds and tests leave a core
//! idle for a part of their time. So steps with different directories run together.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;

/// The target directories of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dirs {
    /// Those that no other step may use meanwhile.
    pub(super) alone: &'static [&'static str],
    /// Directories from which the step only uses what is already built. Other steps that do the
    /// same may run at the same time.
    pub(super) shared: &'static [&'static str],
    /// No other step runs meanwhile, whatever its directories.
    pub(super) is_single: bool,
}

impl Dirs {
    /// Whether a step with these may not run beside one with `other`.
    fn meet(&self, other: &Dirs) -> bool {
        let alone = |a: &Dirs, b: &Dirs| a.alone.iter().any(|dir| b.has(dir));
        self.is_single || other.is_single || alone(self, other) || alone(other, self)
    }

    /// Whether a step with these uses `dir`.
    pub(super) fn has(&self, dir: &str) -> bool {
        self.alone.contains(&dir) || self.shared.contains(&dir)
    }
}

/// What happens to a step.
pub(super) enum Event<R> {
    Begun(usize),
    Ended(usize, R),
}

/// Calls `run` with the index of each of `steps`, up to `lanes` at a time. Calls `told` on this
/// thread for each begin and end.
///
/// The next step is always the first in the list that may begin.
pub(super) fn run<R: Send>(
    steps: &[Dirs],
    lanes: usize,
    run: impl Fn(usize) -> R + Sync,
    mut told: impl FnMut(Event<R>),
) {
    let (sender, ends) = channel();
    let mut waiting: Vec<usize> = (0..steps.len()).collect();
    let mut running: Vec<usize> = Vec::new();
    std::thread::scope(|scope| {
        loop {
            while running.len() < lanes
                && let Some(place) = next(steps, &waiting, &running)
            {
                let step = waiting.remove(place);
                running.push(step);
                told(Event::Begun(step));
                let (sender, run) = (sender.clone(), &run);
                scope.spawn(move || {
                    let result = catch_unwind(AssertUnwindSafe(|| run(step)));
                    let _ = sender.send((step, result));
                });
            }
            if running.is_empty() {
                return;
            }
            let (step, result) = ends.recv().expect("this thread has a sender");
            running.retain(|other| *other != step);
            let result = result.unwrap_or_else(|panic| resume_unwind(panic));
            told(Event::Ended(step, result));
        }
    });
}

/// The place in `waiting` of the first step that may run beside those of `running`.
fn next(steps: &[Dirs], waiting: &[usize], running: &[usize]) -> Option<usize> {
    waiting.iter().position(|step| {
        let mut others = running.iter();
        !others.any(|other| steps[*other].meet(&steps[*step]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};

    const fn alone(dirs: &'static [&'static str]) -> Dirs {
        Dirs {
            alone: dirs,
            shared: &[],
            is_single: false,
        }
    }

    const fn shared(dirs: &'static [&'static str]) -> Dirs {
        Dirs {
            alone: &[],
            shared: dirs,
            is_single: false,
        }
    }

    #[test]
    fn the_first_with_free_directories_is_next() {
        let steps = [
            alone(&["a"]),
            alone(&["b", "a"]),
            alone(&["c"]),
            shared(&["c"]),
            shared(&["c"]),
        ];
        assert_eq!(next(&steps, &[0, 1, 2], &[]), Some(0));
        assert_eq!(next(&steps, &[1, 2], &[0]), Some(1));
        assert_eq!(next(&steps, &[0, 2], &[1]), Some(1));
        assert_eq!(next(&steps, &[3, 4], &[2]), None);
        assert_eq!(next(&steps, &[2, 4], &[3]), Some(1));
        assert_eq!(next(&[alone(&[]), alone(&[])], &[1], &[0]), Some(0));
        let single = Dirs {
            is_single: true,
            ..Dirs::default()
        };
        let steps = [single, alone(&["a"])];
        assert_eq!(next(&steps, &[0], &[1]), None);
        assert_eq!(next(&steps, &[1], &[0]), None);
        assert_eq!(next(&steps, &[0, 1], &[]), Some(0));
    }

    #[test]
    fn two_steps_run_at_a_time_and_all_end() {
        let steps = [alone(&["a"]), alone(&["a"]), alone(&["b"]), alone(&[])];
        // The first step ends when the third has begun, which needs the second lane.
        let (begun, change) = (Mutex::new(Vec::new()), Condvar::new());
        let mut order = Vec::new();
        run(
            &steps,
            2,
            |step| {
                let mut begun = begun.lock().unwrap();
                begun.push(step);
                change.notify_all();
                if step == 0 {
                    let both = |begun: &mut Vec<usize>| !begun.contains(&2);
                    drop(change.wait_while(begun, both).unwrap());
                }
                step * 10
            },
            |event| match event {
                Event::Begun(step) => order.push((step, None)),
                Event::Ended(step, result) => order.push((step, Some(result))),
            },
        );
        assert_eq!(order[..2], [(0, None), (2, None)]);
        for step in 0..4 {
            assert!(order.contains(&(step, Some(step * 10))), "{order:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a fault")]
    fn a_panic_is_passed_on() {
        run(&[alone(&[])], 2, |_| panic!("a fault"), |_: Event<()>| {});
    }
}
