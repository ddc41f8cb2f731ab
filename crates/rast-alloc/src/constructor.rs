//! Constructors that are `const` outside of models, where an atomic can be made in a constant.

/// Defines a constructor, `const` outside of models, without a `Default` implementation.
macro_rules! constructor {
    ($(#[$meta:meta])* pub fn new() $body:block) => {
        $crate::constructor::constructor! {
            @made
            $(#[$meta])*
            #[expect(
                clippy::new_without_default,
                reason = "hidden: for the heaps and the models alone"
            )]
            pub fn new() $body
        }
    };

    ($(#[$meta:meta])* pub fn $name:ident($($argument:ident: $of:ty),*) $body:block) => {
        $crate::constructor::constructor! {
            @made
            $(#[$meta])*
            pub fn $name($($argument: $of),*) $body
        }
    };

    (@made $(#[$meta:meta])* pub fn $name:ident($($argument:ident: $of:ty),*) $body:block) => {
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
