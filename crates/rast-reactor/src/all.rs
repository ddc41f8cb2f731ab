//! Several futures at once, in one task.
//!
//! Each future has its own waker, which records its number. So a wake-up costs one poll, however
//! many futures there are.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std_alloc::boxed::Box;
use std_alloc::sync::Arc;
use std_alloc::task::Wake;
use std_alloc::vec::Vec;

use crate::primitive::panics::drop_each;
use crate::primitive::sync::Mutex;

/// The futures that must be polled.
struct Woken {
    numbers: Vec<usize>,
    /// By number: whether it is recorded.
    is_noted: Vec<bool>,
    /// Wakes the task.
    task: Option<Waker>,
}

struct Group(Mutex<Woken>);

/// The waker of one future.
struct Member {
    group: Arc<Group>,
    number: usize,
}

impl Wake for Member {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = {
            let mut woken = self.group.0.lock();
            if core::mem::replace(&mut woken.is_noted[self.number], true) {
                return;
            }
            woken.numbers.push(self.number);
            // The first wake-up covers all that follow until the next poll.
            woken.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// One future, then its result.
enum Part<F: Future> {
    Pending(F, Waker),
    Ready(F::Output),
    Dropped,
}

/// The future of [`all_results`].
#[must_use = "futures do nothing unless polled"]
pub struct AllResults<F: Future> {
    parts: Box<[Part<F>]>,
    pending: usize,
    is_taken: bool,
    group: Arc<Group>,
}

/// Awaits all of `futures` in this task, concurrently; returns their outputs in order.
///
/// A panic of one of them propagates to the caller. Dropping this future drops all of them, even if
/// several destructors panic; the first of these panics continues.
///
/// Cost: one allocation per future. If one of the futures is woken, only that future is polled.
///
/// # Panics
///
/// If it is polled after it was ready.
///
/// ```
/// use rast_reactor::executor::block_on;
/// use rast_reactor::all_results;
///
/// let all = all_results((1..=3).map(|n| async move { n * n }));
/// assert_eq!(block_on(all), [1, 4, 9]);
/// ```
pub fn all_results<I>(futures: I) -> AllResults<I::Item>
where
    I: IntoIterator,
    I::Item: Future,
{
    let futures: Vec<_> = futures.into_iter().collect();
    let count = futures.len();
    let group = Arc::new(Group(Mutex::new(Woken {
        numbers: (0..count).collect(),
        is_noted: std_alloc::vec![true; count],
        task: None,
    })));
    let part = |(number, future)| {
        let group = Arc::clone(&group);
        Part::Pending(future, Waker::from(Arc::new(Member { group, number })))
    };
    AllResults {
        parts: futures.into_iter().enumerate().map(part).collect(),
        pending: count,
        is_taken: false,
        group,
    }
}

impl<F: Future> Future for AllResults<F> {
    type Output = Vec<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the futures stay in their box until they are dropped in place; nothing else is
        // pinned.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(!this.is_taken, "an AllResults is polled after it was ready");
        // Cloned and dropped outside of the lock, since wakers are user code.
        let waker = cx.waker().clone();
        let (mut numbers, old) = {
            let mut woken = this.group.0.lock();
            let old = woken.task.replace(waker);
            let numbers = core::mem::take(&mut woken.numbers);
            for &number in &numbers {
                woken.is_noted[number] = false;
            }
            (numbers, old)
        };
        drop(old);
        for number in numbers.drain(..) {
            let part = &mut this.parts[number];
            let Part::Pending(future, waker) = part else {
                // Woken after it was ready.
                continue;
            };
            // SAFETY: it is pinned as `self` is: it is in the box and is not moved.
            let future = unsafe { Pin::new_unchecked(future) };
            if let Poll::Ready(output) = future.poll(&mut Context::from_waker(waker)) {
                // Drops the future in place.
                *part = Part::Ready(output);
                this.pending -= 1;
            }
        }
        if this.pending > 0 {
            return Poll::Pending;
        }
        this.is_taken = true;
        let parts = core::mem::take(&mut this.parts);
        let ready = |part| match part {
            Part::Ready(output) => output,
            _ => unreachable!("all: each future was counted when it was ready"),
        };
        Poll::Ready(parts.into_iter().map(ready).collect())
    }
}

impl<F: Future> Drop for AllResults<F> {
    /// Drops each future in its place, because it is pinned. If a drop panics, the others are
    /// dropped too.
    fn drop(&mut self) {
        struct InPlace<'a, F: Future>(&'a mut Part<F>);
        impl<F: Future> Drop for InPlace<'_, F> {
            fn drop(&mut self) {
                *self.0 = Part::Dropped;
            }
        }
        let mut parts = self.parts.iter_mut().map(InPlace);
        drop_each(|| parts.next());
    }
}

impl<F: Future> fmt::Debug for AllResults<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllResults")
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}
