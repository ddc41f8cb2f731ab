//! Calls of user code whose panics are caught.
//!
//! A layer calls handlers, wakers and destructors of its user. The payload of a panic is a value of
//! the user too. Its destructor may panic, and so may the destructor of that panic's payload. Each
//! function here documents where such a chain ends.

use core::any::Any;
#[cfg(feature = "std")]
use core::cell::Cell;
#[cfg(feature = "std")]
use core::panic::AssertUnwindSafe;
#[cfg(feature = "std")]
use std::panic::{catch_unwind, resume_unwind};
use std_alloc::boxed::Box;

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send>;

/// Runs user code, and returns the payload if it panicked.
///
/// After a panic, values that the code had borrowed mutably may be inconsistent: do not rely on
/// them.
///
/// # Errors
///
/// The payload of the panic: examine it, raise it again, or pass it to [`discard`].
///
/// ```
/// use rast_primitive::panics;
///
/// assert_eq!(panics::contain(|| 1).unwrap(), 1);
/// let payload = panics::contain(|| panic!("no")).unwrap_err();
/// assert_eq!(panics::text(&*payload), Some("no"));
/// ```
#[cfg(feature = "std")]
#[inline]
pub fn contain<R>(call: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Runs user code and discards the payload of its panic; returns `false` if it panicked.
///
/// ```
/// use rast_primitive::panics;
///
/// assert!(panics::quietly(|| ()));
/// assert!(!panics::quietly(|| panic!("no")));
/// ```
#[cfg(feature = "std")]
#[inline]
pub fn quietly(call: impl FnOnce()) -> bool {
    contain(call).map_err(discard).is_ok()
}

/// Drops a value of the user, and catches the panic of its destructor.
///
/// If the destructor of the caught payload panics too, the payload of this second panic is leaked.
///
/// ```
/// use rast_primitive::panics;
///
/// struct Loud;
/// impl Drop for Loud {
///     fn drop(&mut self) {
///         panic!("no");
///     }
/// }
/// panics::discard(Loud);
/// ```
#[cfg(feature = "std")]
#[cold]
pub fn discard<T>(value: T) {
    if let Err(second) = contain(move || drop(value))
        && let Err(third) = contain(move || drop(second))
    {
        // The destructor of such a payload could panic with another such payload, endlessly.
        core::mem::forget(third);
    }
}

/// Drops each value that `next` returns, until it returns `None`, even if destructors panic. A
/// collection calls it in its own destructor.
///
/// With `std`, the panic of every destructor is caught. After the last value the first of these
/// panics continues, and the payloads of the others are [discarded](discard). So any number of
/// destructors may panic. Without `std` no panic can be caught: while the first panic unwinds, the
/// remaining values are dropped, and a second panic aborts the process.
///
/// A panic that leaves this function while the thread is already unwinding aborts the process, as
/// for any destructor.
///
/// Costs one catch for all values, and one more for each panic.
///
/// # Panics
///
/// If a destructor panics, as described above. A panic of `next` itself is not caught, and no
/// further value is dropped.
///
/// ```
/// use rast_primitive::panics;
/// use std::cell::Cell;
///
/// struct Loud<'a>(&'a Cell<u32>);
/// impl Drop for Loud<'_> {
///     fn drop(&mut self) {
///         self.0.set(self.0.get() + 1);
///         panic!("drop {}", self.0.get());
///     }
/// }
///
/// let drops = Cell::new(0);
/// let mut all = (0..3).map(|_| Loud(&drops));
/// let first = panics::contain(|| panics::drop_each(|| all.next())).unwrap_err();
/// assert_eq!(panics::text(&*first), Some("drop 1"));
/// assert_eq!(drops.get(), 3);
/// ```
#[inline]
pub fn drop_each<T>(mut next: impl FnMut() -> Option<T>) {
    #[cfg(feature = "std")]
    {
        let mut first = None;
        loop {
            // Whether a panic is that of a destructor, so that `next` can be called again.
            let is_dropping = Cell::new(false);
            let run = contain(|| {
                while let Some(value) = next() {
                    is_dropping.set(true);
                    drop(value);
                    is_dropping.set(false);
                }
            });
            match run {
                Ok(()) => break,
                Err(payload) if is_dropping.get() && first.is_none() => first = Some(payload),
                Err(payload) if is_dropping.get() => discard(payload),
                Err(payload) => {
                    discard(first);
                    resume_unwind(payload);
                }
            }
        }
        if let Some(payload) = first {
            resume_unwind(payload);
        }
    }
    #[cfg(not(feature = "std"))]
    {
        /// Drops the rest while the panic of a destructor unwinds.
        struct Rest<F: FnMut(&mut bool)> {
            run: F,
            is_dropping: bool,
        }
        impl<F: FnMut(&mut bool)> Drop for Rest<F> {
            fn drop(&mut self) {
                if self.is_dropping {
                    (self.run)(&mut self.is_dropping);
                }
            }
        }
        let run = |is_dropping: &mut bool| {
            while let Some(value) = next() {
                *is_dropping = true;
                drop(value);
                *is_dropping = false;
            }
        };
        let mut rest = Rest {
            run,
            is_dropping: false,
        };
        (rest.run)(&mut rest.is_dropping);
    }
}

/// Calls each function, even if some of them panic. The first panic continues after the last call,
/// as in [`drop_each`].
///
/// ```
/// use rast_primitive::panics;
///
/// let mut calls = 0;
/// let (mut panics, mut counts) = (|| -> () { panic!("the first") }, || calls += 1);
/// let call = || panics::call_each([&mut panics as &mut dyn FnMut(), &mut counts]);
/// let first = panics::contain(call).unwrap_err();
/// assert_eq!(panics::text(&*first), Some("the first"));
/// assert_eq!(calls, 1);
/// ```
pub fn call_each<'a>(calls: impl IntoIterator<Item = &'a mut (dyn FnMut() + 'a)>) {
    struct Call<'a>(&'a mut (dyn FnMut() + 'a));
    impl Drop for Call<'_> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let mut calls = calls.into_iter().map(Call);
    drop_each(|| calls.next());
}

/// Returns the text of a payload, or `None` if the payload is not a text.
///
/// The payload of `panic!` is a text; that of `std::panic::panic_any` may be of any type.
#[must_use]
pub fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    let literal = payload.downcast_ref::<&'static str>().copied();
    literal.or_else(|| {
        payload
            .downcast_ref::<std_alloc::string::String>()
            .map(|text| text.as_str())
    })
}
