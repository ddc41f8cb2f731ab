//! Values of the program that threads of this crate drop.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use crate::primitive::panics::discard;

/// A value of the program whose destructor's panics are contained.
///
/// For hooks and reports, which several threads share: the last of these threads drops the value,
/// and it is often a thread of this crate.
pub(crate) struct Quiet<T>(ManuallyDrop<T>);

impl<T> Quiet<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Quiet<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        // SAFETY: the value is taken once, here, and not used after.
        discard(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_destructor_that_panics_is_contained() {
        struct Loud(u32);
        impl Drop for Loud {
            fn drop(&mut self) {
                panic!("in a destructor");
            }
        }
        let quiet = Quiet::new(Loud(7));
        assert_eq!((*quiet).0, 7);
        drop(quiet);
    }
}
