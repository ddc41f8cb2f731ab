//! A crate without std that links the lower layers.
#![no_std]
