//! A value that was taken while its key stays claimed.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use std::panic::resume_unwind;

use crate::mode::Mode;
use crate::primitive::panics::{contain, discard};
#[cfg(feature = "async")]
use crate::primitive::sync::Arc;
use crate::shared::{Shared, Spot};

/// A value taken by [`Consumer::try_next`](crate::Consumer::try_next); until the item is dropped,
/// no consumer runs its key.
///
/// If it is leaked with `mem::forget`, the key is never run again.
pub struct Item<'a, K, V, M: Mode<V>, S> {
    shared: ManuallyDrop<&'a Shared<K, V, M, S>>,
    spot: Spot<K, V, M>,
    /// `None` once it is moved out.
    value: Option<V>,
}

/// A value of a [`Stream`](crate::Stream); until the item is dropped, no consumer runs its key.
///
/// If it is leaked with `mem::forget`, the key is never run again.
#[cfg(feature = "async")]
pub struct OwnedItem<K, V, M: Mode<V>, S> {
    /// Dropped last, also if the drop of the key panics; it may be the last owner of the conflator.
    shared: ManuallyDrop<Arc<Shared<K, V, M, S>>>,
    spot: Spot<K, V, M>,
    /// `None` once it is moved out.
    value: Option<V>,
}

// SAFETY: the key is shared and the value is sent; any thread may end the claim of the key.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>, S: Sync> Send for Item<'_, K, V, M, S> {}
// SAFETY: sharing it shares the key and the value.
unsafe impl<K: Send + Sync, V: Send + Sync, M: Mode<V>, S: Sync> Sync for Item<'_, K, V, M, S> {}
#[cfg(feature = "async")]
// SAFETY: as for an item.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>, S: Send + Sync> Send for OwnedItem<K, V, M, S> {}
#[cfg(feature = "async")]
// SAFETY: as for an item.
unsafe impl<K: Send + Sync, V: Send + Sync, M: Mode<V>, S: Send + Sync> Sync
    for OwnedItem<K, V, M, S>
{
}

impl<'a, K, V, M: Mode<V>, S> Item<'a, K, V, M, S> {
    pub(crate) fn new(shared: &'a Shared<K, V, M, S>, spot: Spot<K, V, M>, value: V) -> Self {
        Self {
            shared: ManuallyDrop::new(shared),
            spot,
            value: Some(value),
        }
    }
}

#[cfg(feature = "async")]
impl<K, V, M: Mode<V>, S> OwnedItem<K, V, M, S> {
    pub(crate) fn new(shared: Arc<Shared<K, V, M, S>>, spot: Spot<K, V, M>, value: V) -> Self {
        Self {
            shared: ManuallyDrop::new(shared),
            spot,
            value: Some(value),
        }
    }
}

macro_rules! items {
    ($($(#[$cfg:meta])? [$($a:lifetime)?] $item:ty;)*) => {$(
        $(#[$cfg])?
        impl<$($a,)? K, V, M: Mode<V>, S> $item {
            /// Returns the key.
            #[must_use]
            pub fn key(&self) -> &K {
                let entry = self.spot.place(&self.shared).entry();
                // SAFETY: 1: the item runs the cell, which had a key when the run began.
                unsafe { entry.key() }
            }

            /// Returns the value, and ends the claim of the key.
            #[must_use]
            pub fn into_value(mut self) -> V {
                let value = self.value.take();
                let value = value.expect("an item has its value until it is moved out");
                if let Err(panic) = contain(|| drop(self)) {
                    // The drop of the key panicked; that of the value may, too.
                    discard(value);
                    resume_unwind(panic);
                }
                value
            }
        }

        $(#[$cfg])?
        impl<$($a,)? K, V, M: Mode<V>, S> Deref for $item {
            type Target = V;
            fn deref(&self) -> &V {
                self.value.as_ref().expect("an item has its value until it is moved out")
            }
        }

        $(#[$cfg])?
        impl<$($a,)? K, V, M: Mode<V>, S> DerefMut for $item {
            fn deref_mut(&mut self) -> &mut V {
                self.value.as_mut().expect("an item has its value until it is moved out")
            }
        }

        $(#[$cfg])?
        impl<$($a,)? K, V, M: Mode<V>, S> Drop for $item {
            fn drop(&mut self) {
                // Each of the three drops may panic: of a removed key, of the value, and of what
                // the conflator stores, if this is its last owner.
                let ended = contain(|| self.shared.end_run(self.spot.place(&self.shared)));
                let dropped = contain(|| drop(self.value.take()));
                // SAFETY: the field is not used again.
                let shared = unsafe { ManuallyDrop::take(&mut self.shared) };
                let first = match (ended, dropped) {
                    (Ok(()), Ok(())) => return,
                    (Err(first), second) => {
                        discard(second);
                        first
                    }
                    (Ok(()), Err(first)) => first,
                };
                discard(shared);
                resume_unwind(first);
            }
        }

        $(#[$cfg])?
        impl<$($a,)? K: fmt::Debug, V: fmt::Debug, M: Mode<V>, S> fmt::Debug for $item {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple("Item").field(self.key()).field(&self.value).finish()
            }
        }
    )*};
}
items! {
    ['a] Item<'a, K, V, M, S>;
    #[cfg(feature = "async")] [] OwnedItem<K, V, M, S>;
}
