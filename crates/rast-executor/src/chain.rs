//! A list of tasks that are ready, linked through their headers.

use core::ptr::NonNull;

use crate::primitive::{Link, Linked};
use crate::task::{Header, Task};

/// A list of tasks, first in, first out. It owns the right to run each of its tasks, and cancels
/// them when it is dropped.
///
/// Pushing, popping and joining allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    head: Option<NonNull<Header>>,
    /// Valid only if there is a head.
    tail: Option<NonNull<Header>>,
    len: usize,
}

// SAFETY: it owns rights to run tasks, which may be sent.
unsafe impl Send for Chain {}

/// Reads the link of a task.
///
/// # Safety
///
/// The caller has the right to run the task.
pub(crate) unsafe fn next(task: NonNull<Header>) -> Option<NonNull<Header>> {
    // SAFETY: by the caller the task is alive.
    let header = unsafe { task.as_ref() };
    let next = header.queue_next.with(|next| {
        // SAFETY: by the caller this is the one access.
        unsafe { *next }
    });
    NonNull::new(next.node())
}

/// Writes the link of a task.
///
/// # Safety
///
/// As for [`next`].
pub(crate) unsafe fn set_next(task: NonNull<Header>, to: Option<NonNull<Header>>) {
    let to = to.map_or(Link::NULL, |to| Link::to(to.as_ptr()));
    // SAFETY: by the caller.
    unsafe { set_link(task, to) };
}

/// As [`set_next`], for what may be at an address.
///
/// # Safety
///
/// As for [`next`].
unsafe fn set_link(task: NonNull<Header>, to: Link<Header>) {
    // SAFETY: by the caller the task is alive.
    let header = unsafe { task.as_ref() };
    header.queue_next.with_mut(|next| {
        // SAFETY: by the caller this is the one access.
        unsafe { *next = to }
    });
}

// SAFETY: 1. It writes one field of the header, and calls no user code.
unsafe impl Linked for Header {
    #[inline]
    unsafe fn set_next(node: NonNull<Self>, next: Link<Self>) {
        // SAFETY: the caller has the task alone, and with it the right to run it.
        unsafe { set_link(node, next) };
    }
}

impl Chain {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(crate) fn push(&mut self, task: Task) {
        let raw = task.into_raw();
        // SAFETY: the right to run is the chain's.
        unsafe { set_next(raw, None) };
        match (self.head, self.tail) {
            // SAFETY: the right to run the last task is the chain's.
            (Some(_), Some(tail)) => unsafe { set_next(tail, Some(raw)) },
            _ => self.head = Some(raw),
        }
        self.tail = Some(raw);
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, task: Task) {
        let raw = task.into_raw();
        // SAFETY: the right to run is the chain's.
        unsafe { set_next(raw, self.head) };
        if self.head.is_none() {
            self.tail = Some(raw);
        }
        self.head = Some(raw);
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<Task> {
        let raw = self.head?;
        // SAFETY: the right to run is the chain's.
        self.head = unsafe { next(raw) };
        self.len -= 1;
        // SAFETY: the right was taken by `into_raw` in a push, and leaves the chain here.
        Some(unsafe { Task::from_raw(raw) })
    }

    /// Puts all of `other` at the end.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let Some(head) = other.head.take() else {
            return;
        };
        match (self.head, self.tail) {
            // SAFETY: the right to run the last task is the chain's.
            (Some(_), Some(tail)) => unsafe { set_next(tail, Some(head)) },
            _ => self.head = Some(head),
        }
        self.tail = other.tail;
        self.len += core::mem::take(&mut other.len);
    }

    /// Takes the first `count` tasks, or all if there are fewer. Cost: linear in `count`.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let mut front = Self::default();
        if count >= self.len {
            core::mem::swap(&mut front, self);
            return front;
        }
        for _ in 0..count {
            if let Some(task) = self.pop() {
                front.push(task);
            }
        }
        front
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        while let Some(task) = self.pop() {
            task.cancel();
        }
    }
}
