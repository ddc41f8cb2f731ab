//! The states of the processors of a graph that has ended.

use core::fmt;
use std::any::Any;

use crate::primitive::panics::drop_each;
use crate::primitive::sync::{Arc, Mutex};

/// A processor without its type.
pub(crate) type State = Box<dyn Any + Send>;

/// The processors of a graph that has ended, by shard. Clones share them, and each can be taken
/// once.
#[derive(Clone, Default)]
pub(crate) struct States(Arc<All>);

/// Drops each processor separately, because a second panic in the drop of the vector would abort
/// the process. The first panic continues after the last drop.
#[derive(Default)]
struct All(Mutex<Vec<Option<State>>>);

impl Drop for All {
    fn drop(&mut self) {
        let mut states = core::mem::take(&mut *self.0.lock()).into_iter().flatten();
        drop_each(|| states.next());
    }
}

impl States {
    pub(crate) fn put(&self, states: Vec<Option<State>>) {
        *self.0.0.lock() = states;
    }

    /// Takes the states of the given shards that are still there.
    pub(crate) fn take<P: 'static>(&self, shards: core::ops::Range<usize>) -> Vec<P> {
        let mut states = self.0.0.lock();
        let taken = states.get_mut(shards).into_iter().flatten();
        let taken = taken.filter_map(Option::take);
        let states = taken.map(|state| match state.downcast::<P>() {
            Ok(state) => *state,
            Err(_) => unreachable!("a shard has the type of its processor"),
        });
        states.collect()
    }

    /// Takes one state, if there is any.
    pub(crate) fn pop(&self) -> Option<State> {
        let mut states = self.0.0.lock();
        loop {
            if let Some(state) = states.pop()? {
                return Some(state);
            }
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.0.0.lock().iter().flatten().count();
        f.debug_struct("States").field("held", &held).finish()
    }
}
