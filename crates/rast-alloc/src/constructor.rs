//! Constructors that are constant where a constant can hold an atomic: everywhere but in models.

/// A constructor, `const` outside of models.
macro_rules! constructor {
    ($(#[$meta:meta])* pub fn $name:ident($($argument:ident: $of:ty),*) $body:block) => {
        $(#[$meta])*
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        #[must_use]
        pub const fn $name($($argument: $of),*) -> Self $body

        $(#[$meta])*
        #[cfg(any(rast_loom, rast_shuttle))]
        #[must_use]
        pub fn $name($($argument: $of),*) -> Self $body
    };
}

pub(crate) use constructor;
