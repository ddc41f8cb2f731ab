//! Misuse of RAST by safe code, none of which compiles.
//!
//! `tests/bounds.rs` tests which types are Send and Sync, and which are not. `tests/ui.rs` compiles
//! small programs. Each must be refused with the message in the `.stderr` file beside it. The
//! messages of `graph!` for a wrong graph are tested in `rast-msgpass`.

/// Fails to compile unless the type implements every one of the traits.
#[macro_export]
macro_rules! has {
    ($type:ty: $($bound:path),+ $(,)?) => {
        const _: () = {
            const fn implements<T: ?Sized $(+ $bound)+>() {}
            implements::<$type>();
        };
    };
}

/// Fails to compile if the type implements one of the traits.
///
/// If it does, two implementations of `Ambiguous` serve the call and inference cannot choose.
#[macro_export]
macro_rules! lacks {
    ($type:ty: $($bound:path),+ $(,)?) => {
        $(const _: () = {
            trait Ambiguous<Marker> {
                const CHECKED: () = ();
            }
            struct Implements;
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + $bound> Ambiguous<Implements> for T {}
            let _ = Implements;
            <$type as Ambiguous<_>>::CHECKED
        };)+
    };
}

#[cfg(test)]
mod tests {
    lacks!(std::rc::Rc<u8>: Send, Sync);
    has!(std::rc::Rc<u8>: Clone);
}
