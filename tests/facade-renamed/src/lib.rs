//! A crate that knows only the facade, under another name.
