//! Calls of user code whose panics are caught.
//!
//! A layer calls handlers, wakers and destructors of its user. The payload of a panic is a value of
//! the user too. Its destructor may panic, with a payload whose destructor may panic. Each function
//! here documents where such a chain ends.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std_alloc::boxed::Box;

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send>;

/// Runs user code, and returns the payload if it panicked.
///
/// After a panic, values that the code had borrowed mutably may be inconsistent; the caller must
/// not rely on them.
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
#[inline]
pub fn quietly(call: impl FnOnce()) -> bool {
    contain(call).map_err(discard).is_ok()
}

/// Drops a value of the user, and catches the panic of its destructor.
///
/// If the destructor of the caught payload panics too, the payload of the second panic is leaked.
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
#[cold]
pub fn discard<T>(value: T) {
    if let Err(second) = contain(move || drop(value))
        && let Err(third) = contain(move || drop(second))
    {
        // The destructor of such a payload could panic with another such payload, endlessly.
        core::mem::forget(third);
    }
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
